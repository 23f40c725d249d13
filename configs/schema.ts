// RunConfig: what a run uses, after every default, alias and dialect has been settled (see load.ts). Names are those of
// the source documents' flat dialect, so a resolved config is itself a valid TOML. Each knob is written once, in schema/.

import { z } from 'zod'
import { type Knob, knob, knobsOf } from './knob.ts'
import { browser, remote } from './schema/device.ts'
import * as filtering from './schema/filtering.ts'
import * as learning from './schema/learning.ts'
import * as policy from './schema/policy.ts'
import * as rollouts from './schema/rollouts.ts'
import { adapters, checkpointing, envFiles, evaluation, wandb } from './schema/saving.ts'
import { data } from './schema/sft.ts'

export { LORA_TARGETS } from './schema/policy.ts'

export const runConfig = z.strictObject({
  type: knob(z.enum(['rl', 'sft']).default('rl'), {
    label: 'Job',
    help: 'rl learns from rewards, sft from written answers.',
    group: 'Policy',
  }),
  name: knob(z.string().optional(), { label: 'Name', help: 'What the run is called in lists.', group: 'Policy' }),
  model: policy.model,
  seed: knob(z.number().int().min(0).max(0xffff_ffff).default(0), {
    label: 'Seed',
    help: 'The same seed and config give the same tokens on the same device.',
    group: 'Policy',
  }),
  max_steps: learning.maxSteps,
  batch_size: rollouts.batchSize,
  rollouts_per_example: rollouts.rolloutsPerExample,
  micro_batch_size: learning.microBatchSize,
  learning_rate: learning.learningRate,
  max_grad_norm: learning.maxGradNorm,
  num_iterations: learning.numIterations,
  max_async_level: rollouts.maxAsyncLevel,
  max_off_policy_steps: rollouts.maxOffPolicySteps,
  oversampling_factor: rollouts.oversamplingFactor,
  max_concurrent: rollouts.maxConcurrent,
  workers_per_env: rollouts.workersPerEnv,
  seq_len: policy.seqLen,
  filter_zero_advantages: filtering.filterZeroAdvantages,
  mask_truncated_completions: filtering.maskTruncated,
  zero_truncated_completions: filtering.zeroTruncated,
  env_files: envFiles,
  optimizer: learning.optimizer,
  scheduler: learning.scheduler,
  sampling: rollouts.sampling,
  env: rollouts.env,
  data,
  lora: policy.lora,
  advantage: learning.advantage,
  loss: learning.loss,
  kl_penalty: learning.klPenalty,
  difficulty_filter: filtering.difficultyFilter,
  buffer: filtering.buffer,
  curriculum: filtering.curriculum,
  pre_batch_filters: filtering.preBatchFilters,
  eval: evaluation,
  checkpointing,
  adapters,
  wandb,
  browser,
  remote,
})

/** Keys that a supervised run obeys; the rest of RunConfig is about rollouts. */
export const SFT_KEYS = [
  'type',
  'name',
  'model',
  'seed',
  'max_steps',
  'batch_size',
  'micro_batch_size',
  'learning_rate',
  'max_grad_norm',
  'seq_len',
  'optimizer',
  'scheduler',
  'env',
  'data',
  'lora',
  'eval',
  'checkpointing',
  'wandb',
  'browser',
  'remote',
] as const

type SftKey = (typeof SFT_KEYS)[number]

/** What `type = "sft"` uses of RunConfig. */
export const sftConfig = runConfig.pick(Object.fromEntries(SFT_KEYS.map((key) => [key, true])) as Record<SftKey, true>)

export type RunConfig = z.output<typeof runConfig>

let found: Knob[] | null = null

/** Every knob of RunConfig, tables opened, in the order of the schema: for forms, completions, docs and checks. */
export function knobs(): Knob[] {
  found ??= knobsOf(runConfig)
  return found
}
