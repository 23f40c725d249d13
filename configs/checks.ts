// What no single knob can say: rules that tie knobs together.
// Works on a config whose types and ranges are right already.

import type { NoteKind } from './report.ts'
import type { RunConfig } from './schema.ts'
import { numberText } from './sentences.ts'

export interface Check {
  /** Ours, dotted; load.ts finds where the file says it. */
  path: string
  /** The other side of the disagreement, shown where the file does not say `path`. */
  or?: string
  sentence: string
  /** What the place points at: the value unless given. */
  what?: 'key' | 'value'
  /** A problem unless given. */
  kind?: NoteKind
  warning?: boolean
}

/** `given` tells whether the file sets a path itself. */
export function checkRun(config: RunConfig, given: (path: string) => boolean): Check[] {
  const rl = config.type === 'rl'
  return [
    ...(rl ? [...groups(config), ...sampling(config, given), ...environments(config), ...filters(config)] : []),
    ...schedule(config),
  ]
}

function groups(config: RunConfig): Check[] {
  const found: Check[] = []
  const { batch_size: batch, rollouts_per_example: group } = config
  if (batch % group !== 0) {
    const below = Math.floor(batch / group) * group
    const use = below > 0 ? `${below} or ${below + group}` : `${group}`
    found.push({
      path: 'batch_size',
      or: 'rollouts_per_example',
      sentence: `batch_size = ${batch} cannot be split into groups of rollouts_per_example = ${group}; use ${use}.`,
    })
  }
  if (group === 1 && config.advantage.type !== 'none') {
    found.push({
      path: 'rollouts_per_example',
      sentence: `rollouts_per_example = 1 leaves nothing to compare with: advantage.type = "${config.advantage.type}" measures a rollout against its group. Use 8 or 16, or advantage.type = "none".`,
    })
  }
  const least = group * config.workers_per_env
  if (config.max_concurrent !== null && config.max_concurrent < least) {
    found.push({
      path: 'max_concurrent',
      or: 'rollouts_per_example',
      sentence: `max_concurrent = ${config.max_concurrent} is too small for rollouts_per_example = ${group} × workers_per_env = ${config.workers_per_env}; use ${least} or more.`,
    })
  }
  if (config.micro_batch_size > batch) {
    found.push({
      path: 'micro_batch_size',
      sentence: `micro_batch_size = ${config.micro_batch_size} is more than the ${batch} rollouts of a step; a single pass takes them all.`,
      kind: 'advice',
    })
  }
  return found
}

function sampling(config: RunConfig, given: (path: string) => boolean): Check[] {
  const found: Check[] = []
  const { sampling: s } = config
  const rises = s.temp_scheduler
  if (s.temperature === 0) {
    found.push({
      path: 'sampling.temperature',
      sentence:
        'sampling.temperature = 0 gives every rollout of a group the same tokens, so there is nothing to learn; use 0.8 to 1. Temperature 0 is for eval.temperature.',
    })
  }
  const cut = [
    s.top_p < 1 && 'sampling.top_p',
    s.top_k > 0 && 'sampling.top_k',
    s.min_p > 0 && 'sampling.min_p',
    s.repetition_penalty !== 1 && 'sampling.repetition_penalty',
  ].filter((path): path is string => path !== false)
  for (const path of cut) {
    found.push({
      path,
      sentence: `${path} changes the distribution that is sampled from, while π and μ are those of the whole vocabulary; the importance ratio is then approximate.`,
      kind: 'advice',
    })
  }
  if (s.top_k === 0) {
    found.push({ path: 'sampling.top_k', sentence: 'sampling.top_k = 0 is off, as −1 is.', kind: 'advice' })
  }
  if (s.enable_thinking !== null && s.reasoning_effort !== null) {
    found.push({
      path: 'sampling.reasoning_effort',
      sentence: 'sampling.enable_thinking and sampling.reasoning_effort exclude each other; keep one of them.',
    })
  }
  if (s.min_tokens > s.max_tokens) {
    found.push({
      path: 'sampling.min_tokens',
      or: 'sampling.max_tokens',
      sentence: `sampling.min_tokens = ${s.min_tokens} is more than sampling.max_tokens = ${s.max_tokens}.`,
    })
  }
  if (s.max_tokens >= config.seq_len) {
    found.push({
      path: 'sampling.max_tokens',
      or: 'seq_len',
      sentence: `sampling.max_tokens = ${s.max_tokens} leaves no room for a prompt in seq_len = ${config.seq_len}; raise seq_len or lower max_tokens.`,
    })
  }
  if (rises && given('sampling.temperature')) {
    found.push({
      path: 'sampling.temp_scheduler',
      sentence: 'sampling.temperature and sampling.temp_scheduler both set the temperature; keep one of them.',
    })
  }
  if (rises?.total_steps != null && rises.total_steps > config.max_steps) {
    found.push({
      path: 'sampling.temp_scheduler',
      sentence: `The temperature schedule of ${rises.total_steps} steps is longer than max_steps = ${config.max_steps}.`,
      kind: 'advice',
    })
  }
  return found
}

