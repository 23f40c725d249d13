// Passes over packed rows: log-probabilities forwards, adapter gradients backwards. Plans are made once per padded size.

import { embed, embedWorkgroups } from '../../../gpu/kernels/embed.ts'
import { gatherRows, gatherWorkgroups, placesOf, scatterRows } from '../../../gpu/kernels/gather.ts'
import { normWorkgroups } from '../../../gpu/kernels/norm.ts'
import { type Dispatch, Plan, submit } from '../../../gpu/plan.ts'
import type { Row } from '../../policy.ts'
import type { Engine } from '../engine.ts'
import { Activations, largestFactor, type Recompute } from './activations.ts'
import { RowTables } from './attention.ts'
import { Head } from './head.ts'
import { type LearningContext, layerBackward, layerForward, normGradient, normKernel } from './layers.ts'
import { type Packed, packRows } from './packing.ts'

export interface Scores {
  logp: Float32Array
  entropy: Float32Array
}

/** Plans of so many sizes are remembered. */
const PLANS_REMEMBERED = 96

export class Learning {
  readonly #context: LearningContext
  readonly #head: Head
  readonly #ids: GPUBuffer
  readonly #sources: GPUBuffer
  readonly #places: GPUBuffer
  readonly #slopes: GPUBuffer
  readonly #finalScale: GPUBuffer
  readonly #hidden: GPUBuffer
  readonly #plans = new Map<string, Plan>()
  readonly #staging: GPUBuffer
  readonly #chunk: number

