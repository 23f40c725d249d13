// prime-rl's nested tables, of 2026-08 and of 2026-01 -> ours. What is not here is looked up in the key lists beside.

import { isTable, type Table } from '../path.ts'
import type { Convert, Dialect, Outcome } from './dialect.ts'
import { extraBody, taskset } from './hosted.ts'

const LENGTH_WEIGHTS = { output: 'output', input: 'input', turns: 'turns' }

const optimizerType: Convert = (value) =>
  value === 'sign_sgd'
    ? {
        set: { 'remote.prime_rl.trainer.optim.type': value },
        note: 'The optimizer sign_sgd is used only remotely; a run here uses optimizer.type = "adamw"',
        warning: true,
      }
    : { set: { 'optimizer.type': value } }

const REMOTE_ALGORITHMS = ['rae', 'hierarchical_grpo', 'opd', 'opsd', 'sft', 'echo', 'custom']

const algorithm: Convert = (value) =>
  typeof value === 'string' && REMOTE_ALGORITHMS.includes(value)
    ? {
        set: { 'remote.prime_rl.orchestrator.algo.type': value },
        note: `The algorithm ${value} is used only remotely; a run here uses advantage.type = "grpo"`,
        warning: true,
      }
    : { set: { 'advantage.type': value === 'default' ? 'grpo' : value } }

const lengthPenalty: Convert = (value) => {
  if (!isTable(value)) return { set: { 'advantage.length_penalty': value } }
  const penalty: Table = {}
  for (const [key, weight] of Object.entries(value)) {
    const name = key.replace(/^num_|_?weight_?|_?tokens_?/g, '')
    if (name !== 'type') penalty[LENGTH_WEIGHTS[name as keyof typeof LENGTH_WEIGHTS] ?? key] = weight
  }
  return { set: { 'advantage.length_penalty': penalty } }
}

// "None" is learning from the bare reward; anything else is a table, and read key by key.
const bareReward: Convert = (value) =>
  value === 'None' || value === null ? { set: { 'advantage.type': 'none' } } : { set: { advantage: value } }

const temperatureSchedule: Convert = (value) => {
  if (!isTable(value)) return { set: { 'sampling.temp_scheduler': value } }
  const schedule = Object.entries(value).map(([key, entry]) => [key.replace(/^(start|end)_temperature$/, '$1'), entry])
  return { set: { 'sampling.temp_scheduler': Object.fromEntries(schedule) } }
}

const harness: Convert = (value, to) => ({ set: { [to('env[].harness')]: value } })

const curriculum: Convert = (value, to) => {
  const outcome: Outcome = { set: { [to('env[].remote.curriculum')]: value } }
  if (!isTable(value)) return outcome
  const sampler = isTable(value.sampler) ? value.sampler.type : undefined
  const gates = isTable(value.gates) ? Object.values(value.gates) : []
  const gate = gates.filter(isTable).find((each) => each.type === undefined || each.type === 'advantage_range')
  outcome.unless = {}
  if (sampler !== undefined) outcome.unless['curriculum.sampler'] = sampler
  if (gate) {
    const { type: _, ...range } = gate
    outcome.unless['curriculum.advantage_range'] = range
  }
  outcome.note = 'The curriculum of one source is that of all environments here'
  return outcome
}

const lossType: Convert = (value) =>
  value === 'custom'
    ? {
        set: { 'remote.prime_rl.trainer.loss.type': value },
        note: 'A custom loss is Python and is used only remotely; a run here uses loss.type = "default"',
        warning: true,
      }
    : { set: { 'loss.type': value } }

const ratios: Convert = (value) => {
  if (!Array.isArray(value)) return { problem: 'env_ratios is a list with one number for each environment' }
  return { set: Object.fromEntries(value.map((ratio, i) => [`env[${i}].ratio`, ratio])) }
}

const evalBase: Convert = (value) => ({ set: { 'eval.skip_first_step': typeof value === 'boolean' ? !value : value } })

const evalTaskset: Convert = (value, to) => {
  const { set, ...rest } = taskset(value, (pattern) => to(`eval.${pattern}`))
  return { set, ...rest }
}

const structural: Convert = (value) => ({
  set: { 'remote.prime_rl.orchestrator.mask_env_responses': value },
  note:
    value === false
      ? "mask_env_responses = false would learn from the environment's own words; here only what the policy sampled is learned from"
      : "Only what the policy sampled is learned from here, never the environment's words, so mask_env_responses is always on",
  warning: value === false,
})

