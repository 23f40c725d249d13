// Gradients of low-rank factors, sums of parts, and the way between flat and staged numbers.

import { describe, expect, it } from 'vitest'
import { outer, outerReference, outerWorkgroups } from '../../workers/gpu/kernels/outer.ts'
import { NOTHING, SCALED, stage, stageWorkgroups } from '../../workers/gpu/kernels/stage.ts'
import { sumParts, sumPartsWorkgroups } from '../../workers/gpu/kernels/sumParts.ts'
import { RandomStream } from '../../workers/random.ts'
import { runKernel, worst } from './runKernel.ts'

function numbers(name: string, length: number): Float32Array {
  const random = new RandomStream(3).fork(name)
  return Float32Array.from({ length }, () => random.normal())
}

describe('the outer product over tokens', () => {
  it.each([
    [48, 16],
    [16, 100],
    [84, 36],
  ])('agrees with plain sums, [%i, %i]', async (N, R) => {
    const M = 96
    const spec = { name: 'test', N, R, chunk: 32 }
    const [p, q] = [numbers('p', M * N), numbers('q', M * R)]
    const [parts] = (await runKernel(
      outer(spec),
      [p, q, new Float32Array(3 * N * R)],
      outerWorkgroups(spec, M),
    )) as Float32Array[]
    const sum = { name: 'test', parts: 0, size: N * R, addend: 'result' as const }
    const before = numbers('before', N * R)
    const [got] = await runKernel(sumParts(sum), [parts, parts, before.slice()], sumPartsWorkgroups(sum))
    const expected = outerReference(p, q, N, R).map((value, i) => value + before[i])
    expect(worst(got, expected)).toBeLessThan(1e-5)
  })
})

describe('parts of a sum', () => {
  it.each(['none', 'residual', 'bias'] as const)('are added in order, with %s', async (addend) => {
    const [rows, columns] = [7, 12]
    const size = rows * columns
    const parts = numbers('parts', 3 * size)
    const added = numbers('added', addend === 'bias' ? columns : size)
    const sum = { name: 'test', parts: 3, size, addend, columns }
    const [got] = await runKernel(sumParts(sum), [parts, added, new Float32Array(size)], sumPartsWorkgroups(sum))
    const expected = Float64Array.from({ length: size }, (_, i) => {
      const own = parts[i] + parts[size + i] + parts[2 * size + i]
      return own + (addend === 'none' ? 0 : added[addend === 'bias' ? i % columns : i])
    })
    expect(worst(got, expected)).toBeLessThan(1e-6)
  })
})

describe('staging', () => {
  it('moves, scales and leaves out as its map says', async () => {
    const source = numbers('source', 40)
    const map = Uint32Array.of(3, 39, NOTHING, (7 | SCALED) >>> 0, 0, (0 | SCALED) >>> 0)
    const [got] = await runKernel(stage('test', 6, 2.5), [source, map, new Float32Array(6)], stageWorkgroups(6))
    expect([...got]).toEqual([
      source[3],
      source[39],
      0,
      Math.fround(source[7] * 2.5),
      source[0],
      Math.fround(source[0] * 2.5),
    ])
  })
})
