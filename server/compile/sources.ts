// Environments as prime-rl is told of them: `v1` sources of 2026-08, `v0` entries of 2026-01; for training and for
// evaluation. Which package stands for which id is environments.ts.

import { merge } from '../../configs/override.ts'
import type { Table } from '../../configs/path.ts'
import type { RunConfig } from '../../configs/schema.ts'
import { counterpartOf } from './environments.ts'
import { isDefault, made, type Outcome, parts, type Row } from './target.ts'

type Era = 'v0' | 'v1'
type Entry = RunConfig['env'][number] | RunConfig['eval']['env'][number]

export const defined = (path: string, value: unknown): Outcome => ({ set: { [path]: value } })

const isEmpty = (table: Table): boolean => Object.keys(table).length === 0

/** One entry, in their words, and what there is to say about it. `path` is where it stands in ours. */
function entryOf(entry: Entry, path: string, era: Era): { table: Table; outcomes: Outcome[] } {
  const { id, args, outcomes } = counterpartOf(entry, path)
  const harness = 'harness' in entry ? entry.harness : {}
  const named = entry.name === undefined ? {} : { name: entry.name }
  if (era === 'v0') {
    if (!isEmpty(harness))
      outcomes.push({
        act: 'refuse',
        why: `${path}.harness cannot go along: harnesses came with the environments of 2026-08.`,
        at: `${path}.harness`,
      })
    return { table: { id, ...named, ...(isEmpty(args) ? {} : { args }), ...entry.remote }, outcomes }
  }
  if (Object.hasOwn(args, 'id'))
    outcomes.push({
      act: 'refuse',
      why: `${path}.args.id cannot go along: arguments stand beside the id of the environment there. Rename the argument in the environment.`,
      at: `${path}.args.id`,
    })
  const env: Table = { taskset: { ...args, id }, ...(isEmpty(harness) ? {} : { agent: { harness } }) }
  return { table: merge({ ...named, env }, entry.remote) as Table, outcomes }
}

/** The curriculum of the run, said for one source; nothing where sources have curricula of their own. */
function curriculumOf(config: RunConfig): Table {
  if (config.env.some(({ remote }) => remote.curriculum !== undefined)) return {}
  const { sampler, advantage_range: range } = config.curriculum
  const gate = range ?? (config.buffer.online_difficulty_filtering ? { reject_min: 0, reject_max: 0 } : null)
  const curriculum: Table = {
    ...(sampler === 'standard' ? {} : { sampler: { type: sampler } }),
    ...(gate ? { gates: { informative: { type: 'advantage_range', ...gate } } } : {}),
  }
  return isEmpty(curriculum) ? {} : { curriculum }
}

function ownCurricula({ env }: RunConfig): Outcome[] {
  const i = env.findIndex(({ remote }) => remote.curriculum !== undefined)
  if (i < 0) return []
  const why =
    'A curriculum that a source says for itself goes along as it is, and that of the run is not repeated for the others.'
  return [
    { act: 'note', why, at: `env[${i}].remote.curriculum`, also: ['curriculum', 'buffer.online_difficulty_filtering'] },
  ]
}

export function sourceRows(list: string, era: Era): Row[] {
  return [
    made('env', list, 'one entry for each environment, by its Python counterpart', (config) => {
      if (config.env.length === 0)
        return [
          {
            act: 'refuse',
            why: 'No environment is given, and a run without one has nothing to learn from; add [[env]] with an id.',
          },
        ]
      const entries = config.env.map((env, i) => {
        const { table, outcomes } = entryOf(env, `env[${i}]`, era)
        const ratio = era === 'v1' && env.ratio !== 1 ? { ratio: env.ratio } : {}
        const common = era === 'v1' ? { ...ratio, ...curriculumOf(config) } : {}
        return { table: merge(common, table) as Table, outcomes }
      })
      const ratios = config.env.map(({ ratio }) => ratio)
      const unequal = era === 'v0' && ratios.some((ratio) => ratio !== 1)
      return [
        {
          set: {
            [list]: entries.map(({ table }) => table),
            ...(unequal ? { 'orchestrator.buffer.env_ratios': ratios } : {}),
          },
        },
        ...entries.flatMap(({ outcomes }) => outcomes),
        ...ownCurricula(config),
      ]
    }),
    ...parts('env', ...['id', 'name', 'args', 'ratio', 'harness', 'remote'].map((key) => `env[].${key}`)),
  ]
}

