// The other way of decoding: whole blocks of tokens in one dispatch, a workgroup for a few sequences. It pays where the
// weights fit the GPU's cache and dispatches are what a token costs; elsewhere the plans over all rows do.

import { decodeWhole, type WholeSpec, type WholeTiling, wholeWorkgroupBytes } from '../../gpu/kernels/decodeWhole.ts'
import {
  rowOfColumn,
  WHOLE_PRODUCTS,
  type WholeMatrix,
  type WholeProduct,
  type WholeShape,
  wholeLayout,
} from '../../gpu/kernels/decodeWholeLayout.ts'
import { NOTHING, stage, stageWorkgroups } from '../../gpu/kernels/stage.ts'
import { transpose, transposeWorkgroups } from '../../gpu/kernels/transpose.ts'
import { type Bound, type Dispatch, Plan, submit } from '../../gpu/plan.ts'
import type { SamplingOptions } from '../policy.ts'
import type { Engine } from './engine.ts'
import type { Matrix } from './frozen.ts'

/** What decodes: one token of all sequences at a time, or blocks of tokens of a few sequences. Kept with a run. */
export type Decoder = { kind: 'batched' } | ({ kind: 'whole' } & WholeTiling)

export const BATCHED: Decoder = { kind: 'batched' }

/** Weights that a large GPU keeps in its second-level cache. */
const MOST_WEIGHT_BYTES = 32 * 2 ** 20
/** Buffers for storage that the kernel binds. */
const STORAGE_BUFFERS = 8

type Parts = Pick<Engine, 'device' | 'shape' | 'weights' | 'staging'>

function shapeFor({ shape, weights, staging }: Parts): WholeShape | null {
  const { card } = shape
  const { format } = weights.embedding
  const formats = new Set(weights.layers.flatMap(({ products }) => Object.values(products).map((m) => m.format)))
  if ((format !== 'f32' && format !== 'f16') || formats.size !== 1 || !formats.has(format)) return null
  const ranks = Object.fromEntries(
    WHOLE_PRODUCTS.map((product) => [product, staging.layers[0][product].rank]),
  ) as Record<WholeProduct, number>
  return {
    layers: card.layers,
    columns: card.width,
    width: shape.width,
    attended: shape.attended,
    qkv: shape.qkv,
    ffn: shape.ffn,
    vocabulary: card.vocabulary,
    heads: card.heads,
    kvHeads: card.kvHeads,
    headWidth: card.headWidth,
    queryKeyNorm: card.queryKeyNorm,
    biased: card.queryKeyValueBias,
    tied: weights.head === weights.embedding,
    epsilon: card.normEpsilon,
    format,
    ranks,
  }
}

export interface WholeSize {
  slots: number
  /** Tokens of one dispatch, at most. */
  steps: number
}

/** Why this model, device or tiling is not for the kernel; null where it is. */
export function wholeRefusal(parts: Parts, tiling: WholeTiling): string | null {
  const shape = shapeFor(parts)
  const { limits, features } = parts.device
  if (!shape) return 'its frozen weights are neither all f32 nor all f16'
  const weightBytes = wholeLayout(shape).size * 16
  if (weightBytes > MOST_WEIGHT_BYTES) return `its weights take ${weightBytes} bytes, more than ${MOST_WEIGHT_BYTES}`
  if (tiling.threads > Math.min(limits.maxComputeInvocationsPerWorkgroup, limits.maxComputeWorkgroupSizeX)) {
    return `a workgroup of ${tiling.threads} threads is more than this device has`
  }
  const bytes = wholeWorkgroupBytes({ ...shape, tiling })
  if (bytes === null) return 'its heads are not for so many threads'
  if (bytes > limits.maxComputeWorkgroupStorageSize) {
    return `a workgroup takes ${bytes} bytes, more than the ${limits.maxComputeWorkgroupStorageSize} of this device`
  }
  if (tiling.lanes > 1 && !features.has('subgroups')) return 'this device has no subgroups'
  if (limits.maxStorageBuffersPerShaderStage < STORAGE_BUFFERS) {
    return `a kernel reaches ${limits.maxStorageBuffersPerShaderStage} buffers on this device, fewer than ${STORAGE_BUFFERS}`
  }
  return null
}

/** Truncation and penalties are the other plans'. */
export function wholeDraws({ topP, topK, minP, repetitionPenalty }: SamplingOptions, vocabulary: number): boolean {
  return topP >= 1 && (topK <= 0 || topK >= vocabulary) && minP <= 0 && repetitionPenalty === 1
}

/** @throws a sentence where the decoder is not for this model or device */
export function openWhole(engine: Engine, decoder: Decoder): WholeDecoder | null {
  if (decoder.kind === 'batched') return null
  const refusal = wholeRefusal(engine, decoder)
  if (refusal)
    throw new Error(`Made no decoder of whole sequences: ${refusal}. The batched one is for every model and device.`)
  return new WholeDecoder(engine, decoder)
}

/** Compiles the kernel of a run of this size, beside whatever else is done. */
export async function prepareWhole(engine: Engine, decoder: Decoder, size: WholeSize): Promise<void> {
  const shape = shapeFor(engine)
  if (decoder.kind === 'batched' || !shape) return
  await engine.pipelines.prepare(decodeWhole({ ...shape, ...size, tiling: decoder }))
}

/** What a dispatch binds beside the weights. */
export interface WholeBuffers {
  rowTable: GPUBuffer
  turns: GPUBuffer
  slots: GPUBuffer
  keys: GPUBuffer
  values: GPUBuffer
  drawn: GPUBuffer
  rule: GPUBuffer
}

