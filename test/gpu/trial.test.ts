// The start-up trial, on the device of these tests: which variants it takes, which it drops and what it says. Never how
// fast anything is.

import { describe, expect, it } from 'vitest'
import { type Kernel, Pipelines } from '../../workers/gpu/kernel.ts'
import { headChunk, headChunkWorkgroups, STATE_NUMBERS } from '../../workers/gpu/kernels/headChunk.ts'
import { norm, normWorkgroups } from '../../workers/gpu/kernels/norm.ts'
import { GpuMemory } from '../../workers/gpu/memory.ts'
import type { Dispatch } from '../../workers/gpu/plan.ts'
import { type Candidate, choicesOf, largestDifference, runTrial } from '../../workers/gpu/trial.ts'
import { offeredBy } from '../../workers/gpu/variants.ts'
import { RandomStream } from '../../workers/random.ts'
import { testDevice } from './runKernel.ts'

const [M, WIDTH] = [70, 64]
const PLAIN = { columns: 61, width: WIDTH, epsilon: 1e-6 }
const device = await testDevice()
const pipelines = Pipelines.of(device)
const { lanes } = offeredBy(device)

function scene() {
  const memory = new GpuMemory(device)
  const random = new RandomStream(1)
  const x = memory.storage('activations', M * WIDTH * 4)
  const weight = memory.storage('weights', WIDTH * 4)
  for (const buffer of [x, weight])
    device.queue.writeBuffer(
      buffer,
      0,
      Float32Array.from({ length: buffer.size / 4 }, () => random.normal()),
    )
  const buffers = [x, weight, memory.storage('activations', M * WIDTH * 4), memory.storage('activations', M * 4)]
  const dispatch = (kernel: Kernel): Dispatch => ({ kernel, buffers, workgroups: normWorkgroups(M) })
  const candidate = (key: string, other: Kernel): Candidate => ({
    key,
    variant: 'subgroups',
    plain: [dispatch(norm(PLAIN))],
    other: [dispatch(other)],
    tolerance: 1e-5,
  })
  return { memory, dispatch, candidate, warmUp: [dispatch(norm(PLAIN))] }
}

const right = norm({ ...PLAIN, lanes })
const wrong = norm({ ...PLAIN, epsilon: 0.5 })
const broken: Kernel = { ...right, code: 'fn main() {' }

describe('the start-up trial', () => {
  it('drops what is wrong or does not compile, and measures the others', async () => {
    const { memory, candidate, warmUp } = scene()
    const candidates = [candidate('right', right), candidate('wrong', wrong), candidate('broken', broken)]
    const lines = await runTrial(pipelines, candidates, { warmUp, timed: true, milliseconds: 30_000 })
    expect(lines.map(({ key }) => key)).toEqual(['right', 'wrong', 'broken'])
    const [first, second, third] = lines
    expect(first.note).toBeNull()
    expect(first.difference).toBeLessThan(1e-5)
    expect(first.plainMicroseconds).toBeGreaterThan(0)
    expect(first.variantMicroseconds).toBeGreaterThan(0)
    expect(first.taken === 'subgroups').toBe(first.variantMicroseconds! < 0.97 * first.plainMicroseconds!)
    expect(second).toMatchObject({ taken: 'plain', plainMicroseconds: null })
    expect(second.note).toMatch(/numbers are off by/)
    expect(third).toMatchObject({ taken: 'plain', difference: null })
    expect(third.note).toMatch(/does not compile/)
    memory.freeAll()
  })

  it('takes without measuring what is right, where it is told to', async () => {
    const { memory, candidate, warmUp } = scene()
    const candidates = [candidate('right', right), candidate('wrong', wrong)]
    const lines = await runTrial(pipelines, candidates, { warmUp, timed: false })
    expect(choicesOf(lines)).toEqual({ right: 'subgroups' })
    expect(lines[0].plainMicroseconds).toBeNull()
    memory.freeAll()
  })

  it('lets both sides begin with the same numbers, however much is written in place', async () => {
    const [rows, columns] = [600, 512]
    const memory = new GpuMemory(device)
    const floats = (count: number) => memory.storage('activations', count * 4)
    const chunk = floats(rows * columns)
    device.queue.writeBuffer(
      chunk,
      0,
      Float32Array.from({ length: rows * columns }, (_, i) => Math.sin(i)),
    )
    const buffers = [
      ...[chunk, floats(rows), floats(rows)],
      ...[memory.uniform('tables', 16, 'first'), floats(rows * STATE_NUMBERS), floats(rows)],
    ]
    const kernel = headChunk({ vocabulary: columns, columns })
    const plain: Dispatch[] = [{ kernel, buffers, workgroups: headChunkWorkgroups(rows) }]
    const same: Candidate = { key: 'same', variant: 'subgroups', plain, other: plain, tolerance: 0 }
    const [line] = await runTrial(pipelines, [same], { warmUp: plain, timed: false })
    expect(line).toMatchObject({ difference: 0, note: null })
    memory.freeAll()
  })

  it('leaves plain what it has no time for', async () => {
    const { memory, candidate, warmUp } = scene()
    const lines = await runTrial(pipelines, [candidate('right', right)], { warmUp, timed: true, milliseconds: 0 })
    expect(lines[0].note).toMatch(/time/)
    expect(choicesOf(lines)).toEqual({})
    memory.freeAll()
  })
})

describe('the difference of two results', () => {
  const bytes = (...values: number[]) => Float32Array.from(values).buffer as ArrayBuffer

  it('is none for the same bits, and relative for others', () => {
    expect(largestDifference(bytes(1, Number.NaN), bytes(1, Number.NaN))).toBe(0)
    expect(largestDifference(bytes(3, 0), bytes(3.5, 0))).toBeCloseTo(0.125)
    expect(largestDifference(bytes(1), bytes(Number.NaN))).toBe(Number.POSITIVE_INFINITY)
    expect(largestDifference(bytes(Number.NaN, 1), bytes(2, 1))).toBe(Number.POSITIVE_INFINITY)
  })
})
