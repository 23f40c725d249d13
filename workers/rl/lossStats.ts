// What the loss saw on its way: numbers per token and per row, kept as moments so that passes can be added up.

import { k3 } from './divergence.ts'
import { type Moments, merge, noMoments, observe } from './moments.ts'
import type { SequenceRatios, Term, Token } from './objectives.ts'

// Per token, the last five per row. Yes-or-no numbers are 0 or 1, so that a mean is a share.
const STATS = [
  'ratio',
  'mismatch_kl',
  'masked_mismatch_kl',
  'unmasked_mismatch_kl',
  'is_masked',
  'is_masked_low',
  'is_masked_high',
  'masked_advantage_positive',
  'masked_advantage_negative',
  'entropy',
  'ref_kl',
  'geo_seq_ratio',
  'geo_masked_low',
  'geo_masked_high',
  'sequence_masked_low',
  'sequence_masked_high',
] as const

export type LossStats = Record<(typeof STATS)[number], Moments>

export function noStats(): LossStats {
  return Object.fromEntries(STATS.map((name) => [name, noMoments()])) as LossStats
}

/** What two passes saw, together. */
export function mergeStats(a: LossStats, b: LossStats): LossStats {
  return Object.fromEntries(STATS.map((name) => [name, merge(a[name], b[name])])) as LossStats
}

export function observeToken(stats: LossStats, token: Token, term: Term, entropy?: number, logRef?: number): void {
  // KL(μ‖π) from tokens drawn from μ: r − d − 1.
  const mismatch = k3(token.logp, token.logp - token.d)
  observe(stats.ratio, token.ratio)
  observe(stats.mismatch_kl, mismatch)
  observe(term.masked ? stats.masked_mismatch_kl : stats.unmasked_mismatch_kl, mismatch)
  observe(stats.is_masked, Number(term.masked))
  observe(stats.is_masked_low, Number(term.low))
  observe(stats.is_masked_high, Number(term.high))
  observe(stats.masked_advantage_positive, Number(term.masked && token.advantage > 0))
  observe(stats.masked_advantage_negative, Number(term.masked && token.advantage < 0))
  if (entropy !== undefined) observe(stats.entropy, entropy)
  if (logRef !== undefined) observe(stats.ref_kl, k3(logRef, token.logp))
}

export function observeSequence(stats: LossStats, sequence: SequenceRatios): void {
  observe(stats.geo_seq_ratio, sequence.geometricMean)
  observe(stats.geo_masked_low, Number(sequence.geometricLow))
  observe(stats.geo_masked_high, Number(sequence.geometricHigh))
  observe(stats.sequence_masked_low, Number(sequence.low))
  observe(stats.sequence_masked_high, Number(sequence.high))
}
