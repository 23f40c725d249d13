// What `type = "gepa"` uses: a system prompt made better by a reflecting model, weights left as they are.

import { z } from 'zod'
import { knob, knobsOf } from '../knob.ts'
import { sampling } from './rollouts.ts'

const group = 'Learning' as const
const used = 'not yet' as const
const count = (value: number) => z.number().int().min(1).default(value)

export const gepaConfig = z.strictObject({
  type: knob(z.literal('gepa').default('gepa'), { label: 'Job', help: 'Optimises a system prompt.', group }),
  env_id: knob(z.string().min(1), { label: 'Environment', help: 'What is asked and how it is judged.', group }),
  env_args: knob(z.record(z.string(), z.unknown()).default({}), {
    label: 'Arguments',
    help: "The environment's own knobs.",
    group,
  }),
  model: knob(z.string().min(1), {
    label: 'Model',
    help: 'Answers the prompts: a model, or an alias of endpoints.toml.',
    group,
  }),
  reflection_model: knob(z.string().nullable().default(null), {
    label: 'Reflecting model',
    help: 'Reads answers and rewards and proposes the next prompt. Empty: the same as the model.',
    group,
  }),
  max_calls: knob(count(500), {
    label: 'Budget',
    help: 'Rollouts in the whole search.',
    group,
    unit: 'rollouts',
  }),
  num_train: knob(count(100), { label: 'Training examples', help: 'Examples to reflect on.', group, unit: 'examples' }),
  num_val: knob(count(50), {
    label: 'Validation examples',
    help: 'Examples that rank the prompts.',
    group,
    unit: 'examples',
  }),
  minibatch_size: knob(count(3), {
    label: 'Examples per reflection',
    help: 'How many answers one reflection sees.',
    group,
    unit: 'examples',
  }),
  perfect_score: knob(z.number().nullable().default(null), {
    label: 'Perfect score',
    help: 'A minibatch that reaches this is not reflected on. Empty: never.',
    group,
  }),
  state_columns: knob(z.array(z.string()).default([]), {
    label: 'Columns to reflect on',
    help: 'What else of a rollout the reflecting model sees, parsed_answer for example.',
    group,
  }),
  initial_prompt: knob(z.string().nullable().default(null), {
    label: 'First prompt',
    help: "Where the search begins. Empty: the environment's own system prompt.",
    group,
  }),
  shuffle: knob(z.boolean().default(true), {
    label: 'Shuffle',
    help: 'Draw examples in a seeded random order.',
    group,
  }),
  seed: knob(z.number().int().min(0).default(0), { label: 'Seed', help: 'Of examples and of the search.', group }),
  max_concurrent: knob(count(32), {
    label: 'Rollouts at once',
    help: 'Open requests to the model.',
    group,
    unit: 'rollouts',
  }),
  endpoints_path: knob(z.string().default('configs/endpoints.toml'), {
    label: 'Endpoints',
    help: 'The file of aliases of model servers.',
    group: 'Remote',
    used,
  }),
  sampling,
  remote: knob(z.record(z.string(), z.unknown()).default({}), {
    label: 'Kept',
    help: 'Fields without a counterpart here.',
    group: 'Remote',
    used: 'remote',
  }),
})

export type GepaConfig = z.output<typeof gepaConfig>

export const gepaKnobs = knobsOf(gepaConfig)
