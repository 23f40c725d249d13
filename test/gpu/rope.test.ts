import { describe, expect, it } from 'vitest'
import {
  ATTENTION_GRADIENT_TOLERANCE,
  ATTENTION_TOLERANCE,
  headsOfRow,
} from '../../workers/gpu/kernels/attendReference.ts'
import { rope, ropeBackward, ropeBackwardWorkgroups, ropeWorkgroups } from '../../workers/gpu/kernels/rope.ts'
import { floats, HEAD_SHAPES, headNorms, normBuffers, ropeShape, turnTable } from './attendCases.ts'
import { runKernel, worst } from './runKernel.ts'

const LENGTHS = [5, 1, 8]
const M = 17 // three of padding

const spans = new Uint32Array(M * 2)
let start = 0
for (const length of [...LENGTHS, 0, 0, 0]) {
  for (let t = 0; t < Math.max(1, length); t++) spans.set([start, start + length], (start + t) * 2)
  start += Math.max(1, length)
}

describe.each(HEAD_SHAPES)('rotary positions, %i heads on %i of width %i, norm %s', (...heads) => {
  const shape = ropeShape(...heads)
  shape.stride += 16 // padding columns
  const { heads: H, kvHeads: K, headWidth: d, stride } = shape
  const width = (H + K) * d
  const random = floats(21)
  const norms = headNorms(shape, random)
  const qkv = random(M * stride, 2)
  const turns = turnTable(10, d)
  const real = Array.from({ length: M }, (_, m) => m).filter((m) => spans[2 * m] < spans[2 * m + 1])

  /** [(H + K)·d] of one token, of raw numbers. */
  function turnedRow(raw: ArrayLike<number>, m: number): number[] {
    const { queries, keys } = headsOfRow(shape, raw, m - spans[2 * m], turns, norms)
    return [...queries.flat(), ...keys.flat()]
  }

  it('turns every row by its own positions', async () => {
    const empty = new Float32Array(M * width).fill(7)
    const buffers = [qkv, spans, turns, ...normBuffers(norms), empty]
    const [qk] = await runKernel(rope(shape), buffers, ropeWorkgroups(shape, M))
    const expected = new Float64Array(M * width)
    for (const m of real) expected.set(turnedRow(qkv.subarray(m * stride), m), m * width)
    expect(worst(qk, expected)).toBeLessThan(ATTENTION_TOLERANCE)
  })

  it('turns gradients back, by central differences of the reference', async () => {
    const dqk = random(M * width)
    const qk = new Float32Array(M * width)
    for (const m of real) qk.set(turnedRow(qkv.subarray(m * stride), m), m * width)
    const before = new Float32Array(M * stride).fill(7)
    const buffers = [dqk, spans, turns, ...(norms ? [qkv, qk] : []), ...normBuffers(norms), before]
    const [dqkv] = await runKernel(ropeBackward(shape), buffers, ropeBackwardWorkgroups(shape, M))
    const expected = new Float64Array(M * stride)
    for (let m = 0; m < M; m++) expected.fill(7, m * stride + width, m * stride + width + K * d)
    for (const m of real) {
      const raw = Float64Array.from(qkv.subarray(m * stride, m * stride + width + K * d))
      const weighted = () => turnedRow(raw, m).reduce((sum, y, i) => sum + y * dqk[m * width + i], 0)
      for (let i = 0; i < width; i++) {
        const x = raw[i]
        raw[i] = x + 1e-5
        const above = weighted()
        raw[i] = x - 1e-5
        expected[m * stride + i] = (above - weighted()) / 2e-5
        raw[i] = x
      }
    }
    expect(worst(dqkv, expected)).toBeLessThan(ATTENTION_GRADIENT_TOLERANCE)
  })
})
