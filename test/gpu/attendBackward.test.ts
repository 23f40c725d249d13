import { describe, expect, it } from 'vitest'
import type { AttendShape } from '../../workers/gpu/kernels/attend.ts'
import {
  attendBackwardKeys,
  attendBackwardKeysWorkgroups,
  attendBackwardQueries,
  attendBackwardQueriesWorkgroups,
} from '../../workers/gpu/kernels/attendBackward.ts'
import { ATTENTION_GRADIENT_TOLERANCE, attendGradientReference } from '../../workers/gpu/kernels/attendReference.ts'
import { floats, sameBits } from './attendCases.ts'
import { headsAt, PADDING, type Packed, pack, packedShape, randomRows, runForward, SHAPES } from './attendRows.ts'
import { runKernel, worst } from './runKernel.ts'

/** dOut [M, outStride] of rows' own gradients, [T, outStride] each. */
function packGradients({ M, places }: Packed, outStride: number, gradients: Float32Array[]): Float32Array {
  const dOut = new Float32Array(M * outStride).fill(Number.NaN)
  for (const [r, { start }] of places.entries()) dOut.set(gradients[r], start * outStride)
  return dOut
}

async function runBackward(shape: AttendShape, packed: Packed, dOut: Float32Array) {
  const { M, qk, qkv, blocks, capacity } = packed
  const { heads: H, kvHeads: K, headWidth: d, stride } = shape
  const { out, logSums } = await runForward(shape, packed)
  const empty = (width: number) => new Float32Array(M * width).fill(7)
  const [half, delta] = await runKernel(
    attendBackwardQueries(shape),
    [qk, qkv, dOut, out, logSums, blocks, empty((H + K) * d), empty(H)],
    attendBackwardQueriesWorkgroups(shape, capacity),
  )
  const [dqk, dqkv] = await runKernel(
    attendBackwardKeys(shape),
    [qk, qkv, dOut, logSums, delta, blocks, half, empty(stride)],
    attendBackwardKeysWorkgroups(shape, capacity),
  )
  return { dqk: dqk as Float32Array, dqkv: dqkv as Float32Array }
}

describe.each(SHAPES)('gradients of attention, %i heads on %i of width %i by %i', { timeout: 120_000 }, (...heads) => {
  const shape = packedShape(heads)
  const { heads: H, kvHeads: K, headWidth: d, outStride, stride } = shape
  const width = (H + K) * d
  const rows = randomRows(shape)
  const random = floats(32)
  const gradients = rows.map(({ values }) => random((values.length / (K * d)) * outStride))

  it('agree with the formulas, and are zero for padding', async () => {
    const packed = pack(shape, rows, PADDING)
    const { dqk, dqkv } = await runBackward(shape, packed, packGradients(packed, outStride, gradients))
    const expected = new Float64Array(packed.M * width)
    const expectedValues = new Float64Array(packed.M * stride)
    // Columns of queries, keys and padding are for others to write.
    for (let m = 0; m < packed.M; m++) {
      expectedValues.fill(7, m * stride, m * stride + width)
      expectedValues.fill(7, m * stride + width + K * d, (m + 1) * stride)
    }
    for (const [r, { start, length }] of packed.places.entries()) {
      const tokens = Array.from({ length }, (_, t) => headsAt(shape, rows[r], t))
      const slopes = tokens.map((_, t) => Array.from(gradients[r].subarray(t * outStride, t * outStride + H * d)))
      const { queries, keys, values } = attendGradientReference(shape, tokens, slopes)
      for (let t = 0; t < length; t++) {
        expected.set([...queries[t], ...keys[t]], (start + t) * width)
        expectedValues.set(values[t], (start + t) * stride + width)
      }
    }
    expect(worst(dqk, expected)).toBeLessThan(ATTENTION_GRADIENT_TOLERANCE)
    expect(worst(dqkv, expectedValues)).toBeLessThan(ATTENTION_GRADIENT_TOLERANCE)
  })

  it('have the same bits wherever a row is packed', async () => {
    const packed = pack(shape, rows, PADDING)
    const one = await runBackward(shape, packed, packGradients(packed, outStride, gradients))
    const order = [2, 3, 0, 1]
    const pick = <T>(list: T[]) => order.map((r) => list[r])
    const other = pack(shape, pick(rows), 0)
    const two = await runBackward(shape, other, packGradients(other, outStride, pick(gradients)))
    for (const [place, r] of order.entries()) {
      const { start, length } = packed.places[r]
      const moved = other.places[place].start
      const part = (x: Float32Array, at: number, step: number) => x.subarray(at * step, (at + length) * step)
      expect(sameBits(part(two.dqk, moved, width), part(one.dqk, start, width))).toBe(true)
      expect(sameBits(part(two.dqkv, moved, stride), part(one.dqkv, start, stride))).toBe(true)
    }
  })
})
