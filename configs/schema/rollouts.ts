// Knobs of what is asked and how it is answered: batch and groups, sampling, environments.

import { z } from 'zod'
import { knob } from '../knob.ts'

const group = 'Rollouts' as const
const count = (value: number) => z.number().int().min(1).default(value)

export const batchSize = knob(count(128), {
  label: 'Rollouts per step',
  help: 'Rollouts in one step, not groups; divisible by rollouts_per_example. 128 for quick tests and simple environments, 512 for long or hard ones; larger is steadier and slower.',
  group,
  unit: 'rollouts',
})

export const rolloutsPerExample = knob(count(8), {
  label: 'Rollouts per example',
  help: 'Answers to each prompt; their mean is the baseline. 8 for quick tests, 16 for hard or long tasks, 32 when rewards swing; at least 2.',
  group,
  unit: 'rollouts',
})

export const maxAsyncLevel = knob(z.number().int().min(0).default(0), {
  label: 'Async level',
  help: 'Batches that sampling may run ahead of learning. 0 trains on the policy that sampled; with 1 the next batch is answered while this one is learned, by the policy before that update; the documents use 1. More than 1 is 1 here. Reduce it when rewards swing.',
  group,
  unit: 'batches',
})

export const maxOffPolicySteps = knob(z.number().int().min(0).default(8), {
  label: 'Oldest usable rollout',
  help: 'Rollouts sampled by a policy more than this many updates old are dropped with their group. It matters only above async level 0.',
  group,
  unit: 'steps',
})

export const oversamplingFactor = knob(z.number().min(1).default(1), {
  label: 'Oversampling',
  help: 'Rollouts in flight as a multiple of the batch, so that filtered groups are replaced. The documents suggest 2 with mostly binary rewards.',
  group,
  unit: '×',
})

export const maxConcurrent = knob(z.number().int().min(1).nullable().default(null), {
  label: 'Rollouts in flight',
  help: 'Most rollouts open at once; at least rollouts_per_example × workers_per_env. Empty: chosen from memory.',
  group,
  unit: 'rollouts',
  used: 'not yet',
  instead: 'browser.slots says how many rollouts decode together',
})

export const workersPerEnv = knob(count(1), {
  label: 'Workers per environment',
  help: 'Processes that run each environment. The page uses one worker for all of them.',
  group,
  used: 'not yet',
  instead: 'one worker runs all environments',
})

const share = (value: number) => z.number().min(0).max(1).default(value)

const scheduled = <S extends z.ZodType>(schema: S, label: string, help: string) =>
  knob(schema, { label, help, group, used: 'not yet' })

export const temperatureSchedule = z.strictObject({
  type: scheduled(z.enum(['linear', 'cosine']).default('linear'), 'Shape', 'How the temperature moves.'),
  start: scheduled(z.number().positive().max(2), 'From', 'Temperature of the first step.'),
  end: scheduled(z.number().positive().max(2), 'To', 'Temperature of the last step of the schedule.'),
  total_steps: scheduled(z.number().int().min(1).nullable().default(null), 'Over', 'Steps; empty: the whole run.'),
})

export const sampling = z
  .strictObject({
    max_tokens: knob(count(512), {
      label: 'Longest completion',
      help: 'Tokens the policy may write in one turn. Set it near the longest right answer: what lies beyond costs time and teaches little.',
      group,
      unit: 'tokens',
    }),
    temperature: knob(z.number().min(0).max(2).default(1), {
      label: 'Temperature',
      help: 'Logits are divided by it before sampling. 0.8 to 1 keeps a group diverse, which is what it learns from; 0 is for evaluation only.',
      group,
    }),
    temp_scheduler: knob(temperatureSchedule.nullable().default(null), {
      label: 'Temperature schedule',
      help: 'Moves the temperature from start to end over the run, instead of a fixed one.',
      group,
      used: 'not yet',
      instead: 'the temperature stays at sampling.temperature',
    }),
    top_p: knob(share(1), {
      label: 'Top-p',
      help: 'Sample only among the likeliest tokens that hold this much probability. 1 is off, and exact; below it the importance ratio is approximate.',
      group,
    }),
    top_k: knob(z.number().int().min(-1).default(-1), {
      label: 'Top-k',
      help: 'Sample only among this many likeliest tokens. −1 is off, and exact.',
      group,
      unit: 'tokens',
    }),
    min_p: knob(share(0), {
      label: 'Min-p',
      help: 'Leave out tokens less likely than this share of the likeliest one. 0 is off, and exact.',
      group,
    }),
    repetition_penalty: knob(z.number().positive().default(1), {
      label: 'Repetition penalty',
      help: 'Divides the positive logits of tokens already seen, multiplies the negative ones. 1 is off, and exact.',
      group,
    }),
    presence_penalty: knob(z.number().min(-2).max(2).default(0), {
      label: 'Presence penalty',
      help: 'Subtracted once from the logit of every token already written.',
      group,
      used: 'not yet',
    }),
    frequency_penalty: knob(z.number().min(-2).max(2).default(0), {
      label: 'Frequency penalty',
      help: 'Subtracted from the logit of a token for every time it was written.',
      group,
      used: 'not yet',
    }),
    min_tokens: knob(z.number().int().min(0).default(0), {
      label: 'Shortest completion',
      help: 'A completion cannot end before this many tokens.',
      group,
      unit: 'tokens',
      used: 'not yet',
    }),
    stop: knob(z.array(z.string().min(1)).default([]), {
      label: 'Stop strings',
      help: "A completion ends where one of these appears, besides the model's own end token.",
      group,
    }),
    enable_thinking: knob(z.boolean().nullable().default(null), {
      label: 'Thinking',
      help: 'Given to the chat template of models that can think aloud. Not together with reasoning_effort.',
      group,
    }),
    reasoning_effort: knob(z.enum(['minimal', 'low', 'medium', 'high']).nullable().default(null), {
      label: 'Reasoning effort',
      help: 'How long a reasoning model may think. Not together with enable_thinking.',
      group,
      used: 'remote',
    }),
    extra_body: knob(z.record(z.string(), z.unknown()).default({}), {
      label: 'Extra sampling fields',
      help: 'Further fields of the request to the inference server.',
      group,
      used: 'remote',
    }),
  })
  .prefault({})

export const env = knob(
  z
    .array(
      z.strictObject({
        id: knob(z.string().min(1), {
          label: 'Environment',
          help: 'A bundled environment such as reverse-text, or owner/name of the Environments Hub.',
          group,
        }),
        name: knob(z.string().optional(), {
          label: 'Name',
          help: 'What metrics and samples call it; the id unless given. Two entries need two names.',
          group,
        }),
        args: knob(z.record(z.string(), z.unknown()).default({}), {
          label: 'Arguments',
          help: "The environment's own knobs, such as the length of a text or the number of turns.",
          group,
        }),
        ratio: knob(z.number().positive().default(1), {
          label: 'Share',
          help: 'How often it is drawn, relative to the other environments.',
          group,
        }),
        harness: knob(z.record(z.string(), z.unknown()).default({}), {
          label: 'Harness',
          help: 'The program that talks to the model at full size; a plain chat loop unless given.',
          group,
          used: 'remote',
        }),
        remote: knob(z.record(z.string(), z.unknown()).default({}), {
          label: 'Remote settings',
          help: 'What prime-rl may be told about this environment alone: its own sampling, algorithm, curriculum and server.',
          group: 'Remote',
          used: 'remote',
        }),
      }),
    )
    .default([]),
  {
    label: 'Environments',
    help: 'What is asked and how it is judged. With several, each step draws from them by their shares.',
    group,
  },
)