  constructor(
    readonly engine: Engine,
    stagedGradient: GPUBuffer,
    /** Tokens of one pass, at most; rows are never split. */
    readonly capacity: number,
    recompute: Recompute,
  ) {
    const { memory, shape, staging, limits } = engine
    this.#chunk = limits.software ? 64 : 256
    const activations = new Activations(memory, shape, staging, capacity, recompute)
    const parts = memory.storage(
      'activations',
      Math.ceil(capacity / this.#chunk) * largestFactor(shape, staging) * 4,
      'parts of gradients',
    )
    const tables = new RowTables(engine, capacity)
    this.#context = { engine, activations, tables, stagedGradient, parts, chunk: this.#chunk }
    this.#head = new Head(engine, capacity)
    const table = (floats: number, label: string) => memory.storage('tables', floats * 4, label)
    this.#ids = table(capacity, 'ids')
    this.#sources = table(capacity, 'sources of targets')
    this.#places = table(capacity, 'places of sources')
    this.#slopes = table(capacity, 'slopes')
    this.#finalScale = table(capacity, 'scale of the final norm')
    this.#staging = memory.staging(capacity * 8, 'scores')
    // The final norm's result is needed only until its rows are picked out.
    this.#hidden = activations.work.dy
  }

  pack(rows: Row[]): Packed {
    const packed = packRows(rows, this.#chunk)
    if (packed.tokens > this.capacity) {
      throw new Error(
        `Computed no log-probabilities: these rows have ${packed.tokens} tokens, a pass holds ${this.capacity}. ` +
          'Take fewer or shorter rows at a time.',
      )
    }
    return packed
  }

  async forward(packed: Packed, keep: boolean): Promise<Scores> {
    const { device, profiler } = this.engine
    const { queue } = device
    queue.writeBuffer(this.#ids, 0, packed.ids as BufferSource)
    queue.writeBuffer(this.#sources, 0, packed.sources as BufferSource)
    queue.writeBuffer(this.#head.targets, 0, packed.targetIds as BufferSource)
    queue.writeBuffer(this.#head.inverseTemperatures, 0, packed.inverseTemperatures as BufferSource)
    if (this.#context.tables.write(packed)) this.#plans.clear()
    const bytes = packed.count * 8
    submit(device, [this.#forwardPlan(packed, keep)], {
      profiler,
      after: (encoder) => encoder.copyBufferToBuffer(this.#head.scores, 0, this.#staging, 0, bytes),
    })
    await this.#staging.mapAsync(1, 0, bytes)
    const scores = new Float32Array(this.#staging.getMappedRange(0, bytes).slice(0))
    this.#staging.unmap()
    const logp = new Float32Array(packed.count)
    const entropy = new Float32Array(packed.count)
    for (let i = 0; i < packed.count; i++) {
      logp[i] = scores[2 * i]
      entropy[i] = scores[2 * i + 1]
    }
    return { logp, entropy }
  }

  /** Adds to the staged gradient; of the pass that `forward` kept last. */
  backward(packed: Packed, slopes: Float32Array): void {
    const { device, profiler } = this.engine
    const padded = new Float32Array(packed.targets)
    padded.set(slopes)
    device.queue.writeBuffer(this.#slopes, 0, padded)
    device.queue.writeBuffer(this.#places, 0, placesOf(packed.sources.subarray(0, packed.count), packed.tokens))
    submit(device, [this.#backwardPlan(packed)], { profiler })
  }

  dispose(): void {
    const { activations, tables, parts } = this.#context
    activations.dispose()
    tables.dispose()
    this.#head.dispose()
    this.engine.memory.free(
      ...[parts, this.#ids, this.#sources, this.#places, this.#slopes, this.#finalScale, this.#staging],
    )
  }

  #remember(key: string, make: () => Dispatch[]): Plan {
    const known = this.#plans.get(key)
    if (known) return known
    if (this.#plans.size >= PLANS_REMEMBERED) this.#plans.delete(this.#plans.keys().next().value as string)
    const plan = new Plan(this.engine.pipelines, make())
    this.#plans.set(key, plan)
    return plan
  }

  /** Everything that a pass of this size runs, forwards and backwards. */
  dispatches(packed: Packed): Dispatch[] {
    this.#context.tables.write(packed)
    return [...this.#forward(packed.tokens, packed.targets, true), ...this.#backward(packed.tokens)]
  }

  #forwardPlan({ tokens: M, targets: N }: Packed, keep: boolean): Plan {
    return this.#remember(`forward ${M} ${N} ${keep} ${this.#context.tables.size}`, () => this.#forward(M, N, keep))
  }

  #forward(M: number, N: number, keep: boolean): Dispatch[] {
    const context = this.#context
    const { shape, weights } = this.engine
    const { layers, last } = context.activations
    const { embedding } = weights
    const spec = {
      vocabulary: shape.card.vocabulary,
      width: shape.width,
      format: embedding.format,
      tokens: 'ids' as const,
    }
    const table = embedding.scales ? [embedding.words, embedding.scales] : [embedding.words]
    return [
      { kernel: embed(spec), buffers: [...table, this.#ids, layers[0].x], workgroups: embedWorkgroups(spec, M) },
      ...layers.flatMap((_, index) => layerForward(context, index, M, layers[index + 1]?.x ?? last)),
      {
        kernel: normKernel(this.engine),
        buffers: [last, weights.finalNorm, this.#hidden, this.#finalScale],
        workgroups: normWorkgroups(M),
      },
      {
        kernel: gatherRows(shape.width),
        buffers: [this.#hidden, this.#sources, this.#head.hidden],
        workgroups: gatherWorkgroups(shape.width, N),
      },
      ...this.#head.dispatches(N, keep),
    ]
  }

  #backwardPlan({ tokens: M }: Packed): Plan {
    return this.#remember(`backward ${M} ${this.#context.tables.size}`, () => this.#backward(M))
  }

  #backward(M: number): Dispatch[] {
    const context = this.#context
    const { shape, weights } = this.engine
    const { layers, last, work } = context.activations
    return [
      {
        kernel: scatterRows(shape.width),
        buffers: [this.#head.unit, this.#slopes, this.#places, work.dy],
        workgroups: gatherWorkgroups(shape.width, M),
      },
      normGradient(context, M, work.dy, last, weights.finalNorm, this.#finalScale, false),
      ...layers.map((_, index) => layers.length - 1 - index).flatMap((index) => layerBackward(context, index, M)),
    ]
  }
}
