// Log-probabilities that were computed in parts, put together again.

import type { LogProbs } from './policy.ts'

/** Parts in the order of their rows. */
export function joinScores(parts: LogProbs[]): LogProbs {
  return { logp: joined(parts.map(({ logp }) => logp)), entropy: joined(parts.map(({ entropy }) => entropy)) }
}

function joined(parts: Float32Array[]): Float32Array {
  const result = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    result.set(part, at)
    at += part.length
  }
  return result
}
