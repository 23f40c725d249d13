// What `type = "eval"` uses: environments put to a model without learning, as `prime eval` files describe them.

import { z } from 'zod'
import { knob, knobsOf } from '../knob.ts'
import { sampling } from './rollouts.ts'

const group = 'Evaluation' as const
const count = (value: number) => z.number().int().min(1).default(value)
const record = () => z.record(z.string(), z.unknown())

/** What every entry may say for itself; the file's own values hold where it does not. */
const own = {
  model: knob(z.string().optional(), { label: 'Model', help: 'Of this entry alone.', group }),
  num_examples: knob(z.number().int().min(-1).optional(), { label: 'Examples', help: 'Of this entry alone.', group }),
  rollouts_per_example: knob(z.number().int().min(1).optional(), {
    label: 'Answers to each',
    help: 'Of this entry alone.',
    group,
  }),
  max_tokens: knob(z.number().int().min(1).optional(), {
    label: 'Longest completion',
    help: 'Of this entry alone.',
    group,
  }),
  temperature: knob(z.number().min(0).max(2).optional(), { label: 'Temperature', help: 'Of this entry alone.', group }),
  shuffle: knob(z.boolean().optional(), { label: 'Shuffle', help: 'Of this entry alone.', group }),
}

const what = {
  id: knob(z.string().min(1), { label: 'Environment', help: 'What is asked and how it is judged.', group }),
  name: knob(z.string().optional(), { label: 'Name', help: 'What results call it.', group }),
  args: knob(record().default({}), { label: 'Arguments', help: "The environment's own knobs.", group }),
}

export const evalConfig = z.strictObject({
  type: knob(z.literal('eval').default('eval'), { label: 'Job', help: 'Evaluates without learning.', group }),
  model: knob(z.string().min(1).default('lab-tiny'), {
    label: 'Model',
    help: 'A bundled model, a Hugging Face id, a folder, or an alias of endpoints.toml.',
    group,
  }),
  adapter: knob(z.string().nullable().default(null), {
    label: 'Adapter',
    help: 'Folder of a PEFT adapter to put on the model, from a run. Empty: none.',
    group,
  }),
  num_examples: knob(z.number().int().min(-1).default(5), {
    label: 'Examples',
    help: 'Held-out examples of each environment; −1 for all. The documents use 5 for a first look, 20 for reward diversity, 100 for a baseline.',
    group,
    unit: 'examples',
  }),
  rollouts_per_example: knob(count(3), {
    label: 'Answers to each',
    help: 'Rollouts per example; 8 show whether rewards vary within groups.',
    group,
    unit: 'rollouts',
  }),
  max_concurrent: knob(count(32), { label: 'Rollouts at once', help: 'Open rollouts.', group, unit: 'rollouts' }),
  seed: knob(z.number().int().min(0).default(0), { label: 'Seed', help: 'Of examples and sampling.', group }),
  shuffle: knob(z.boolean().default(false), {
    label: 'Shuffle',
    help: 'Draw examples in a seeded random order.',
    group,
  }),
  save_results: knob(z.boolean().default(true), { label: 'Save results', help: 'Write every rollout to disk.', group }),
  state_columns: knob(z.array(z.string()).default([]), {
    label: 'Columns',
    help: 'What else of a rollout is written.',
    group,
  }),
  endpoints_path: knob(z.string().default('configs/endpoints.toml'), {
    label: 'Endpoints',
    help: 'The file of aliases of model servers.',
    group: 'Remote',
    used: 'not yet',
  }),
  sampling,
  eval: knob(z.array(z.strictObject({ ...what, ...own })).default([]), {
    label: 'Evaluations',
    help: 'One entry for each environment to be evaluated.',
    group,
  }),
  ablation: knob(
    z
      .array(
        z.strictObject({
          ...what,
          ...own,
          sweep: knob(record().default({}), {
            label: 'Sweep',
            help: 'From a knob, or a knob of args, to the list of values it takes in turn.',
            group,
          }),
        }),
      )
      .default([]),
    {
      label: 'Ablations',
      help: 'Entries whose [ablation.sweep] lists several values of a knob; every combination is evaluated.',
      group,
    },
  ),
  remote: knob(record().default({}), {
    label: 'Kept',
    help: 'Fields without a counterpart here.',
    group: 'Remote',
    used: 'remote',
  }),
})

export type EvalConfig = z.output<typeof evalConfig>

export const evalKnobs = knobsOf(evalConfig)

/** One environment put to one model, with everything settled. */
export interface Evaluation {
  id: string
  name: string
  args: Record<string, unknown>
  model: string
  num_examples: number
  rollouts_per_example: number
  max_tokens: number
  temperature: number
  shuffle: boolean
}

/** The entries of a file, each ablation opened into all its combinations, in the order of the file. */
export function evaluations(config: EvalConfig): Evaluation[] {
  const entries = [
    ...config.eval.map((entry) => ({ entry, swept: '' })),
    ...config.ablation.flatMap(({ sweep, ...entry }) =>
      combinations(sweep).map((chosen) => ({
        entry: { ...entry, ...chosen.knobs, args: { ...entry.args, ...chosen.args } } as (typeof config.eval)[number],
        swept: chosen.name,
      })),
    ),
  ]
  return entries.map(({ entry, swept }) => ({
    id: entry.id,
    name: [entry.name ?? entry.id, swept].filter(Boolean).join(' '),
    args: entry.args,
    model: entry.model ?? config.model,
    num_examples: entry.num_examples ?? config.num_examples,
    rollouts_per_example: entry.rollouts_per_example ?? config.rollouts_per_example,
    max_tokens: entry.max_tokens ?? config.sampling.max_tokens,
    temperature: entry.temperature ?? config.sampling.temperature,
    shuffle: entry.shuffle ?? config.shuffle,
  }))
}

interface Choice {
  name: string
  knobs: Record<string, unknown>
  args: Record<string, unknown>
}

function combinations(sweep: Record<string, unknown>): Choice[] {
  let choices: Choice[] = [{ name: '', knobs: {}, args: {} }]
  const open = (key: string, values: unknown, into: 'knobs' | 'args') => {
    const list = Array.isArray(values) ? values : [values]
    choices = choices.flatMap((choice) =>
      list.map((value) => ({
        ...choice,
        name: [choice.name, `${key}=${value}`].filter(Boolean).join(' '),
        [into]: { ...choice[into], [key]: value },
      })),
    )
  }
  for (const [key, values] of Object.entries(sweep)) {
    if (key === 'args' || key === 'env_args') {
      for (const [arg, each] of Object.entries((values ?? {}) as object)) open(arg, each, 'args')
    } else open(key, values, 'knobs')
  }
  return choices
}
