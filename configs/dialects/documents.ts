// Names of the flat dialect's own documents that no program reads any more, and small liberties of spelling.

import type { Table } from '../path.ts'
import type { Convert, Dialect, Outcome } from './dialect.ts'

const toList: Convert = (value, to) => ({
  set: { [to('env_files')]: typeof value === 'string' ? [value] : value },
})

const betas: Convert = (value) => {
  if (!Array.isArray(value) || value.length !== 2)
    return { problem: 'betas is a list of two numbers, [0.9, 0.95] for example' }
  return { set: { 'optimizer.beta1': value[0], 'optimizer.beta2': value[1] } }
}

export const DOCUMENTS: Dialect = {
  name: 'the training guides',
  prefixes: { env: 'env[0]' },
  renames: {
    model_name: 'model',
    lr: 'learning_rate',
    warmup_steps: 'scheduler.warmup_steps',
    decay_steps: 'scheduler.decay_steps',
    weight_decay: 'optimizer.weight_decay',
    use_lora: 'lora.enabled',
    lora_r: 'lora.r',
    lora_rank: 'lora.r',
    lora_alpha: 'lora.alpha',
    lora_dropout: 'lora.dropout',
    lora_target_modules: 'lora.target_modules',
    'lora.rank': 'lora.r',
    'optimizer.lr': 'learning_rate',
    'optimizer.max_norm': 'max_grad_norm',
    'optimizer.eps': 'optimizer.epsilon',
    'optimizer.betas1': 'optimizer.beta1',
    'optimizer.betas2': 'optimizer.beta2',
    use_difficulty_filtering: 'difficulty_filter.enabled',
    difficulty_threshold: 'difficulty_filter.min_reward_variance',
    'env[].weight': 'env[].ratio',
    'env[].env_id': 'env[].id',
    'eval.env[].env_id': 'eval.env[].id',
    'sampling.max_completion_tokens': 'sampling.max_tokens',
    entropy_coefficient: 'loss.entropy_coefficient',
    entropy_bonus: 'loss.entropy_coefficient',
  },
  converts: {
    'optimizer.betas': betas,
    env_file: toList,
    env_files: toList,
    lora: (value) => (typeof value === 'boolean' ? { set: { 'lora.enabled': value } } : { set: { lora: value } }),
    num_gpus: (value) => ({ set: { 'remote.prime_rl.deployment.gpus_per_node': value } }),
    tensor_parallel_size: (value) => ({ set: { 'remote.prime_rl.inference.vllm.tensor_parallel_size': value } }),
    pipeline_parallel_size: (value) => ({ set: { 'remote.prime_rl.inference.vllm.pipeline_parallel_size': value } }),
    'eval.num_examples': allExamples,
  },
  late: { gradient_accumulation_steps: accumulation },
  empty: { wandb: { set: { wandb: {} } } },
}

// micro_batch_size = batch_size / steps. One step says nothing about memory, so the device's own choice stays.
function accumulation(value: unknown, draft: Table): Outcome {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1) {
    return { problem: 'gradient_accumulation_steps is a whole number from 1' }
  }
  const perPass = draft.micro_batch_size
  if (typeof perPass === 'number') {
    if (draft.batch_size !== undefined) return { note: 'micro_batch_size is given too, and decides' }
    const rollouts = perPass * value
    return {
      set: { batch_size: rollouts },
      note: `${value} passes of ${perPass} rollouts make batch_size = ${rollouts}`,
    }
  }
  const rollouts = typeof draft.batch_size === 'number' ? draft.batch_size : 128
  if (value === 1) {
    return {
      note: `gradient_accumulation_steps = 1 leaves micro_batch_size as it is; it never changes the update. Set micro_batch_size = ${rollouts} for a single pass`,
    }
  }
  const size = Math.ceil(rollouts / value)
  return {
    set: { micro_batch_size: size },
    note: `${value} passes over ${rollouts} rollouts are micro_batch_size = ${size} here`,
  }
}

// prime-rl and Hosted Training write "every example" as −1; a generated environment has no end.
function allExamples(value: unknown): Outcome {
  if (value !== -1) return { set: { 'eval.num_examples': value } }
  return {
    set: { 'remote.prime_rl.orchestrator.eval.num_examples': -1 },
    note: 'eval.num_examples = −1 asks for every held-out example, at full size. Here, where examples are generated without end, 128 of them are asked',
    warning: true,
  }
}
