// How tokens are shown and tinted. Plain functions of a TokenRecord.

import type { TokenRecord } from '../../workers/protocol.ts'

/** Whitespace made visible, so that a tint has something to lie on. */
export function shownToken(text: string): string {
  if (text === '') return '∅'
  return text.replaceAll(' ', '␣').replaceAll('\t', '→').replaceAll('\n', '⏎\n')
}

export interface Tints {
  /** `change`: |advantage| × Δ log π, measured. `push`: −slope × (1 − π), on the token's logit. `surprise`: −log μ. */
  kind: 'change' | 'push' | 'surprise'
  /** Per token, −1 … 1 relative to the largest of the answer; positive: made likelier. */
  values: number[]
}

// Changes below these are rounding, and must not look like learning.
const LEAST_CHANGE = 2e-3
const LEAST_SURPRISE = 2

export function tints({ logMu, logp, logpAfter, slope, sampled }: TokenRecord, advantage: number | null): Tints {
  if (logp && logpAfter && advantage !== null) {
    const change = logp.map((before, t) => Math.abs(advantage) * (logpAfter[t] - before))
    return { kind: 'change', values: relative(change, sampled, LEAST_CHANGE) }
  }
  if (slope) {
    // ∂loss/∂logit of the token itself is slope · (1 − π): what is certain already cannot be pushed further.
    const push = slope.map((value, t) => -value * -Math.expm1((logp ?? logMu)[t]))
    return { kind: 'push', values: relative(push, sampled, 1e-12) }
  }
  return {
    kind: 'surprise',
    values: relative(
      logMu.map((value) => -value),
      sampled,
      LEAST_SURPRISE,
    ),
  }
}

// The square root lets small changes show beside one large one.
function relative(values: number[], sampled: number[], least: number): number[] {
  const largest = Math.max(least, ...values.map((value, t) => (sampled[t] ? Math.abs(value) : 0)))
  return values.map((value, t) => (sampled[t] ? Math.sign(value) * Math.sqrt(Math.abs(value) / largest) : 0))
}
