// Plans: lists of dispatches with everything bound, made once per shape and replayed. A replay writes nothing: positions,
// lengths and counters live in GPU buffers. Recording an entry costs a fraction of a microsecond of JavaScript.

import type { Kernel, Pipelines } from './kernel.ts'
import type { Profiler } from './profiler.ts'

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
const DISPATCHES_PER_SUBMIT = 256

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
  recordTimed(encoder: GPUCommandEncoder, profiler: Profiler): void {
    for (const { name, pipeline, group, x, y, z } of this.#steps) {
      const pass = profiler.beginPass(encoder, name)
      pass.setPipeline(pipeline)
      pass.setBindGroup(0, group)
      pass.dispatchWorkgroups(x, y, z)
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
  let encoder = device.createCommandEncoder()
  if (profiler?.active) {
    for (const plan of plans) plan.recordTimed(encoder, profiler)
    profiler.resolve(encoder)
  } else {
    let pass = encoder.beginComputePass()
    let room = DISPATCHES_PER_SUBMIT
    for (const plan of plans) {
      for (let from = 0; from < plan.length; ) {
        if (room === 0) {
          pass.end()
          device.queue.submit([encoder.finish()])
          encoder = device.createCommandEncoder()
          pass = encoder.beginComputePass()
          room = DISPATCHES_PER_SUBMIT
        }
        const to = Math.min(plan.length, from + room)
        plan.record(pass, from, to)
        room -= to - from
        from = to
      }
    }
    pass.end()
  }
  after?.(encoder)
  device.queue.submit([encoder.finish()])
}
