// The loss of a step and its slope ∂loss/∂log π for each target token. Everything is a plain array; the policy turns
// slopes into gradients. The formulas for one token are in objectives.ts.
//
//   loss = (1/N) Σ over target tokens of  value + β · k3(π_ref, π)         N: target tokens of the whole step
//
// A sequence-level ratio averages within each row first: (1/rows) Σ over rows of (1/K) Σ over its K tokens of value.

import { k3, k3Slope } from './divergence.ts'
import { type LossStats, noStats, observeSequence, observeToken } from './lossStats.ts'
import { type LossConfig, OBJECTIVES, sequenceRatios, type Token } from './objectives.ts'

/** Target tokens of some rows, end to end; all arrays but `offsets` have one number per token. */
export interface LossTokens {
  /** log π, nats. */
  logp: ArrayLike<number>
  /** log μ, nats. */
  logMu: ArrayLike<number>
  advantages: ArrayLike<number>
  /** [R+1] row r owns the tokens offsets[r] … offsets[r+1]−1. */
  offsets: ArrayLike<number>
  /** Entropy of π at each token, nats; the baseline of the entropy bonus. */
  entropy?: ArrayLike<number>
  /** log π_ref, nats; needed when `beta` is not 0. */
  logRef?: ArrayLike<number>
}

/** Counts of the whole step, taken before any split into passes. A `Batch` is one. */
export interface Denominators {
  lossTokens: number
  lossRows: number
}

export interface LossResult {
  /** This part's share of the step's loss: shares of all passes add up. */
  loss: number
  /** ∂loss/∂log π per token. */
  slopes: Float32Array
  stats: LossStats
}

/** `beta` is the strength of the pull to the reference policy: β · k3 per token, 0 for none. */
export function lossAndSlopes(
  tokens: LossTokens,
  config: LossConfig,
  { lossTokens, lossRows }: Denominators,
  beta = 0,
): LossResult {
  if (beta !== 0 && !tokens.logRef)
    throw new Error(
      `Computing the loss: beta is ${beta}, so log-probabilities under the reference policy are needed, but none came. ` +
        'Pass logRef, or set beta to 0.',
    )
  const { logp, logMu, advantages, offsets, entropy, logRef } = tokens
  const objective = OBJECTIVES[config.type]
  const perSequence = config.type === 'ratio_mask' && config.ratio_type === 'sequence'
  const slopes = new Float32Array(logp.length)
  const stats = noStats()
  let loss = 0

  for (let row = 0; row + 1 < offsets.length; row++) {
    const [start, end] = [offsets[row], offsets[row + 1]]
    const sequence = sequenceRatios(logp, logMu, start, end, config)
    const divisor = perSequence ? lossRows * (end - start) : lossTokens

    for (let t = start; t < end; t++) {
      const d = logp[t] - logMu[t]
      const token: Token = {
        logp: logp[t],
        d,
        ratio: Math.exp(d),
        probabilityChange: Math.exp(logp[t]) - Math.exp(logMu[t]),
        // The entropy bonus as a score-function estimate: ∇H = −E[log π · ∇log π], with H itself as the baseline.
        advantage: config.adv_tau * advantages[t] - config.entropy_coefficient * (logp[t] + (entropy?.[t] ?? 0)),
      }
      const term = objective(token, config, sequence)
      loss += term.value / divisor
      slopes[t] = term.slope / divisor

      if (beta !== 0 && logRef) {
        loss += (beta * k3(logRef[t], logp[t])) / lossTokens
        slopes[t] += (beta * k3Slope(logRef[t], logp[t])) / lossTokens
      }
      observeToken(stats, token, term, entropy?.[t], logRef?.[t])
    }
    if (end > start) observeSequence(stats, sequence)
  }
  return { loss, slopes, stats }
}

/** The first value that is infinite or not a number, and where it stands; null when all are finite. */
export function firstNonFinite(
  values: ArrayLike<number>,
  offsets: ArrayLike<number>,
): { row: number; token: number; value: number } | null {
  for (let row = 0; row + 1 < offsets.length; row++)
    for (let t = offsets[row]; t < offsets[row + 1]; t++)
      if (!Number.isFinite(values[t])) return { row, token: t - offsets[row], value: values[t] }
  return null
}
