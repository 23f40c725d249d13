// The trainable numbers on the GPU: live, their optimizer's moments, snapshots, and the staged copy that products read.

import type { Pipelines } from '../../gpu/kernel.ts'
import { stage, stageWorkgroups } from '../../gpu/kernels/stage.ts'
import type { GpuMemory } from '../../gpu/memory.ts'
import { Plan, submit } from '../../gpu/plan.ts'
import { readFloats } from '../../gpu/readback.ts'
import type { AdapterChoice, Snapshot } from '../policy.ts'
import type { Staging } from './staging.ts'

class CompiledSnapshot implements Snapshot {
  constructor(
    readonly version: number,
    readonly flat: GPUBuffer,
    readonly adapters: Adapters,
  ) {}

  dispose(): void {
    this.adapters.forget(this)
  }
}

export class Adapters {
  readonly flat: GPUBuffer
  readonly firstMoment: GPUBuffer
  readonly secondMoment: GPUBuffer
  readonly staged: GPUBuffer
  /** ∂/∂staged, added to by every pass. */
  readonly stagedGradient: GPUBuffer
  readonly #toStaged: GPUBuffer
  readonly #plans = new Map<GPUBuffer, Plan>()
  /** Whose numbers `staged` holds. */
  #shown: AdapterChoice | null = null

  constructor(
    readonly memory: GpuMemory,
    readonly pipelines: Pipelines,
    readonly staging: Staging,
    readonly size: number,
  ) {
    this.flat = memory.storage('adapters', size * 4, 'adapters')
    this.firstMoment = memory.storage('optimizer', size * 4, 'first moment')
    this.secondMoment = memory.storage('optimizer', size * 4, 'second moment')
    this.staged = memory.storage('adapters', staging.size * 4, 'staged adapters')
    this.stagedGradient = memory.storage('optimizer', staging.size * 4, 'staged gradient')
    this.#toStaged = memory.storage('adapters', staging.size * 4, 'staging map')
    memory.device.queue.writeBuffer(this.#toStaged, 0, staging.toStaged as BufferSource)
  }

  /** Makes the products read these numbers. */
  show(choice: AdapterChoice): void {
    if (this.#shown === choice) return
    this.#shown = choice
    const { device } = this.memory
    if (choice === 'none') {
      const encoder = device.createCommandEncoder()
      encoder.clearBuffer(this.staged)
      device.queue.submit([encoder.finish()])
      return
    }
    const source = choice === 'live' ? this.flat : (choice as CompiledSnapshot).flat
    let plan = this.#plans.get(source)
    if (!plan) {
      const { size, scale } = this.staging
      plan = new Plan(this.pipelines, [
        {
          kernel: stage('adapters.stage', size, scale),
          buffers: [source, this.#toStaged, this.staged],
          workgroups: stageWorkgroups(size),
        },
      ])
      this.#plans.set(source, plan)
    }
    submit(device, [plan])
  }

  /** The live numbers have changed. */
  changed(): void {
    if (this.#shown === 'live') this.#shown = null
  }

  write(flat: Float32Array, first: Float32Array, second: Float32Array): void {
    const { queue } = this.memory.device
    queue.writeBuffer(this.flat, 0, flat as BufferSource)
    queue.writeBuffer(this.firstMoment, 0, first as BufferSource)
    queue.writeBuffer(this.secondMoment, 0, second as BufferSource)
    this.changed()
  }

  async read(): Promise<{ trainable: Float32Array; firstMoment: Float32Array; secondMoment: Float32Array }> {
    const { device } = this.memory
    const [trainable, firstMoment, secondMoment] = await Promise.all(
      [this.flat, this.firstMoment, this.secondMoment].map((buffer) => readFloats(device, buffer, this.size)),
    )
    return { trainable, firstMoment, secondMoment }
  }

  clearGradient(): void {
    const { device } = this.memory
    const encoder = device.createCommandEncoder()
    encoder.clearBuffer(this.stagedGradient)
    device.queue.submit([encoder.finish()])
  }

  snapshot(version: number): Snapshot {
    const { device } = this.memory
    const copy = this.memory.storage('adapters', this.size * 4, `snapshot ${version}`)
    const encoder = device.createCommandEncoder()
    encoder.copyBufferToBuffer(this.flat, 0, copy, 0, this.size * 4)
    device.queue.submit([encoder.finish()])
    return new CompiledSnapshot(version, copy, this)
  }

  forget(snapshot: CompiledSnapshot): void {
    this.#plans.delete(snapshot.flat)
    if (this.#shown === snapshot) this.#shown = null
    this.memory.free(snapshot.flat)
  }
}
