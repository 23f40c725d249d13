// How far one distribution has drifted from another, estimated from sampled tokens, and how hard to pull it back.

/**
 * k3 = e^x − x − 1 with x = log q − log p, for tokens drawn from p: an unbiased estimate of KL(p‖q) that is never
 * negative (Schulman 2020, «Approximating KL divergence»). In nats.
 */
export function k3(logQ: number, logP: number): number {
  const x = logQ - logP
  return Math.expm1(x) - x
}

/** ∂k3/∂log p = 1 − q/p. */
export function k3Slope(logQ: number, logP: number): number {
  return -Math.expm1(logQ - logP)
}

export interface KlPenaltyConfig {
  enabled: boolean
  /** Strength of the pull, or its first value when `target_kl` is given. */
  beta: number
  target_kl: number | null
}

const LARGEST_ERROR = 0.2
const GAIN = 0.1

/**
 * β ← β · (1 + 0.1·e) with e = clip(KL/target − 1, −0.2, 0.2): the controller of Ziegler et al. 2019. Without a target
 * β stays. `measuredKl` is the step's mean k3 per token.
 */
export function nextBeta(beta: number, measuredKl: number, config: KlPenaltyConfig): number {
  if (!config.enabled || config.target_kl === null) return beta
  const error = Math.min(LARGEST_ERROR, Math.max(-LARGEST_ERROR, measuredKl / config.target_kl - 1))
  return beta * (1 + GAIN * error)
}
