// Gradients of a low-rank factor: a sum over tokens of outer products, in chunks of rows whose parts `sumParts` adds in order.

import { type Kernel, specialise } from '../kernel.ts'
import source from './outer.wgsl?raw'

export interface OuterSpec {
  name: string
  /** Columns of P and rows of the result; a multiple of 4. */
  N: number
  /** Columns of Q and of the result; a multiple of 4. */
  R: number
  /** Rows in one part; a multiple of 16. */
  chunk: number
}

const MOST_TILES_ACROSS = 64

function tileOf({ N, R }: OuterSpec): { BN: number; BR: number } {
  const across = (width: number) => Math.min(MOST_TILES_ACROSS, Math.ceil(width / 16) * 16)
  return { BN: across(N), BR: across(R) }
}

/** Bound in this order: P [M, N], Q [M, R], parts [chunks, N, R]. M is a multiple of `chunk`; rows past the end are zero in P or Q. */
export function outer(spec: OuterSpec): Kernel {
  const { BN, BR } = tileOf(spec)
  const code = specialise(source, { N: spec.N, R: spec.R, CHUNK: spec.chunk, BN, BR })
  return { name: spec.name, code, bindings: ['read', 'read', 'write'] }
}

export function outerWorkgroups(spec: OuterSpec, M: number): [number, number, number] {
  const { BN, BR } = tileOf(spec)
  return [Math.ceil(spec.N / BN), Math.ceil(spec.R / BR), Math.ceil(M / spec.chunk)]
}

/** @param p [M, N] @param q [M, R] @returns Σ_m p[m, n] · q[m, r] in float64, [N, R] */
export function outerReference(p: Float32Array, q: Float32Array, N: number, R: number): Float64Array {
  const result = new Float64Array(N * R)
  for (let m = 0; m < p.length / N; m++)
    for (let n = 0; n < N; n++) for (let r = 0; r < R; r++) result[n * R + r] += p[m * N + n] * q[m * R + r]
  return result
}
