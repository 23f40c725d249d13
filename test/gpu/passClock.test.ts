// How long the GPU computes: never more than the wall clock, more for more work, honest where it cannot tell.

import { beforeAll, describe, expect, it } from 'vitest'
import { Pipelines } from '../../workers/gpu/kernel.ts'
import { swiglu } from '../../workers/gpu/kernels/swiglu.ts'
import { covered } from '../../workers/gpu/passClock.ts'
import { Plan, submit } from '../../workers/gpu/plan.ts'
import { Profiler } from '../../workers/gpu/profiler.ts'
import { testDevice } from './runKernel.ts'

const ticks = (...values: number[]) => BigInt64Array.from(values, BigInt)

describe('time covered by passes', () => {
  it('counts what overlaps once, in whatever order it comes', () => {
    expect(covered(ticks())).toBe(0n)
    expect(covered(ticks(10, 20, 30, 45))).toBe(25n)
    // 30–50, 40–60 and 41–42 cover 30–60; 5–10 stands alone.
    expect(covered(ticks(40, 60, 30, 50, 41, 42, 5, 10))).toBe(35n)
  })

  it('makes nothing of a clock that ran backwards', () => {
    expect(covered(ticks(20, 10, 30, 31))).toBe(1n)
  })
})

describe('the clock of a device', () => {
  let device: GPUDevice
  let plan: Plan
  beforeAll(async () => {
    device = await testDevice()
    const buffer = (floats: number) => device.createBuffer({ size: floats * 4, usage: GPUBufferUsage.STORAGE })
    plan = new Plan(Pipelines.of(device), [{ kernel: swiglu(), buffers: [buffer(512), buffer(256)], workgroups: [1] }])
  })

  it('tells of every submission since it was last asked, and never more than the wall', async () => {
    const profiler = new Profiler(device)
    device.pushErrorScope('validation')
    const clock = profiler.clock!
    expect(await clock.busySeconds()).toBe(0)
    // More passes than one query set holds.
    for (const submissions of [300, 2500]) {
      const began = performance.now()
      for (let i = 0; i < submissions; i++) submit(device, [plan], { profiler })
      const busy = await clock.busySeconds()
      expect(busy).toBeGreaterThan(0)
      expect(busy).toBeLessThanOrEqual((performance.now() - began) / 1000 + 1e-4)
    }
    expect(await clock.busySeconds()).toBe(0)
    expect(await device.popErrorScope()).toBeNull()
    profiler.dispose()
  })

  it('says nothing of a time in which kernels were timed one by one', async () => {
    const profiler = new Profiler(device)
    profiler.turn(true)
    submit(device, [plan], { profiler })
    await profiler.times()
    profiler.turn(false)
    submit(device, [plan], { profiler })
    expect(await profiler.clock!.busySeconds()).toBeNull()
    // Timestamps are rounded: one pass of a few microseconds may have taken no time at all.
    for (let i = 0; i < 300; i++) submit(device, [plan], { profiler })
    expect(await profiler.clock!.busySeconds()).toBeGreaterThan(0)
    profiler.dispose()
  })
})
