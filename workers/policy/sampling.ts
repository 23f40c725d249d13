// From one row of logits to one token, in plain numbers: the reference for every sampler. A uniform becomes a token by the
// inverse of the cumulative distribution in the order of token ids, so that the draw depends on the row and the noise alone.

import type { Alternative } from './policy.ts'

export interface TokenRule {
  temperature: number
  topP: number
  topK: number
  minP: number
  repetitionPenalty: number
}

export interface Draw {
  token: number
  /** log softmax(logits / T) of the token over the whole vocabulary, before truncation and penalty; T = 1 where T is 0. */
  logp: number
  /** Entropy of the same distribution, nats. */
  entropy: number
}

/**
 * @param logits one row of V values, untouched
 * @param u uniform in (0, 1)
 * @param seen ids already in the sequence, for the repetition penalty (Keskar et al. 2019)
 */
export function drawToken(logits: ArrayLike<number>, u: number, rule: TokenRule, seen: Iterable<number> = []): Draw {
  const size = logits.length
  const scale = rule.temperature > 0 ? 1 / rule.temperature : 1
  let max = Number.NEGATIVE_INFINITY
  for (let i = 0; i < size; i++) max = Math.max(max, logits[i] * scale)
  if (!Number.isFinite(max)) return { token: -1, logp: Number.NaN, entropy: Number.NaN }
  let sum = 0
  let weighted = 0
  for (let i = 0; i < size; i++) {
    const shifted = logits[i] * scale - max
    const weight = Math.exp(shifted)
    sum += weight
    weighted += weight * shifted
  }
  const logSum = Math.log(sum)
  // H = log Σe^s − Σ s·e^s / Σe^s
  const entropy = logSum - weighted / sum
  const token = choose(logits, u, rule, scale, seen)
  return { token, logp: logits[token] * scale - max - logSum, entropy }
}

/** The likeliest tokens of one row of logits, ties towards the lower id; log-probabilities as in `Draw`, in single precision. */
export function likeliest(logits: ArrayLike<number>, count: number, temperature: number): Alternative[] {
  const scale = temperature > 0 ? 1 / temperature : 1
  const best: number[] = []
  let max = Number.NEGATIVE_INFINITY
  for (let i = 0; i < logits.length; i++) {
    max = Math.max(max, logits[i] * scale)
    if (best.length === count && logits[i] <= logits[best[count - 1]]) continue
    const place = best.findIndex((token) => logits[token] < logits[i])
    best.splice(place < 0 ? best.length : place, 0, i)
    if (best.length > count) best.pop()
  }
  let sum = 0
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i] * scale - max)
  const logSum = max + Math.log(sum)
  return best.map((token) => ({ token, logp: Math.fround(logits[token] * scale - logSum) }))
}

function choose(logits: ArrayLike<number>, u: number, rule: TokenRule, scale: number, seen: Iterable<number>): number {
  const scores = Float64Array.from(logits)
  if (rule.repetitionPenalty !== 1) {
    for (const id of new Set(seen))
      scores[id] = scores[id] > 0 ? scores[id] / rule.repetitionPenalty : scores[id] * rule.repetitionPenalty
  }
  let best = 0
  for (let i = 1; i < scores.length; i++) if (scores[i] > scores[best]) best = i
  if (rule.temperature === 0) return best

  const weights = scores.map((score) => Math.exp((score - scores[best]) * scale))
  truncate(weights, rule)
  let total = 0
  for (const weight of weights) total += weight
  let cumulative = 0
  const goal = u * total
  for (let i = 0; i < weights.length; i++) {
    cumulative += weights[i]
    if (weights[i] > 0 && cumulative >= goal) return i
  }
  return best
}

// Zeroes what top-k, top-p (Holtzman et al. 2020) and min-p leave out; ties break towards the lower id.
function truncate(weights: Float64Array, { topK, topP, minP }: TokenRule): void {
  const limitK = topK > 0 && topK < weights.length
  if (limitK || topP < 1) {
    const order = Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a] || a - b)
    let keep = limitK ? topK : weights.length
    if (topP < 1) {
      let total = 0
      for (let i = 0; i < keep; i++) total += weights[order[i]]
      let cumulative = 0
      for (let i = 0; i < keep; i++) {
        cumulative += weights[order[i]]
        if (cumulative >= topP * total) keep = i + 1
      }
    }
    for (let i = keep; i < order.length; i++) weights[order[i]] = 0
  }
  // The largest weight is 1.
  if (minP > 0) for (let i = 0; i < weights.length; i++) if (weights[i] < minP) weights[i] = 0
}
