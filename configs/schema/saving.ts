// Knobs of evaluation on held-out examples, and of what is kept.

import { z } from 'zod'
import { knob } from '../knob.ts'

const count = (value: number) => z.number().int().min(1).default(value)
const optionalCount = z.number().int().min(1).nullable().default(null)

const group = 'Evaluation' as const

export const evaluation = z
  .strictObject({
    interval: knob(optionalCount, {
      label: 'Every',
      help: 'Steps between evaluations on held-out examples, one before and one after included. Empty: none.',
      group,
      unit: 'steps',
    }),
    num_examples: knob(count(128), {
      label: 'Held-out examples',
      help: 'Examples asked each time, always the same ones. 100 and more give a mean worth comparing.',
      group,
      unit: 'examples',
    }),
    rollouts_per_example: knob(count(1), {
      label: 'Answers to each',
      help: 'Rollouts per held-out example; several give pass@k.',
      group,
      unit: 'rollouts',
    }),
    skip_first_step: knob(z.boolean().default(false), {
      label: 'Skip the first',
      help: 'Leave out the evaluation before the first update, the baseline.',
      group,
    }),
    temperature: knob(z.number().min(0).max(2).nullable().default(null), {
      label: 'Temperature',
      help: '0 always takes the likeliest token. Empty: the training temperature, so that both curves mean the same.',
      group,
    }),
    max_tokens: knob(optionalCount, {
      label: 'Longest completion',
      help: 'Empty: as in training.',
      group,
      unit: 'tokens',
    }),
    top_p: knob(z.number().min(0).max(1).nullable().default(null), {
      label: 'Top-p',
      help: 'Empty: as in training.',
      group,
    }),
    top_k: knob(z.number().int().min(-1).nullable().default(null), {
      label: 'Top-k',
      help: 'Empty: as in training.',
      group,
    }),
    min_p: knob(z.number().min(0).max(1).nullable().default(null), {
      label: 'Min-p',
      help: 'Empty: as in training.',
      group,
    }),
    env: knob(
      z
        .array(
          z.strictObject({
            id: knob(z.string().min(1), { label: 'Environment', help: 'What is asked and how it is judged.', group }),
            name: knob(z.string().optional(), { label: 'Name', help: 'What metrics call it.', group }),
            args: knob(z.record(z.string(), z.unknown()).default({}), {
              label: 'Arguments',
              help: "The environment's own knobs.",
              group,
            }),
            num_examples: knob(optionalCount, { label: 'Held-out examples', help: 'Empty: as for the others.', group }),
            rollouts_per_example: knob(optionalCount, {
              label: 'Answers to each',
              help: 'Empty: as for the others.',
              group,
            }),
            remote: knob(z.record(z.string(), z.unknown()).default({}), {
              label: 'Remote settings',
              help: 'What prime-rl may be told about this environment alone.',
              group: 'Remote',
              used: 'remote',
            }),
          }),
        )
        .default([]),
      {
        label: 'Other environments',
        help: 'Environments to evaluate on instead of those that train.',
        group,
        used: 'not yet',
      },
    ),
  })
  .prefault({})

export const checkpointing = z
  .strictObject({
    save_every_n_steps: knob(optionalCount, {
      label: 'Keep a checkpoint every',
      help: 'Steps between checkpoints that are kept; 50 in the documents. A run saves itself all the time in any case. Empty: only the last.',
      group: 'Saving',
      unit: 'steps',
    }),
    keep_n_checkpoints: knob(optionalCount, {
      label: 'Newest kept',
      help: 'How many of them stay; the oldest goes first. Empty: all.',
      group: 'Saving',
      unit: 'checkpoints',
    }),
    keep_every_n_steps: knob(optionalCount, {
      label: 'Never removed every',
      help: 'Checkpoints at multiples of this many steps stay for good.',
      group: 'Saving',
      unit: 'steps',
    }),
  })
  .prefault({})

export const adapters = z
  .strictObject({
    interval: knob(z.number().int().min(0).nullable().default(null), {
      label: 'Export adapters every',
      help: 'Steps between adapters written out by themselves; 0: at the end only. Here the adapter can be downloaded at any time.',
      group: 'Saving',
      unit: 'steps',
      used: 'remote',
    }),
    keep_last: knob(optionalCount, {
      label: 'Exports kept',
      help: 'How many exported adapters stay. Empty: all.',
      group: 'Saving',
      used: 'remote',
    }),
  })
  .prefault({})

const wandbField = (label: string, help: string) =>
  knob(z.string().optional(), { label, help, group: 'Saving', used: 'remote' })

export const wandb = z
  .strictObject({
    project: wandbField(
      'W&B project',
      'Where full-size runs log their metrics. Runs in this tab draw their own charts.',
    ),
    name: wandbField('W&B run', 'What the run is called there.'),
    entity: wandbField('W&B entity', 'User or team there.'),
    group: wandbField('W&B group', 'Runs that belong together.'),
    tags: knob(z.array(z.string()).optional(), {
      label: 'W&B tags',
      help: 'Words to find the run by.',
      group: 'Saving',
      used: 'remote',
    }),
    offline: knob(z.boolean().optional(), {
      label: 'W&B offline',
      help: 'Write the log to disk only.',
      group: 'Saving',
      used: 'remote',
    }),
  })
  .optional()

export const envFiles = knob(z.array(z.string()).default([]), {
  label: 'Secrets files',
  help: 'Files of NAME=value lines, relative to the config, with the keys that an environment needs (a judge, for example). Never read in a tab.',
  group: 'Remote',
  used: 'remote',
})