/** The frozen weights in the kernel's order, and its own copy of the adapters that sampling reads. */
export class WholeDecoder {
  readonly #shape: WholeShape
  readonly #weights: GPUBuffer
  readonly #adapters: GPUBuffer
  readonly #adapterMap: GPUBuffer

  /** @param engine its `staged` are the adapters that sampling reads */
  constructor(
    readonly engine: Engine,
    readonly tiling: WholeTiling,
  ) {
    this.#shape = shapeFor(engine)!
    const { memory, device } = engine
    const layout = wholeLayout(this.#shape)
    this.#weights = memory.storage('weights', layout.size * 16, 'weights of the whole decoder')
    const map = adapterMap(engine, this.#shape)
    this.#adapters = memory.storage('adapters', map.length * 4, 'adapters of the whole decoder')
    this.#adapterMap = memory.storage('adapters', map.length * 4, 'map of the whole decoder')
    device.queue.writeBuffer(this.#adapterMap, 0, map)
    this.#fill()
  }

  /** Whether the keys of all layers are within what one buffer holds; the batched plans have one for each layer. */
  fits({ slots, positions }: { slots: number; positions: number }): boolean {
    const { device, shape } = this.engine
    const { kvHeads, headWidth, layers } = shape.card
    const layerBytes = slots * positions * kvHeads * headWidth * 4
    const { maxBufferSize, maxStorageBufferBindingSize } = device.limits
    return layerBytes % 256 === 0 && layerBytes * layers <= Math.min(maxBufferSize, maxStorageBufferBindingSize)
  }

  /** Up to `size.steps` tokens for the rows of the table, a multiple of the tiling's. */
  plan(rows: number, size: WholeSize, buffers: WholeBuffers): Plan {
    const spec: WholeSpec = { ...this.#shape, ...size, tiling: this.tiling }
    const { rowTable, turns, slots, keys, values, drawn, rule } = buffers
    const words = this.#adapters.size / 4
    const dispatches: Dispatch[] = [
      {
        kernel: stage('adapters.whole', words, 1),
        buffers: [this.engine.staged, this.#adapterMap, this.#adapters],
        workgroups: stageWorkgroups(words),
      },
      {
        kernel: decodeWhole(spec),
        buffers: [this.#weights, this.#adapters, rowTable, turns, slots, keys, values, drawn, rule],
        workgroups: [Math.ceil(rows / this.tiling.rows)],
      },
    ]
    return new Plan(this.engine.pipelines, dispatches)
  }

  dispose(): void {
    this.engine.memory.free(this.#weights, this.#adapters, this.#adapterMap)
  }

  #fill(): void {
    const { weights, pipelines, device, shape } = this.engine
    const { layer, finalNorm, head, embedding } = wholeLayout(this.#shape)
    const { format } = this.#shape
    const dispatches: Dispatch[] = []
    const vectors: [GPUBuffer, number, number][] = [[weights.finalNorm, finalNorm, shape.width]]
    const matrix = (source: Matrix, to: WholeMatrix, offset: number, alternating = false) => {
      const spec = { K: to.K, quads: to.quads, format: format as 'f32' | 'f16', alternating }
      const size = (to.K * to.quads * 16) / (format === 'f16' ? 2 : 1)
      const result: Bound = { buffer: this.#weights, offset: offset * 16, size }
      dispatches.push({
        kernel: transpose(spec),
        buffers: [source.words, result],
        workgroups: transposeWorkgroups(spec),
      })
    }
    weights.layers.forEach((frozen, index) => {
      const from = index * layer.stride
      for (const product of WHOLE_PRODUCTS) {
        const to = layer.products[product]
        matrix(frozen.products[product], to, from + to.offset, product === 'gateUp')
      }
      vectors.push([frozen.inputNorm, from + layer.inputNorm, shape.width])
      vectors.push([frozen.outputNorm, from + layer.outputNorm, shape.width])
      if (frozen.queryNorm) vectors.push([frozen.queryNorm, from + layer.queryNorm, shape.card.headWidth])
      if (frozen.keyNorm) vectors.push([frozen.keyNorm, from + layer.keyNorm, shape.card.headWidth])
      if (frozen.qkvBias) vectors.push([frozen.qkvBias, from + layer.bias, shape.qkv])
    })
    matrix(weights.head, head, head.offset)
    if (embedding !== head) matrix(weights.embedding, embedding, embedding.offset)
    submit(device, [new Plan(pipelines, dispatches)], {
      after: (encoder) => {
        for (const [source, to, floats] of vectors)
          encoder.copyBufferToBuffer(source, 0, this.#weights, to * 16, floats * 4)
      },
    })
  }
}

// Where each number of the kernel's adapters stands among those that the products read.
function adapterMap({ staging }: Pick<Engine, 'staging'>, shape: WholeShape): Uint32Array<ArrayBuffer> {
  const { adapters } = wholeLayout(shape)
  const map = new Uint32Array(adapters.size * 4).fill(NOTHING)
  staging.layers.forEach((layer, index) => {
    for (const product of WHOLE_PRODUCTS) {
      const { rank, a, b } = layer[product]
      if (rank === 0) continue
      const [toA, toB] = [adapters.a[product], adapters.b[product]]
      const fromA = (index * adapters.stride + toA.offset) * 4
      for (let k = 0; k < toA.K; k++)
        for (let r = 0; r < rank; r++) map[fromA + k * toA.quads * 4 + r] = a.offset + r * toA.K + k
      const fromB = (index * adapters.stride + toB.offset) * 4
      for (let r = 0; r < rank; r++)
        for (let n = 0; n < toB.quads * 4; n++)
          map[fromB + r * toB.quads * 4 + n] = b.offset + rowOfColumn(product, n) * rank + r
    }
  })
  return map
}
