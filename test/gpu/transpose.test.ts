import { describe, expect, it } from 'vitest'
import {
  type TransposeSpec,
  transpose,
  transposeReference,
  transposeWorkgroups,
} from '../../workers/gpu/kernels/transpose.ts'
import { halfValue } from '../../workers/gpu/kernels/weightFormat.ts'
import { runKernel } from './runKernel.ts'

/** Rows beyond the quads stand in the matrix too, and are left out. */
const ROWS = 44

function transposed(spec: TransposeSpec, words: Uint32Array) {
  const length = (spec.K * spec.quads * 4) / (spec.format === 'f16' ? 2 : 1)
  return runKernel(transpose(spec), [words, new Uint32Array(length)], transposeWorkgroups(spec)).then(
    ([result]) => result as Uint32Array,
  )
}

describe('transpose', () => {
  it.each([
    [32, 9, false],
    [96, 10, true],
    [64, 4, true],
  ])('puts f32 columns together, K %i, %i quads, alternating %s', async (K, quads, alternating) => {
    const matrix = Float32Array.from({ length: ROWS * K }, (_, i) => Math.sin(i))
    const spec = { K, quads, alternating, format: 'f32' as const }
    const result = await transposed(spec, new Uint32Array(matrix.buffer))
    expect([...new Float32Array(result.buffer)]).toEqual([...transposeReference(matrix, spec)])
  })

  it.each([
    [32, 9, false],
    [64, 10, true],
  ])('puts packed f16 columns together, two of K, K %i, %i quads, alternating %s', async (K, quads, alternating) => {
    // Every half is another positive number.
    const matrix = Float64Array.from({ length: ROWS * K }, (_, i) => halfValue(1024 + i))
    const words = Uint32Array.from({ length: (ROWS * K) / 2 }, (_, i) => (1024 + 2 * i) | ((1025 + 2 * i) << 16))
    const spec = { K, quads, alternating, format: 'f16' as const }
    const result = await transposed(spec, words)
    const halves = Array.from(result, (word) => [halfValue(word & 0xffff), halfValue(word >>> 16)]).flat()
    const expected = transposeReference(matrix, spec)
    // [K / 2][quads][2][4] against [K][4 · quads].
    const at = (i: number) => {
      const [pair, quad, k, n] = [Math.floor(i / (8 * quads)), Math.floor(i / 8) % quads, (i >> 2) & 1, i & 3]
      return expected[(2 * pair + k) * 4 * quads + 4 * quad + n]
    }
    expect(halves).toEqual(Array.from(halves, (_, i) => at(i)))
  })
})
