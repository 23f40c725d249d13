import { describe, expect, it } from 'vitest'
import { ATTENTION_TOLERANCE, attendReference, type HeadRows } from '../../workers/gpu/kernels/attendReference.ts'
import { sameBits } from './attendCases.ts'
import { headsAt, PADDING, pack, packedShape, randomRows, runForward, SHAPES } from './attendRows.ts'
import { worst } from './runKernel.ts'

describe.each(SHAPES)(
  'attention over packed rows, %i heads on %i of width %i by %i',
  { timeout: 120_000 },
  (...heads) => {
    const shape = packedShape(heads)
    const { heads: H, outStride } = shape
    const rows = randomRows(shape)

    it('agrees with plain softmax and leaves zeros for padding', async () => {
      const packed = pack(shape, rows, PADDING)
      const { out, logSums } = await runForward(shape, packed)
      const expected = new Float64Array(out.length)
      const expectedSums = new Float64Array(logSums.length)
      for (const [r, { start, length }] of packed.places.entries()) {
        const seen: HeadRows[] = []
        for (let t = 0; t < length; t++) {
          seen.push(headsAt(shape, rows[r], t))
          const { out: mixed, logSums: sums } = attendReference(shape, seen[t].queries, seen)
          expected.set(mixed, (start + t) * outStride)
          expectedSums.set(sums, (start + t) * H)
        }
      }
      expect(worst(out, expected)).toBeLessThan(ATTENTION_TOLERANCE)
      expect(worst(logSums, expectedSums)).toBeLessThan(ATTENTION_TOLERANCE)
    })

    it('gives a row the same bits wherever it is packed', async () => {
      const packed = pack(shape, rows, PADDING)
      const one = await runForward(shape, packed)
      const order = [2, 3, 0, 1]
      const other = pack(
        shape,
        order.map((r) => rows[r]),
        0,
      )
      const two = await runForward(shape, other)
      for (const [place, r] of order.entries()) {
        const { start, length } = packed.places[r]
        const moved = other.places[place].start
        const part = (x: Float32Array, at: number, width: number) => x.subarray(at * width, (at + length) * width)
        expect(sameBits(part(two.out, moved, outStride), part(one.out, start, outStride))).toBe(true)
        expect(sameBits(part(two.logSums, moved, H), part(one.logSums, start, H))).toBe(true)
      }
    })
  },
)
