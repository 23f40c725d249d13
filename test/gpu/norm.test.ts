import { describe, expect, it } from 'vitest'
import {
  norm,
  normBackward,
  normBackwardReference,
  normReference,
  normWorkgroups,
} from '../../workers/gpu/kernels/norm.ts'
import { offeredBy } from '../../workers/gpu/variants.ts'
import { RandomStream } from '../../workers/random.ts'
import { runKernel, testDevice, worst } from './runKernel.ts'

const EPSILON = 1e-5
const offered = offeredBy(await testDevice())

function padded(rows: number, columns: number, width: number, next: () => number): Float32Array {
  return Float32Array.from({ length: rows * width }, (_, i) => (i % width < columns ? next() : 0))
}

function rowsOf(values: Float32Array, columns: number, width: number): Float32Array[] {
  return Array.from({ length: values.length / width }, (_, r) => values.subarray(r * width, r * width + columns))
}

describe.each([
  [1, 16, 16],
  [5, 61, 64],
  [9, 200, 208],
  [3, 896, 896],
])('RMSNorm of %i rows of %i columns in %i', (M, columns, width) => {
  const random = new RandomStream(width)
  const x = padded(M, columns, width, () => 3 * random.normal() + 1)
  const dy = padded(M, columns, width, () => random.normal())
  const weight = padded(1, columns, width, () => random.normal())
  const s = Float32Array.from(rowsOf(x, columns, width), (row) => normReference(row, weight, EPSILON).s)

  async function expectNorm(lanes: number) {
    const data = [x, weight, new Float32Array(M * width).fill(7), new Float32Array(M)]
    const [y, scales] = await runKernel(norm({ columns, width, epsilon: EPSILON, lanes }), data, normWorkgroups(M))
    rowsOf(y as Float32Array, columns, width).forEach((row, r) => {
      const expected = normReference(rowsOf(x, columns, width)[r], weight, EPSILON)
      expect(worst(row, expected.y)).toBeLessThan(1e-6)
      expect(Math.abs(scales[r] / expected.s - 1)).toBeLessThan(1e-6)
      expect([...y.subarray(r * width + columns, (r + 1) * width)].every((v) => v === 0)).toBe(true)
    })
  }

  async function expectGradient(add: boolean, lanes: number) {
    const residual = padded(M, columns, width, () => random.normal())
    const data = [dy, x, weight, s, residual.slice()]
    const [dx] = await runKernel(normBackward({ columns, width, lanes }, add), data, normWorkgroups(M))
    rowsOf(dx as Float32Array, columns, width).forEach((row, r) => {
      const own = normBackwardReference(rowsOf(dy, columns, width)[r], rowsOf(x, columns, width)[r], weight, EPSILON)
      const before = rowsOf(residual, columns, width)[r]
      expect(
        worst(
          row,
          own.map((v, i) => v + (add ? before[i] : 0)),
        ),
      ).toBeLessThan(1e-5)
    })
  }

  it('agrees with float64', () => expectNorm(0))
  it.each([false, true])('has the gradient of float64, added: %s', (add) => expectGradient(add, 0))

  it.skipIf(offered.lanes === 0)('does so by subgroup shuffles', async () => {
    await expectNorm(offered.lanes)
    for (const add of [false, true]) await expectGradient(add, offered.lanes)
  })
})

it.each([0, offered.lanes])('norms a row as it does alone, bit for bit, %i lanes', async (lanes) => {
  const [columns, width, M] = [77, 80, 11]
  const random = new RandomStream(1)
  const x = padded(M, columns, width, () => random.normal())
  const weight = padded(1, columns, width, () => random.normal())
  const kernel = norm({ columns, width, epsilon: EPSILON, lanes })
  const run = async (rows: Float32Array) => {
    const count = rows.length / width
    return runKernel(kernel, [rows, weight, rows.slice(), new Float32Array(count)], normWorkgroups(count))
  }
  const [together] = await run(x)
  for (let r = 0; r < M; r++) {
    const [alone] = await run(x.slice(r * width, (r + 1) * width))
    expect([...alone]).toEqual([...together.subarray(r * width, (r + 1) * width)])
  }
})
