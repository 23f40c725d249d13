// The formulas: for one token, the value of the loss and its slope ∂value/∂log π. loss.ts adds them up.
//
// π, μ: probability of the token now and when it was sampled · d = log π − log μ · r = π/μ = eᵈ · A: advantage
// Masks and coefficients are constants: no slope flows through them («detached»).

export interface LossConfig {
  type: 'default' | 'ipo' | 'ratio_mask' | 'ppo'
  adv_tau: number
  kl_tau: number
  dppo_mask_low: number
  dppo_mask_high: number
  ipo_threshold: number
  ratio_type: 'token' | 'sequence'
  token_mask_low: number
  token_mask_high: number
  geo_mask_low: number
  geo_mask_high: number
  sequence_mask_low: number
  sequence_mask_high: number
  sequence_clip_high: number
  clip_low: number
  clip_high: number
  entropy_coefficient: number
}

export interface Token {
  logp: number
  /** log π − log μ */
  d: number
  /** π/μ */
  ratio: number
  /** π − μ */
  probabilityChange: number
  /** adv_tau · A, with the entropy bonus; a constant. */
  advantage: number
}

export interface Term {
  value: number
  slope: number
  /** Left out of the policy gradient. */
  masked: boolean
  /** … because π had already moved too far down, or up. */
  low: boolean
  high: boolean
}

export type Objective = (token: Token, config: LossConfig, sequence: SequenceRatios) => Term

export const OBJECTIVES: Record<LossConfig['type'], Objective> = {
  // prime-rl's default (2026-08), the binary total-variation mask of DPPO:
  //   value = −keep·A·r + kl_tau·d²        keep = not (A > 0 and π−μ > high), not (A ≤ 0 and π−μ < −low)
  //   slope = −keep·A·r + 2·kl_tau·d       as ∂r/∂log π = r
  // A token is let go once its probability has moved far enough in the direction it is pushed. Drift holds everywhere.
  default: (token, config) => {
    const high = token.advantage > 0 && token.probabilityChange > config.dppo_mask_high
    const low = token.advantage <= 0 && token.probabilityChange < -config.dppo_mask_low
    return importanceWeighted(token, config, low, high)
  },

  // IPO: the same, with a token let go once |π−μ| > threshold, whichever way it is pushed.
  ipo: (token, config) => {
    const high = token.probabilityChange > config.ipo_threshold
    const low = token.probabilityChange < -config.ipo_threshold
    return importanceWeighted(token, config, low, high)
  },

  // prime-rl's ratio masks (2026-01): REINFORCE with a constant coefficient,
  //   coefficient = ρ·(A − kl_tau·d)       ρ = r, or the sequence's clipped Π r
  //   value = −keep·coefficient·log π      slope = −keep·coefficient
  // keep = the token's r, the row's geometric mean of r, and the row's least and greatest r each lie within bounds.
  ratio_mask: (token, config, sequence) => {
    const low = token.ratio < config.token_mask_low
    const high = token.ratio > config.token_mask_high
    const masked = low || high || sequence.geometricLow || sequence.geometricHigh || sequence.low || sequence.high
    const ratio = config.ratio_type === 'token' ? token.ratio : Math.min(sequence.product, config.sequence_clip_high)
    const coefficient = masked ? 0 : ratio * (token.advantage - config.kl_tau * token.d)
    return { value: -coefficient * token.logp, slope: -coefficient, masked, low, high }
  },

  // PPO's clip (Schulman et al. 2017) with the drift term:
  //   value = −min(r·A, clip(r, 1−low, 1+high)·A) + kl_tau·d²
  //   slope = −r·A + 2·kl_tau·d            without the first part where the clip is the smaller
  ppo: (token, config) => {
    const clipped = Math.min(1 + config.clip_high, Math.max(1 - config.clip_low, token.ratio))
    const gain = token.ratio * token.advantage
    const clippedGain = clipped * token.advantage
    const flat = clippedGain < gain
    return {
      value: -Math.min(gain, clippedGain) + config.kl_tau * token.d ** 2,
      slope: (flat ? 0 : -gain) + 2 * config.kl_tau * token.d,
      masked: flat,
      low: flat && token.ratio < 1,
      high: flat && token.ratio > 1,
    }
  },
}

// −keep·A·r + kl_tau·d²
function importanceWeighted({ advantage, ratio, d }: Token, { kl_tau }: LossConfig, low: boolean, high: boolean): Term {
  const masked = low || high
  const gain = masked ? 0 : advantage * ratio
  return { value: -gain + kl_tau * d ** 2, slope: -gain + 2 * kl_tau * d, masked, low, high }
}

export interface SequenceRatios {
  /** exp(Σ d), the sum held at 10 at most so that it stays finite. */
  product: number
  /** exp(mean d) */
  geometricMean: number
  /** Whether the row's geometric mean, or its least or greatest ratio, lies out of bounds. */
  geometricLow: boolean
  geometricHigh: boolean
  low: boolean
  high: boolean
}

const LARGEST_LOG_PRODUCT = 10

export function sequenceRatios(
  logp: ArrayLike<number>,
  logMu: ArrayLike<number>,
  start: number,
  end: number,
  config: LossConfig,
): SequenceRatios {
  let sum = 0
  let [least, greatest] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (let t = start; t < end; t++) {
    const d = logp[t] - logMu[t]
    sum += d
    least = Math.min(least, d)
    greatest = Math.max(greatest, d)
  }
  const geometricMean = Math.exp(sum / Math.max(1, end - start))
  return {
    product: Math.exp(Math.min(LARGEST_LOG_PRODUCT, sum)),
    geometricMean,
    geometricLow: geometricMean < config.geo_mask_low,
    geometricHigh: geometricMean > config.geo_mask_high,
    low: Math.exp(least) < config.sequence_mask_low,
    high: Math.exp(greatest) > config.sequence_mask_high,
  }
}
