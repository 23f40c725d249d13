// Attention in plain float64, one token at a time: what the kernels are held against.

import type { HeadShape, RopeShape } from './ropeHead.ts'

/** Weights of the norms per head, [d] each. */
export interface HeadNorms {
  query: ArrayLike<number>
  key: ArrayLike<number>
}

/** The kernels' outputs differ from these references by at most this, relative to 1 + |expected|. */
export const ATTENTION_TOLERANCE = 2e-6
/** Gradients sum over all keys or queries of a row. */
export const ATTENTION_GRADIENT_TOLERANCE = 1e-5

function normed(x: number[], weight: ArrayLike<number>, epsilon: number): number[] {
  let squares = 0
  for (const value of x) squares += value * value
  const s = 1 / Math.sqrt(squares / x.length + epsilon)
  return x.map((value, i) => value * s * weight[i])
}

/** @param turns [positions, d/2] of (cos, sin) */
function turned(x: number[], turns: ArrayLike<number>, position: number): number[] {
  const half = x.length / 2
  return x.map((value, i) => {
    const at = (position * half + (i % half)) * 2
    return i < half ? value * turns[at] - x[i + half] * turns[at + 1] : value * turns[at] + x[i - half] * turns[at + 1]
  })
}

export interface HeadRows {
  /** [H][d], normed, turned, times 1/√d. */
  queries: number[][]
  /** [K][d], normed and turned. */
  keys: number[][]
  /** [K][d] */
  values: number[][]
}

/** One row of qkv, of which `qkv` holds at least H·d + 2·K·d numbers. */
export function headsOfRow(
  shape: RopeShape,
  qkv: ArrayLike<number>,
  position: number,
  turns: ArrayLike<number>,
  norms: HeadNorms | null,
): HeadRows {
  const { heads: H, kvHeads: K, headWidth: d } = shape
  const head = (n: number) => Array.from({ length: d }, (_, i) => qkv[n * d + i])
  const query = (x: number[]) => (norms ? normed(x, norms.query, shape.epsilon) : x)
  const key = (x: number[]) => (norms ? normed(x, norms.key, shape.epsilon) : x)
  const range = (n: number) => Array.from({ length: n }, (_, i) => i)
  return {
    queries: range(H).map((h) => turned(query(head(h)), turns, position).map((value) => value / Math.sqrt(d))),
    keys: range(K).map((k) => turned(key(head(H + k)), turns, position)),
    values: range(K).map((k) => head(H + K + k)),
  }
}

function dot(a: number[], b: number[]): number {
  let sum = 0
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i]
  return sum
}

/**
 * Softmax over `seen`, the rows up to and including the query's own, in order.
 * @returns [H·d] and the log of each head's sum of exponentials
 */
export function attendReference(
  { heads: H, kvHeads: K, headWidth: d }: HeadShape,
  queries: number[][],
  seen: HeadRows[],
): { out: number[]; logSums: number[] } {
  const out: number[] = []
  const logSums: number[] = []
  for (let h = 0; h < H; h++) {
    const k = Math.floor(h / (H / K))
    const scores = seen.map((row) => dot(queries[h], row.keys[k]))
    const top = Math.max(...scores)
    const weights = scores.map((score) => Math.exp(score - top))
    const sum = weights.reduce((a, b) => a + b, 0)
    for (let i = 0; i < d; i++) out.push(weights.reduce((a, w, s) => a + (w / sum) * seen[s].values[k][i], 0))
    logSums.push(top + Math.log(sum))
  }
  return { out, logSums }
}

export interface HeadGradients {
  /** [T][H·d] */
  queries: number[][]
  /** [T][K·d] each. */
  keys: number[][]
  values: number[][]
}

/** Gradients of Σ dOut·out over the tokens of one row, dOut [T][H·d]. */
export function attendGradientReference(
  { heads: H, kvHeads: K, headWidth: d }: HeadShape,
  row: HeadRows[],
  dOut: number[][],
): HeadGradients {
  const zeros = (width: number) => row.map(() => Array<number>(width).fill(0))
  const result = { queries: zeros(H * d), keys: zeros(K * d), values: zeros(K * d) }
  const add = (to: number[], at: number, factor: number, x: number[]) => {
    for (let i = 0; i < d; i++) to[at + i] += factor * x[i]
  }
  for (let t = 0; t < row.length; t++) {
    for (let h = 0; h < H; h++) {
      const k = Math.floor(h / (H / K))
      const query = row[t].queries[h]
      const slope = dOut[t].slice(h * d, (h + 1) * d)
      const scores = row.slice(0, t + 1).map((seen) => dot(query, seen.keys[k]))
      const top = Math.max(...scores)
      const weights = scores.map((score) => Math.exp(score - top))
      const sum = weights.reduce((a, b) => a + b, 0)
      const slopes = row.slice(0, t + 1).map((seen) => dot(slope, seen.values[k]))
      const delta = weights.reduce((a, w, s) => a + (w / sum) * slopes[s], 0)
      for (let s = 0; s <= t; s++) {
        const p = weights[s] / sum
        const dScore = p * (slopes[s] - delta)
        add(result.values[s], k * d, p, slope)
        add(result.queries[t], h * d, dScore, row[s].keys[k])
        add(result.keys[s], k * d, dScore, query)
      }
    }
  }
  return result
}