/** Names that both eras share, after `trainer.` and `orchestrator.` have been taken off. */
export const PRIME_RL: Dialect = {
  name: 'prime-rl',
  prefixes: {
    trainer: '',
    orchestrator: '',
    'orchestrator.train': '',
    'orchestrator.train.source': 'env',
    'orchestrator.eval.source': 'eval.env',
    'monitors.wandb': 'wandb',
    'trainer.monitors.wandb': 'wandb',
    'orchestrator.monitors.wandb': 'wandb',
  },
  renames: {
    'model.name': 'model',
    'model.lora.rank': 'lora.r',
    'model.lora.alpha': 'lora.alpha',
    'model.lora.dropout': 'lora.dropout',
    'model.lora.target_modules': 'lora.target_modules',
    'model.lora.modules_to_save': 'lora.modules_to_save',
    'optim.lr': 'learning_rate',
    'optim.max_norm': 'max_grad_norm',
    'optim.weight_decay': 'optimizer.weight_decay',
    'optim.betas1': 'optimizer.beta1',
    'optim.betas2': 'optimizer.beta2',
    'optim.momentum': 'optimizer.momentum',
    'optim.mu': 'optimizer.momentum',
    'optim.nesterov': 'optimizer.nesterov',
    'ckpt.interval': 'checkpointing.save_every_n_steps',
    'ckpt.keep_last': 'checkpointing.keep_n_checkpoints',
    'ckpt.keep_interval': 'checkpointing.keep_every_n_steps',
    async_level: 'max_async_level',
    'eval.sampling.temperature': 'eval.temperature',
    'eval.sampling.max_tokens': 'eval.max_tokens',
    'eval.sampling.max_completion_tokens': 'eval.max_tokens',
    'eval.sampling.top_p': 'eval.top_p',
    'eval.sampling.top_k': 'eval.top_k',
    'eval.sampling.min_p': 'eval.min_p',
    // 2026-08
    group_size: 'rollouts_per_example',
    'concurrency.max_inflight': 'max_concurrent',
    'eval.group_size': 'eval.rollouts_per_example',
    'eval.env[].group_size': 'eval.env[].rollouts_per_example',
    'run.name': 'name',
    // the sft entrypoint
    'data.batch_size': 'batch_size',
    'data.micro_batch_size': 'micro_batch_size',
  },
  echoes: { 'model.seq_len': 'seq_len', 'data.seq_len': 'seq_len', 'data.seed': 'seed' },
  converts: {
    'optim.type': optimizerType,
    'optimizer.type': optimizerType,
    'algo.type': algorithm,
    'advantage.type': algorithm,
    advantage: bareReward,
    'loss.type': lossType,
    'buffer.env_ratios': ratios,
    'eval.eval_base_model': evalBase,
    mask_env_responses: structural,
    'data.type': (value) =>
      value === 'sft' ? { set: { type: 'sft' } } : { set: { 'remote.prime_rl.data.type': value } },
    'data.splits': (value) =>
      Array.isArray(value) && value.length === 1
        ? { set: { 'data.split': value[0] } }
        : { set: { 'remote.prime_rl.data.splits': value } },
    'env[].group_size': (value) => ({
      unless: { rollouts_per_example: value },
      note: 'The group size of one source is rollouts_per_example here, for all environments',
    }),
  },
  tables: {
    'algo.length_penalty': lengthPenalty,
    'sampling.extra_body': extraBody,
    'sampling.temp_scheduler': temperatureSchedule,
    'env[].env.taskset': taskset,
    'eval.env[].env.taskset': evalTaskset,
    'eval.env[].taskset': evalTaskset,
    'env[].env.agent.harness': harness,
    'env[].curriculum': curriculum,
  },
  empty: {
    'model.lora': { set: { 'lora.enabled': true } },
    ckpt: { note: 'An empty [ckpt] keeps the last checkpoint only, which every run does here' },
    resume: { set: { 'remote.prime_rl.resume': {} } },
  },
  keeps: {
    'buffer.seed': 'prime_rl.orchestrator.buffer.seed',
    'buffer.skip_verification': 'prime_rl.orchestrator.buffer.skip_verification',
    'buffer.hash_keys': 'prime_rl.orchestrator.buffer.hash_keys',
    'sampling.seed': 'prime_rl.orchestrator.sampling.seed',
    trajectory_strategy: 'prime_rl.orchestrator.trajectory_strategy',
    strict_async_level: 'prime_rl.orchestrator.strict_async_level',
  },
  defaults: { rollouts_per_example: 1, learning_rate: 1e-6, max_steps: 'no end', max_async_level: 1 },
}
