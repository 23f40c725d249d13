// vf-rl (`[trainer.args]`, 2026-01) and the GRPO trainers before it (num_generations, beta, …) -> ours. Both name many
// things as Hugging Face's training arguments do.

import type { Convert, Dialect } from './dialect.ts'

const clip =
  (...paths: string[]): Convert =>
  (value) => ({
    set: Object.fromEntries(paths.map((path) => [path, value])),
    unless: { 'loss.type': 'ppo' },
    note: `A clipped ratio is loss.type = "ppo" with ${paths.join(' and ')} here`,
  })

const mask =
  (path: string): Convert =>
  (value) => ({ set: { [path]: value }, unless: { 'loss.type': 'ratio_mask' } })

const schedule: Convert = (value) => {
  const type = value === 'constant_with_warmup' ? 'constant' : value
  const note =
    type === 'linear'
      ? 'A linear schedule stays flat here and falls over the last scheduler.decay_steps; it does not fall from the first step'
      : undefined
  return { set: { 'scheduler.type': type }, note }
}

const beta: Convert = (value) => ({ set: { 'kl_penalty.beta': value }, unless: { 'kl_penalty.enabled': value !== 0 } })

const lossType: Convert = (value) => ({
  set: { 'remote.vf_rl.loss_type': value },
  unless: value === 'grpo' || value === 'dr_grpo' ? { 'advantage.divide_by_deviation': value === 'grpo' } : {},
  note: 'loss_type chooses how the loss is averaged; here it is always the mean over all tokens of the step, and advantage.divide_by_deviation says whether advantages are scaled',
})

const optimizer: Convert = (value) => ({
  set: { 'optimizer.type': typeof value === 'string' && value.startsWith('adamw') ? 'adamw' : value },
})

const evaluationStrategy: Convert = (value) => ({
  set: { 'remote.vf_rl.eval_strategy': value },
  note: value === 'no' ? 'Without eval.interval nothing is evaluated' : 'eval.interval says how often to evaluate',
})

const KEPT =
  'bf16 fp16 tf32 gradient_checkpointing gradient_checkpointing_kwargs logging_steps log_completions report_to save_strategy save_only_model generation_timeout async_generation_timeout max_prompt_len max_prompt_length max_data_workers dataloader_num_workers deepspeed fsdp use_vllm vllm_server_host vllm_server_port shuffle_dataset remove_unused_columns'

export const VF_RL: Dialect = {
  name: 'vf-rl and the GRPO trainers before it',
  prefixes: { 'trainer.args': '' },
  renames: {
    num_generations: 'rollouts_per_example',
    num_batches_ahead: 'max_async_level',
    per_device_train_batch_size: 'micro_batch_size',
    max_seq_len: 'seq_len',
    max_completion_length: 'sampling.max_tokens',
    max_completion_tokens: 'sampling.max_tokens',
    max_tokens: 'sampling.max_tokens',
    temperature: 'sampling.temperature',
    top_p: 'sampling.top_p',
    top_k: 'sampling.top_k',
    min_p: 'sampling.min_p',
    min_tokens: 'sampling.min_tokens',
    repetition_penalty: 'sampling.repetition_penalty',
    presence_penalty: 'sampling.presence_penalty',
    frequency_penalty: 'sampling.frequency_penalty',
    stop: 'sampling.stop',
    lora_use_rslora: 'lora.use_rslora',
    lora_modules_to_save: 'lora.modules_to_save',
    adam_beta1: 'optimizer.beta1',
    adam_beta2: 'optimizer.beta2',
    adam_epsilon: 'optimizer.epsilon',
    min_lr: 'scheduler.min_lr',
    save_steps: 'checkpointing.save_every_n_steps',
    save_total_limit: 'checkpointing.keep_n_checkpoints',
    eval_steps: 'eval.interval',
    run_name: 'name',
    scale_rewards: 'advantage.divide_by_deviation',
    ref_model_sync_steps: 'kl_penalty.reference_update_steps',
  },
  converts: {
    beta,
    epsilon: clip('loss.clip_low', 'loss.clip_high'),
    epsilon_low: clip('loss.clip_low'),
    epsilon_high: clip('loss.clip_high'),
    mask_ratio_low: mask('loss.token_mask_low'),
    mask_ratio_high: mask('loss.token_mask_high'),
    lr_scheduler_type: schedule,
    loss_type: lossType,
    optim: optimizer,
    eval_strategy: evaluationStrategy,
  },
  keeps: {
    'inference.gpus': 'vf_rl.inference.gpus',
    'inference.args': 'vf_rl.inference.args',
    'trainer.gpus': 'vf_rl.trainer.gpus',
    ...Object.fromEntries(KEPT.split(' ').map((key) => [key, `vf_rl.${key}`])),
  },
  defaults: {
    batch_size: 512,
    rollouts_per_example: 16,
    learning_rate: 1e-5,
    max_steps: 500,
    max_async_level: 1,
    'lora.r': 8,
  },
}
