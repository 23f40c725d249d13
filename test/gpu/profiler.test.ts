// GPU time by kernel: right names and counts whatever is on its way at once, never more than the wall clock, and no
// complaint from the device. Needs a device that tells times, as Dawn's software one does.

import { beforeAll, expect, it } from 'vitest'
import { Pipelines } from '../../workers/gpu/kernel.ts'
import { squareSum } from '../../workers/gpu/kernels/squareSum.ts'
import { swiglu } from '../../workers/gpu/kernels/swiglu.ts'
import { Plan, submit } from '../../workers/gpu/plan.ts'
import { Profiler, SET, SLICE } from '../../workers/gpu/profiler.ts'
import { testDevice } from './runKernel.ts'

let device: GPUDevice
let short: Plan
let long: Plan

beforeAll(async () => {
  device = await testDevice()
  const buffer = (floats: number) =>
    device.createBuffer({ size: floats * 4, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST })
  const [gateUp, h, vector, parts] = [buffer(512), buffer(256), buffer(4096), buffer(256)]
  const one = { kernel: swiglu(), buffers: [gateUp, h], workgroups: [1] as const }
  const other = { kernel: squareSum(), buffers: [vector, parts], workgroups: [1] as const }
  short = new Plan(Pipelines.of(device), [one, one, other])
  long = new Plan(
    Pipelines.of(device),
    Array.from({ length: SLICE + 7 }, () => other),
  )
})

async function withoutComplaint<T>(work: () => Promise<T>): Promise<T> {
  device.pushErrorScope('validation')
  const result = await work()
  expect(await device.popErrorScope()).toBeNull()
  return result
}

const dispatchesOf = ({ kernels }: Awaited<ReturnType<Profiler['times']>>) =>
  Object.fromEntries(kernels.map(({ name, dispatches }) => [name, dispatches]))

it('times every dispatch of several submissions that are on their way at once', async () => {
  const profiler = new Profiler(device)
  expect(profiler.offered).toBe(true)
  await withoutComplaint(async () => {
    for (let round = 1; round <= 3; round++) {
      profiler.turn(true)
      const began = performance.now()
      for (let i = 0; i < 4; i++) submit(device, [short, long, short], { profiler })
      const times = await profiler.times()
      const wall = performance.now() - began
      expect(times.untimed).toBe(0)
      expect(dispatchesOf(times)).toEqual({ swiglu: 4 * 4, squareSum: 4 * (SLICE + 9) })
      const sum = times.kernels.reduce((total, { milliseconds }) => total + milliseconds, 0)
      expect(sum).toBeGreaterThan(0)
      // Browsers round a timestamp down to a multiple of 65.536 µs.
      expect(sum).toBeLessThanOrEqual(wall + 0.066)
      expect(times.kernels.map(({ milliseconds }) => milliseconds)).toEqual(
        times.kernels.map(({ milliseconds }) => milliseconds).sort((a, b) => b - a),
      )
    }
  })
  profiler.dispose()
})

it('runs on without times when too many dispatches are on their way, and says how many', async () => {
  const profiler = new Profiler(device, 1)
  profiler.turn(true)
  const rounds = Math.ceil((SET * 1.5) / long.length)
  await withoutComplaint(async () => {
    for (let i = 0; i < rounds; i++) submit(device, [long], { profiler })
    const { kernels, untimed } = await profiler.times()
    expect(untimed).toBeGreaterThan(0)
    expect(kernels[0].dispatches + untimed).toBe(rounds * long.length)
    profiler.turn(true)
    submit(device, [long], { profiler })
    expect(await profiler.times()).toMatchObject({ kernels: [{ dispatches: long.length }], untimed: 0 })
  })
  profiler.dispose()
})

it('counts what is on its way for the time in which it was sent, and nothing once it is off', async () => {
  const profiler = new Profiler(device)
  profiler.turn(true)
  submit(device, [long], { profiler })
  profiler.turn(true)
  submit(device, [short], { profiler })
  profiler.turn(false)
  submit(device, [long], { profiler })
  expect(dispatchesOf(await withoutComplaint(() => profiler.times()))).toEqual({ swiglu: 2, squareSum: 1 })
  profiler.dispose()
})

it('can be put away while times are on their way', async () => {
  const profiler = new Profiler(device)
  profiler.turn(true)
  await withoutComplaint(async () => {
    submit(device, [long], { profiler })
    profiler.dispose()
    expect((await profiler.times()).kernels).toEqual([])
    submit(device, [short], { profiler })
    await device.queue.onSubmittedWorkDone()
  })
})
