// RunConfig: what a run uses, after every default, alias and dialect has been settled (see load.ts). Names are those of
// the source documents' flat dialect, so a resolved config is itself a valid TOML.

import { z } from 'zod'

export const LORA_TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const

export const runConfig = z.strictObject({
  type: z.enum(['rl', 'sft']).default('rl'),
  name: z.string().optional(),
  model: z.string().default('lab-tiny'),
  seed: z.number().int().min(0).default(0),
  max_steps: z.number().int().min(1).default(100),
  batch_size: z.number().int().min(1).default(128),
  rollouts_per_example: z.number().int().min(1).default(8),
  micro_batch_size: z.number().int().min(1).default(8),
  learning_rate: z.number().min(0).default(1e-4),
  max_grad_norm: z.number().min(0).nullable().default(1),
  max_async_level: z.number().int().min(0).default(0),
  max_off_policy_steps: z.number().int().min(0).default(8),
  oversampling_factor: z.number().min(1).default(1),
  seq_len: z.number().int().min(8).default(2048),
  optimizer: z
    .strictObject({
      type: z.enum(['adamw', 'muon', 'sgd']).default('adamw'),
      beta1: z.number().default(0.9),
      beta2: z.number().default(0.999),
      epsilon: z.number().default(1e-8),
      weight_decay: z.number().default(0.01),
    })
    .prefault({}),
  scheduler: z
    .strictObject({
      type: z.enum(['constant', 'linear', 'cosine']).default('constant'),
      warmup_steps: z.number().int().min(0).default(0),
      decay_steps: z.number().int().min(0).default(0),
      min_lr: z.number().min(0).default(0),
    })
    .prefault({}),
  sampling: z
    .strictObject({
      max_tokens: z.number().int().min(1).default(512),
      temperature: z.number().min(0).max(2).default(1),
      top_p: z.number().default(1),
      top_k: z.number().int().default(-1),
      min_p: z.number().default(0),
      repetition_penalty: z.number().default(1),
      stop: z.array(z.string()).default([]),
    })
    .prefault({}),
  env: z
    .array(
      z.strictObject({
        id: z.string(),
        name: z.string().optional(),
        args: z.record(z.string(), z.unknown()).default({}),
        ratio: z.number().positive().default(1),
      }),
    )
    .default([]),
  lora: z
    .strictObject({
      enabled: z.boolean().default(true),
      r: z.number().int().min(1).default(16),
      alpha: z.number().min(0).default(32),
      dropout: z.number().min(0).max(1).default(0),
      target_modules: z.array(z.string()).default([...LORA_TARGETS]),
    })
    .prefault({}),
  advantage: z
    .strictObject({
      type: z.enum(['grpo', 'max_rl', 'none']).default('grpo'),
      divide_by_deviation: z.boolean().default(false),
      length_penalty: z
        .strictObject({
          output: z.number().default(0.25),
          input: z.number().default(0.1),
          turns: z.number().default(0.1),
        })
        .nullable()
        .default(null),
    })
    .prefault({}),
  loss: z
    .strictObject({
      // default: prime-rl 2026-08 (DPPO binary TV) · ipo · ratio_mask: prime-rl 2026-01 · ppo: clip
      type: z.enum(['default', 'ipo', 'ratio_mask', 'ppo']).default('default'),
      adv_tau: z.number().min(0).default(1),
      kl_tau: z.number().min(0).default(1e-3),
      dppo_mask_low: z.number().min(0).default(0.2),
      dppo_mask_high: z.number().min(0).default(0.2),
      ipo_threshold: z.number().min(0).default(0.1),
      ratio_type: z.enum(['token', 'sequence']).default('token'),
      token_mask_low: z.number().default(0.125),
      token_mask_high: z.number().default(8),
      geo_mask_low: z.number().default(0.1),
      geo_mask_high: z.number().default(10),
      sequence_mask_low: z.number().default(0),
      sequence_mask_high: z.number().default(100),
      sequence_clip_high: z.number().default(10),
      clip_low: z.number().default(0.2),
      clip_high: z.number().default(0.2),
      entropy_coefficient: z.number().default(0),
    })
    .prefault({}),
  // Pull towards the reference (the policy without its adapters): beta · k3(π_ref, π) per token.
  kl_penalty: z
    .strictObject({
      enabled: z.boolean().default(false),
      beta: z.number().min(0).default(0.1),
      target_kl: z.number().min(0).nullable().default(null),
    })
    .prefault({}),
  difficulty_filter: z
    .strictObject({
      enabled: z.boolean().default(false),
      min_reward_variance: z.number().min(0).default(0),
      min_reward: z.number().nullable().default(null),
      max_reward: z.number().nullable().default(null),
    })
    .prefault({}),
  buffer: z
    .strictObject({
      online_difficulty_filtering: z.boolean().default(false),
      easy_threshold: z.number().nullable().default(null),
      hard_threshold: z.number().nullable().default(null),
      easy_fraction: z.number().min(0).max(1).default(0),
      hard_fraction: z.number().min(0).max(1).default(0),
    })
    .prefault({}),
  curriculum: z
    .strictObject({
      sampler: z.enum(['standard', 'difficulty_pool']).default('standard'),
      advantage_range: z
        .strictObject({ reject_min: z.number().default(0), reject_max: z.number().default(0) })
        .nullable()
        .default(null),
    })
    .prefault({}),
  filter_zero_advantages: z.boolean().default(true),
  eval: z
    .strictObject({
      interval: z.number().int().min(1).nullable().default(null),
      num_examples: z.number().int().min(1).default(128),
      rollouts_per_example: z.number().int().min(1).default(1),
      skip_first_step: z.boolean().default(false),
      temperature: z.number().min(0).max(2).nullable().default(null),
    })
    .prefault({}),
  checkpointing: z
    .strictObject({
      save_every_n_steps: z.number().int().min(1).nullable().default(null),
      keep_n_checkpoints: z.number().int().min(1).nullable().default(null),
    })
    .prefault({}),
  wandb: z
    .strictObject({
      project: z.string().optional(),
      name: z.string().optional(),
      entity: z.string().optional(),
    })
    .optional(),
  env_files: z.array(z.string()).default([]),
  // What only a tab or Node uses.
  browser: z
    .strictObject({
      backend: z.enum(['auto', 'webgpu', 'webgl', 'wasm', 'cpu']).default('auto'),
      base_dtype: z.enum(['auto', 'f32', 'f16', 'int8', 'int4']).default('auto'),
      slots: z.number().int().min(1).nullable().default(null),
      /** Groups per step whose tokens are scored once more after the update, for the token view. */
      rescored_groups: z.number().int().min(0).default(2),
      environment_deadline_ms: z.number().int().min(1).default(30000),
    })
    .prefault({}),
  // Checked, kept and given back by the compiler; unused in a tab.
  remote: z
    .strictObject({
      prime_rl: z.record(z.string(), z.unknown()).default({}),
      hosted: z.record(z.string(), z.unknown()).default({}),
    })
    .prefault({}),
})

export type RunConfig = z.output<typeof runConfig>
