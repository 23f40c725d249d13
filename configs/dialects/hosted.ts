// Hosted Training (the flat dialect as `prime train` reads it today) -> ours.

import { formatPath, isTable, type Table } from '../path.ts'
import type { Convert, Dialect, Outcome } from './dialect.ts'

/** Knobs of sampling that Hosted Training knows in the body of a request alone. */
export const BODY_KNOBS = [
  'top_p',
  'top_k',
  'min_p',
  'repetition_penalty',
  'presence_penalty',
  'frequency_penalty',
  'min_tokens',
  'stop',
] as const

const inBody: readonly string[] = BODY_KNOBS

/** Sampling knobs that the request body may carry move to their own names; the rest stays in it. */
export const extraBody: Convert = (value) => {
  if (!isTable(value)) return { set: { 'sampling.extra_body': value } }
  const set: Table = {}
  const rest: Table = {}
  for (const [key, entry] of Object.entries(value)) {
    if (inBody.includes(key)) set[`sampling.${key}`] = entry
    else rest[key] = entry
  }
  if (Object.keys(rest).length > 0) set['sampling.extra_body'] = rest
  return { set }
}

/** The same for evaluation, which has fewer names of its own. */
const evaluationBody: Convert = (value) => {
  if (!isTable(value)) return { set: { 'remote.prime_rl.orchestrator.eval.sampling.extra_body': value } }
  const outcome: Outcome = { set: {} }
  for (const [key, entry] of Object.entries(value)) {
    const home = ['top_p', 'top_k', 'min_p'].includes(key)
      ? 'eval'
      : 'remote.prime_rl.orchestrator.eval.sampling.extra_body'
    outcome.set = { ...outcome.set, [formatPath([...home.split('.'), key])]: entry }
  }
  return outcome
}

/** `{ id, …knobs }` of a task set is an environment and its arguments. */
export const taskset: Convert = (value, to) => {
  if (!isTable(value)) return { problem: 'a taskset is a table with an id' }
  const { id, ...args } = value
  return { set: { [to('env[].id')]: id, ...(Object.keys(args).length > 0 ? { [to('env[].args')]: args } : {}) } }
}

// The training environments have a key of their own for it; those of evaluation keep it for a full-size run.
const evaluationHarness: Convert = (value, to) => ({ set: { [to('eval.env[].remote.env.agent.harness')]: value } })

const all =
  (path: string): Convert =>
  (value) => ({ set: { [path]: value === -1 ? null : value } })

// A zero-advantage filter before the batch is cut is the advantage gate; after it, the zero-advantage switch.
const preBatchFilters: Convert = (value) => {
  if (!Array.isArray(value)) return { set: { pre_batch_filters: value } }
  const outcome: Outcome = { set: {} }
  const rest = value.filter((filter) => !isTable(filter) || filter.type !== 'zero_advantage' || filter.enforce !== true)
  if (rest.length < value.length) {
    outcome.set = { 'curriculum.advantage_range': { reject_min: 0, reject_max: 0 } }
    outcome.note =
      'a zero_advantage filter before the batch is curriculum.advantage_range = { reject_min = 0, reject_max = 0 } here'
  }
  if (rest.length > 0) outcome.set = { ...outcome.set, pre_batch_filters: rest }
  return outcome
}

const postBatchFilters: Convert = (value) => {
  const zero =
    Array.isArray(value) &&
    value.some((filter) => isTable(filter) && filter.type === 'zero_advantage' && filter.enforce === true)
  const note = 'a zero_advantage filter after the batch is filter_zero_advantages = true here'
  const kept = { 'remote.hosted.post_batch_filters': value }
  return zero ? { set: { filter_zero_advantages: true, ...kept }, note } : { set: kept }
}

const job: Convert = (value) => {
  if (value === 'rl') return {}
  return {
    set: { 'remote.hosted.loss': value },
    note: `loss = ${JSON.stringify(value)} learns from a teacher, which only Hosted Training does; a run here learns from rewards`,
    warning: true,
  }
}

export const HOSTED: Dialect = {
  name: 'Hosted Training',
  renames: {
    max_inflight_rollouts: 'max_concurrent',
    'checkpoints.interval': 'checkpointing.save_every_n_steps',
    'adapters.every': 'adapters.interval',
  },
  echoes: {
    'val.interval': 'eval.interval',
    'val.num_examples': 'eval.num_examples',
    'val.rollouts_per_example': 'eval.rollouts_per_example',
  },
  converts: {
    loss: job,
    'checkpoints.keep_cloud': all('checkpointing.keep_n_checkpoints'),
    'adapters.keep_last': all('adapters.keep_last'),
    'eval.eval_base_model': (value) => ({
      set: { 'eval.skip_first_step': typeof value === 'boolean' ? !value : value },
    }),
    type: (value) =>
      value === 'full_finetune' ? { set: { type: 'rl' }, unless: { 'lora.enabled': false } } : { set: { type: value } },
  },
  tables: {
    'sampling.extra_body': extraBody,
    'eval.sampling.extra_body': evaluationBody,
    'env[].taskset': taskset,
    'eval.env[].harness': evaluationHarness,
    pre_batch_filters: preBatchFilters,
    post_batch_filters: postBatchFilters,
  },
  keeps: Object.fromEntries(
    ['checkpoint_id', 'cluster_name', 'infrastructure', 'tailscale', 'run_config', 'teacher'].map((key) => [
      key,
      `hosted.${key}`,
    ]),
  ),
}
