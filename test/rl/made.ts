// Rollouts, groups and configs made by hand for the tests of workers/rl.

import type { LossConfig } from '../../workers/rl/objectives.ts'
import type { Group, Rollout } from '../../workers/rl/rollouts.ts'

/** A rollout with `prompt` given tokens and `answer` sampled ones; log μ is −1 and entropy 0.5 everywhere. */
export function rollout(
  reward: number | null,
  { prompt = 2, answer = 3, ...rest }: Partial<Rollout> & { prompt?: number; answer?: number } = {},
): Rollout {
  const length = prompt + answer
  const sampled = Uint8Array.from({ length }, (_, t) => (t >= prompt ? 1 : 0))
  return {
    task: 0,
    attempt: 0,
    reward,
    error: reward === null ? 'The reward function threw.' : null,
    ids: Int32Array.from({ length }, (_, t) => t + 1),
    sampled,
    logMu: Float32Array.from(sampled, (flag) => -flag),
    entropy: Float32Array.from(sampled, (flag) => 0.5 * flag),
    version: new Int32Array(length),
    turns: 1,
    truncated: false,
    ...rest,
  }
}

export function group(...rewards: (number | null)[]): Group {
  return rewards.map((reward, attempt) => rollout(reward, { attempt }))
}

/** prime-rl's default loss with its default numbers; the drift term off, so that one thing is tested at a time. */
export const LOSS: LossConfig = {
  type: 'default',
  adv_tau: 1,
  kl_tau: 0,
  dppo_mask_low: 0.2,
  dppo_mask_high: 0.2,
  ipo_threshold: 0.1,
  ratio_type: 'token',
  token_mask_low: 0.125,
  token_mask_high: 8,
  geo_mask_low: 0.1,
  geo_mask_high: 10,
  sequence_mask_low: 0,
  sequence_mask_high: 100,
  sequence_clip_high: 10,
  clip_low: 0.2,
  clip_high: 0.2,
  entropy_coefficient: 0,
}

export const BATCH = {
  seq_len: 64,
  filter_zero_advantages: true,
  sampling: { temperature: 1 },
  loss: LOSS,
  kl_penalty: { enabled: false },
}
