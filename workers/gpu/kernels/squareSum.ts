// The first half of a flat vector's norm: sums of squares of its parts, in an order that only its length decides.

import { type Kernel, specialise } from '../kernel.ts'
import source from './squareSum.wgsl?raw'

/** Length of `parts`, and the number of workgroups. */
export const SQUARE_SUM_PARTS = 256

/**
 * Bound in this order: vector f32, padded with zeros to whole quads; parts f32 [SQUARE_SUM_PARTS]. Relative to float64: 1e-5.
 * Dispatch SQUARE_SUM_PARTS workgroups.
 */
export function squareSum(): Kernel {
  return { name: 'squareSum', code: specialise(source, { PARTS: SQUARE_SUM_PARTS }), bindings: ['read', 'write'] }
}

/** The plain reference of all parts together. */
export function squareSumReference(vector: Iterable<number>): number {
  let sum = 0
  for (const value of vector) sum += value * value
  return sum
}
