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

  read(): Promise<Float32Array> {
    return this.adapters.readOne(this.flat)
  }

  dispose(): void {
    this.adapters.forget(this)
  }
}

/** Adapters as the products of one purpose read them. Sampling and learning have one each: they may differ in version. */
export class StagedAdapters {
  readonly buffer: GPUBuffer
  readonly #plans = new Map<GPUBuffer, Plan>()
  /** Whose numbers the buffer holds. */
  #shown: AdapterChoice | null = null

  constructor(
    readonly adapters: Adapters,
    readonly map: GPUBuffer,
    label: string,
  ) {
    this.buffer = adapters.memory.storage('adapters', adapters.staging.size * 4, label)
  }

  /** Makes the products read these numbers. */
  show(choice: AdapterChoice): void {
    if (this.#shown === choice) return
    this.#shown = choice
    const { device } = this.adapters.memory
    if (choice === 'none') {
      const encoder = device.createCommandEncoder()
      encoder.clearBuffer(this.buffer)
      device.queue.submit([encoder.finish()])
      return
    }
    submit(device, [this.#planFrom(choice === 'live' ? this.adapters.flat : (choice as CompiledSnapshot).flat)])
  }

  #planFrom(source: GPUBuffer): Plan {
    let plan = this.#plans.get(source)
    if (!plan) {
      const { size, scale } = this.adapters.staging
      const kernel = stage('adapters.stage', size, scale)
      const buffers = [source, this.map, this.buffer]
      plan = new Plan(this.adapters.pipelines, [{ kernel, buffers, workgroups: stageWorkgroups(size) }])
      this.#plans.set(source, plan)
    }
    return plan
  }

  /** The live numbers have changed. */
  changed(): void {
    if (this.#shown === 'live') this.#shown = null
  }

  forget(snapshot: CompiledSnapshot): void {
    this.#plans.delete(snapshot.flat)
    if (this.#shown === snapshot) this.#shown = null
  }
}

export class Adapters {
  readonly flat: GPUBuffer
  readonly firstMoment: GPUBuffer
  readonly secondMoment: GPUBuffer
  readonly sampling: StagedAdapters
  readonly learning: StagedAdapters
  /** ∂/∂staged, added to by every pass. */
  readonly stagedGradient: GPUBuffer

  constructor(
    readonly memory: GpuMemory,
    readonly pipelines: Pipelines,
    readonly staging: Staging,
    readonly size: number,
  ) {
    this.flat = memory.storage('adapters', size * 4, 'adapters')
    this.firstMoment = memory.storage('optimizer', size * 4, 'first moment')
    this.secondMoment = memory.storage('optimizer', size * 4, 'second moment')
    this.stagedGradient = memory.storage('optimizer', staging.size * 4, 'staged gradient')
    const toStaged = memory.storage('adapters', staging.size * 4, 'staging map')
    memory.device.queue.writeBuffer(toStaged, 0, staging.toStaged as BufferSource)
    this.sampling = new StagedAdapters(this, toStaged, 'staged adapters, sampling')
    this.learning = new StagedAdapters(this, toStaged, 'staged adapters, learning')
  }

  /** The live numbers have changed. */
  changed(): void {
    this.sampling.changed()
    this.learning.changed()
  }

  write(flat: Float32Array, first: Float32Array, second: Float32Array): void {
    const { queue } = this.memory.device
    queue.writeBuffer(this.flat, 0, flat as BufferSource)
    queue.writeBuffer(this.firstMoment, 0, first as BufferSource)
    queue.writeBuffer(this.secondMoment, 0, second as BufferSource)
    this.changed()
  }

  async read(): Promise<{ trainable: Float32Array; firstMoment: Float32Array; secondMoment: Float32Array }> {
    const [trainable, firstMoment, secondMoment] = await Promise.all(
      [this.flat, this.firstMoment, this.secondMoment].map((buffer) => this.readOne(buffer)),
    )
    return { trainable, firstMoment, secondMoment }
  }

  readOne(buffer: GPUBuffer): Promise<Float32Array> {
    return readFloats(this.memory.device, buffer, this.size)
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

  snapshotOf(trainable: Float32Array, version: number): Snapshot {
    const copy = this.memory.storage('adapters', this.size * 4, `snapshot ${version}`)
    this.memory.device.queue.writeBuffer(copy, 0, trainable as BufferSource)
    return new CompiledSnapshot(version, copy, this)
  }

  forget(snapshot: CompiledSnapshot): void {
    this.sampling.forget(snapshot)
    this.learning.forget(snapshot)
    this.memory.free(snapshot.flat)
  }
}
