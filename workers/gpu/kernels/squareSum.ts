// The first half of a flat vector's norm: sums of squares of its parts, in an order that only its length decides.

import type { Kernel } from '../kernel.ts'
import source from './squareSum.wgsl?raw'
import sumText from './sumOfThreads.wgsl?raw'

/** Length of `parts`. */
export const SQUARE_SUM_PARTS = 256

/**
 * Bound in this order: vector f32, padded with zeros to whole quads; parts f32 [SQUARE_SUM_PARTS], of which a short
 * vector writes the first ones alone: the others are zero from the start. Relative to float64: 1e-5.
 */
export function squareSum(): Kernel {
  return { name: 'squareSum', code: `${sumText}\n${source}`, bindings: ['read', 'write'] }
}

/** Decides the order of the sum, and so depends on the length alone. */
export function squareSumWorkgroups(P: number): [number] {
  return [Math.max(1, Math.min(SQUARE_SUM_PARTS, Math.ceil(P / 4 / 1024)))]
}

/** The plain reference of all parts together. */
export function squareSumReference(vector: Iterable<number>): number {
  let sum = 0
  for (const value of vector) sum += value * value
  return sum
}
