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
const DISPATCHES_PER_SUBMIT = 512

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

  record(pass: GPUComputePassEncoder): void {
    for (const { pipeline, group, x, y, z } of this.#steps) {
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

/** Replays plans in order, in as few submissions as stay short; `after` may record copies behind the last one. */
export function submit(
  device: GPUDevice,
  plans: Plan[],
  options: { after?: (encoder: GPUCommandEncoder) => void; profiler?: Profiler | null } = {},
): void {
  let encoder = device.createCommandEncoder()
  const { profiler } = options
  let pass: GPUComputePassEncoder | null = null
  let recorded = 0
  const flush = () => {
    pass?.end()
    pass = null
    device.queue.submit([encoder.finish()])
    encoder = device.createCommandEncoder()
    recorded = 0
  }
  for (const plan of plans) {
    if (recorded > 0 && recorded + plan.length > DISPATCHES_PER_SUBMIT) flush()
    if (profiler?.active) plan.recordTimed(encoder, profiler)
    else {
      pass ??= encoder.beginComputePass()
      plan.record(pass)
    }
    recorded += plan.length
  }
  pass?.end()
  pass = null
  profiler?.resolve(encoder)
  options.after?.(encoder)
  device.queue.submit([encoder.finish()])
}
