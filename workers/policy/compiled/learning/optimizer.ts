// The update: gradient back into flat order, its norm, one AdamW dispatch over all trainable numbers.

import { adamw, adamwWorkgroups, packStep, STEP_WORDS } from '../../../gpu/kernels/adamw.ts'
import { SQUARE_SUM_PARTS, squareSum, squareSumWorkgroups } from '../../../gpu/kernels/squareSum.ts'
import { stage, stageWorkgroups } from '../../../gpu/kernels/stage.ts'
import { Plan, submit } from '../../../gpu/plan.ts'
import { readFloats } from '../../../gpu/readback.ts'
import type { OptimizerStep } from '../../policy.ts'
import type { Adapters } from '../adapters.ts'
import type { Engine } from '../engine.ts'

export class Optimizer {
  readonly #gradient: GPUBuffer
  readonly #step: GPUBuffer
  readonly #report: GPUBuffer
  readonly #staging: GPUBuffer
  readonly #flatten: Plan
  readonly #update: Plan

  constructor(
    readonly engine: Engine,
    readonly adapters: Adapters,
  ) {
    const { memory, pipelines, device, staging } = engine
    const { size } = adapters
    this.#gradient = memory.storage('optimizer', size * 4, 'gradient')
    const map = memory.storage('optimizer', size * 4, 'gradient map')
    device.queue.writeBuffer(map, 0, staging.toFlat as BufferSource)
    this.#flatten = new Plan(pipelines, [
      {
        kernel: stage('adapters.gradient', size, staging.scale),
        buffers: [adapters.stagedGradient, map, this.#gradient],
        workgroups: stageWorkgroups(size),
      },
    ])
    this.#step = memory.uniform('optimizer', STEP_WORDS * 4, 'optimizer step')
    this.#report = memory.storage('optimizer', 16, 'norm')
    this.#staging = memory.staging(16, 'norm')
    const parts = memory.storage('optimizer', SQUARE_SUM_PARTS * 4, 'squares')
    const { flat, firstMoment, secondMoment } = adapters
    this.#update = new Plan(pipelines, [
      { kernel: squareSum(), buffers: [this.#gradient, parts], workgroups: squareSumWorkgroups(size) },
      {
        kernel: adamw(),
        buffers: [this.#step, parts, this.#gradient, flat, firstMoment, secondMoment, this.#report],
        workgroups: adamwWorkgroups(size),
      },
    ])
  }

  /** The flat gradient of all passes so far. */
  async gradient(): Promise<Float32Array> {
    submit(this.engine.device, [this.#flatten])
    return readFloats(this.engine.device, this.#gradient, this.adapters.size)
  }

  /** @param steps counts this one @returns the norm before clipping; where it is not finite, nothing has changed */
  async update(step: OptimizerStep & { type: 'adamw' | 'sgd' }, steps: number): Promise<number> {
    const { device, profiler } = this.engine
    device.queue.writeBuffer(this.#step, 0, packStep(step, steps))
    submit(device, [this.#flatten, this.#update], {
      profiler,
      after: (encoder) => encoder.copyBufferToBuffer(this.#report, 0, this.#staging, 0, 16),
    })
    await this.#staging.mapAsync(1)
    const [norm] = new Float32Array(this.#staging.getMappedRange().slice(0))
    this.#staging.unmap()
    return norm
  }
}