function environments(config: RunConfig): Check[] {
  const found: Check[] = []
  const seen = new Set<string>()
  config.env.forEach((env, i) => {
    const name = env.name ?? env.id
    if (seen.has(name)) {
      found.push({
        path: `env[${i}].${env.name === undefined ? 'id' : 'name'}`,
        sentence: `Two environments are called ${name}; give one of them another name.`,
      })
    }
    seen.add(name)
  })
  if (config.env.length === 0) {
    found.push({
      path: 'env',
      sentence: 'No environment is given, so a run cannot start; add [[env]] with id = "reverse-text", for example.',
      kind: 'advice',
      warning: true,
    })
  }
  return found
}

function filters(config: RunConfig): Check[] {
  const found: Check[] = []
  const { easy_threshold: easy, hard_threshold: hard } = config.buffer
  if (easy !== null && hard !== null && easy <= hard) {
    found.push({
      path: 'buffer.easy_threshold',
      sentence: `buffer.easy_threshold = ${easy} must be above buffer.hard_threshold = ${hard}: rewards from the first up are easy, down to the second hard.`,
    })
  }
  const { min_reward: low, max_reward: high } = config.difficulty_filter
  if (low !== null && high !== null && low >= high) {
    found.push({
      path: 'difficulty_filter.min_reward',
      sentence: `difficulty_filter.min_reward = ${low} must be below max_reward = ${high}, or no group passes.`,
    })
  }
  const range = config.curriculum.advantage_range
  if (range && range.reject_min > range.reject_max) {
    found.push({
      path: 'curriculum.advantage_range',
      sentence: `curriculum.advantage_range runs from reject_min = ${range.reject_min} down to reject_max = ${range.reject_max}; swap them.`,
    })
  }
  return found
}

function schedule(config: RunConfig): Check[] {
  const { type, warmup_steps: warmup, decay_steps: decay, min_lr: least } = config.scheduler
  const found: Check[] = []
  const used = type === 'linear' ? warmup + decay : warmup
  if (used > config.max_steps || (type === 'cosine' && used === config.max_steps)) {
    const parts =
      type === 'linear'
        ? `scheduler.warmup_steps = ${warmup} and scheduler.decay_steps = ${decay}`
        : `scheduler.warmup_steps = ${warmup}`
    found.push({
      or: 'max_steps',
      path: type === 'linear' && decay > warmup ? 'scheduler.decay_steps' : 'scheduler.warmup_steps',
      sentence: `${parts} do not fit into max_steps = ${config.max_steps}${type === 'cosine' ? ', and a cosine needs steps after its warm-up' : ''}; shorten them or train longer.`,
    })
  }
  if (type !== 'linear' && decay > 0) {
    found.push({
      path: 'scheduler.decay_steps',
      sentence: `scheduler.decay_steps belongs to scheduler.type = "linear"; with "${type}" it does nothing.`,
      kind: 'advice',
      warning: true,
    })
  }
  if (least > config.learning_rate) {
    found.push({
      path: 'scheduler.min_lr',
      or: 'learning_rate',
      sentence: `scheduler.min_lr = ${numberText(least)} is above learning_rate = ${numberText(config.learning_rate)}.`,
    })
  }
  return found
}
