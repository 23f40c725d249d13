// Plans: lists of dispatches with everything bound, made once per shape and replayed. A replay writes nothing: positions,
// lengths and counters live in GPU buffers. Recording an entry costs a fraction of a microsecond of JavaScript.

import type { Kernel, Pipelines } from './kernel.ts'
import { type Profiler, SLICE, type TimedSlice } from './profiler.ts'

/** A buffer, or a part of one. Offsets are multiples of 256. */
export type Bound = GPUBuffer | { buffer: GPUBuffer; offset: number; size: number }

export interface Dispatch {
  kernel: Kernel
  buffers: Bound[]
  workgroups: readonly [number, number?, number?]
}

interface Step {
  name: string
  pipeline: GPUComputePipeline
  group: GPUBindGroup
  x: number
  y: number
  z: number
}

/** Submissions longer than this keep a display from being drawn, and on some systems the watchdog awake. */
const DISPATCHES_PER_SUBMIT = SLICE

export class Plan {
  readonly #steps: Step[]

  constructor(
    readonly pipelines: Pipelines,
    dispatches: Dispatch[],
  ) {
    this.#steps = dispatches.map(({ kernel, buffers, workgroups }) => {
      if (buffers.length !== kernel.bindings.length) {
        throw new Error(`internal: ${kernel.name} binds ${kernel.bindings.length} buffers, got ${buffers.length}`)
      }
      const { pipeline, layout } = pipelines.get(kernel)
      const group = pipelines.device.createBindGroup({
        label: kernel.name,
        layout,
        entries: buffers.map((bound, binding) => ({
          binding,
          resource: 'buffer' in bound ? bound : { buffer: bound },
        })),
      })
      const [x, y = 1, z = 1] = workgroups
      return { name: kernel.name, pipeline, group, x, y, z }
    })
  }

  get length(): number {
    return this.#steps.length
  }

  record(pass: GPUComputePassEncoder, from = 0, to = this.#steps.length): void {
    for (let i = from; i < to; i++) {
      const { pipeline, group, x, y, z } = this.#steps[i]
      pass.setPipeline(pipeline)
      pass.setBindGroup(0, group)
      pass.dispatchWorkgroups(x, y, z)
    }
  }

  /** One pass per dispatch, each timed under its kernel's name. */
  recordTimed(encoder: GPUCommandEncoder, slice: TimedSlice, from: number, to: number): void {
    for (let i = from; i < to; i++) {
      const pass = slice.beginPass(encoder, this.#steps[i].name)
      this.record(pass, i, i + 1)
      pass.end()
    }
  }
}

/** Replays plans in order, in submissions that stay short; `after` may record copies behind the last dispatch. */
export function submit(
  device: GPUDevice,
  plans: Plan[],
  options: { after?: (encoder: GPUCommandEncoder) => void; profiler?: Profiler | null } = {},
): void {
  const { profiler, after } = options
  const parts = cut(plans)
  for (const [i, part] of parts.entries()) {
    const encoder = device.createCommandEncoder()
    const slice = profiler?.active ? profiler.slice(lengthOf(part)) : null
    if (slice) {
      for (const { plan, from, to } of part) plan.recordTimed(encoder, slice, from, to)
      slice.resolve(encoder)
      profiler?.clock?.missed()
    } else {
      const pass = profiler?.clock?.begin(encoder) ?? encoder.beginComputePass()
      for (const { plan, from, to } of part) plan.record(pass, from, to)
      pass.end()
    }
    if (i === parts.length - 1) after?.(encoder)
    device.queue.submit([encoder.finish()])
    slice?.sent()
  }
}

interface Stretch {
  plan: Plan
  from: number
  to: number
}

/** Stretches of plans, so many that a submission stays short. */
function cut(plans: Plan[]): Stretch[][] {
  let part: Stretch[] = []
  const parts = [part]
  let room = DISPATCHES_PER_SUBMIT
  for (const plan of plans) {
    for (let from = 0; from < plan.length; ) {
      if (room === 0) {
        part = []
        parts.push(part)
        room = DISPATCHES_PER_SUBMIT
      }
      const to = Math.min(plan.length, from + room)
      part.push({ plan, from, to })
      room -= to - from
      from = to
    }
  }
  return parts
}

function lengthOf(part: Stretch[]): number {
  return part.reduce((sum, { from, to }) => sum + to - from, 0)
}
