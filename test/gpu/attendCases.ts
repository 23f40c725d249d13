// Shapes and random inputs that the tests of attention share.

import type { HeadNorms } from '../../workers/gpu/kernels/attendReference.ts'
import type { RopeShape } from '../../workers/gpu/kernels/ropeHead.ts'
import { RandomStream } from '../../workers/random.ts'

/** [heads, kvHeads, headWidth, norm] */
export const HEAD_SHAPES: [number, number, number, boolean][] = [
  [4, 2, 8, false],
  [3, 1, 8, true],
  [4, 2, 32, true],
  [3, 1, 32, false],
]

export function ropeShape(heads: number, kvHeads: number, headWidth: number, norm: boolean): RopeShape {
  const stride = Math.ceil(((heads + 2 * kvHeads) * headWidth) / 16) * 16
  return { heads, kvHeads, headWidth, norm, epsilon: 1e-6, stride }
}

/** Uniform in ±scale. */
export function floats(seed: number): (length: number, scale?: number) => Float32Array {
  const stream = new RandomStream(seed)
  return (length, scale = 1) => Float32Array.from({ length }, () => (2 * stream.next() - 1) * scale)
}

/** [positions, d/2] of (cos, sin), as the rotary tables of a model. */
export function turnTable(positions: number, headWidth: number): Float32Array {
  const half = headWidth / 2
  const turns = new Float32Array(positions * half * 2)
  for (let p = 0; p < positions; p++) {
    for (let i = 0; i < half; i++) {
      const angle = p * 10000 ** (-i / half)
      turns.set([Math.cos(angle), Math.sin(angle)], (p * half + i) * 2)
    }
  }
  return turns
}

export function headNorms(shape: RopeShape, random: (length: number) => Float32Array): HeadNorms | null {
  if (!shape.norm) return null
  const weight = () => random(shape.headWidth).map((x) => 1 + x / 2)
  return { query: weight(), key: weight() }
}

/** The norms as the kernels bind them. */
export function normBuffers(norms: HeadNorms | null): Float32Array[] {
  return norms ? [norms.query as Float32Array, norms.key as Float32Array] : []
}

export function sameBits(a: ArrayLike<number>, b: ArrayLike<number>): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (!Object.is(a[i], b[i])) return false
  return true
}