const OWN_WORDS = {
  v0: { group: 'rollouts_per_example', tokens: 'max_tokens', list: 'env' },
  v1: { group: 'group_size', tokens: 'max_completion_tokens', list: 'source' },
}

const LEFT_OPEN = ['temperature', 'max_tokens', 'top_p', 'top_k', 'min_p', 'env']

const REST = ['num_examples', 'rollouts_per_example', 'skip_first_step', ...LEFT_OPEN]

const BODY = ['repetition_penalty', 'presence_penalty', 'frequency_penalty', 'min_tokens', 'stop'] as const

/** What training puts into the body of a request beyond its defaults; evaluation here samples with it too. */
export function bodyOf(config: RunConfig): Table {
  const keys = BODY.filter((key) => !isDefault(config, `sampling.${key}`))
  return Object.fromEntries(keys.map((key) => [key, config.sampling[key]]))
}

/** Without an interval nothing is evaluated, and what is said about it does nothing. */
export function idleEvaluation(config: RunConfig): Outcome[] {
  const idle = REST.map((key) => `eval.${key}`).filter((knob) => !isDefault(config, knob))
  return idle.map((knob) => ({
    act: 'note',
    why: `${knob} does nothing without eval.interval, and is left out.`,
    at: knob,
  }))
}

export function evaluationRow(era: Era): Row[] {
  const words = OWN_WORDS[era]
  const base = 'orchestrator.eval'
  return [
    made('eval.interval', base, 'said in full; without an interval nothing is evaluated', (config) => {
      const { eval: e, sampling: s } = config
      if (e.interval === null) return idleEvaluation(config)
      const entries = (
        e.env.length > 0 ? e.env : config.env.map(({ remote: _, ...env }) => ({ ...env, remote: {} }))
      ).map((env, i) => {
        const { table, outcomes } = entryOf(env, e.env.length > 0 ? `eval.env[${i}]` : `env[${i}]`, era)
        const own = {
          ...('num_examples' in env && env.num_examples !== null ? { num_examples: env.num_examples } : {}),
          ...('rollouts_per_example' in env && env.rollouts_per_example !== null
            ? { [words.group]: env.rollouts_per_example }
            : {}),
        }
        return { table: { ...table, ...own }, outcomes: e.env.length > 0 ? outcomes : [] }
      })
      const skip =
        era === 'v1'
          ? { [`${base}.skip_first_step`]: e.skip_first_step }
          : { [`${base}.eval_base_model`]: !e.skip_first_step }
      return [
        {
          set: {
            [`${base}.interval`]: e.interval,
            [`${base}.num_examples`]: e.num_examples,
            [`${base}.${words.group}`]: e.rollouts_per_example,
            ...skip,
            [`${base}.sampling.temperature`]: e.temperature ?? s.temperature,
            [`${base}.sampling.${words.tokens}`]: e.max_tokens ?? s.max_tokens,
            [`${base}.sampling.top_p`]: e.top_p ?? s.top_p,
            [`${base}.sampling.top_k`]: e.top_k ?? s.top_k,
            [`${base}.sampling.min_p`]: e.min_p ?? s.min_p,
            [`${base}.sampling.extra_body`]: isEmpty(bodyOf(config)) ? undefined : bodyOf(config),
            [`${base}.${words.list}`]: entries.map(({ table }) => table),
          },
          act: 'note',
          why: 'eval says in full what is left to the values of training here; there a value left out is that of the inference server.',
          at: 'eval.interval',
          also: ['remote.prime_rl.orchestrator.eval', ...LEFT_OPEN.map((key) => `eval.${key}`)],
        },
        ...entries.flatMap(({ outcomes }) => outcomes),
      ]
    }),
    ...parts('eval.interval', ...REST.map((key) => `eval.${key}`)),
    ...parts(
      'eval.interval',
      ...['id', 'name', 'args', 'num_examples', 'rollouts_per_example', 'remote'].map((key) => `eval.env[].${key}`),
    ),
  ]
}
