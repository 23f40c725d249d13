// The frozen weights on the GPU: one packed matrix per product and layer, read from the checkpoint in slices and written
// straight to the GPU, so that no more than a slice is ever on the heap.

import { isQuantised, packWeights, type WeightFormat, wordsPerRow } from '../../gpu/kernels/weightFormat.ts'
import type { GpuMemory } from '../../gpu/memory.ts'
import { type Projection, projectionPath } from '../card.ts'
import type { Model } from '../load.ts'
import { PRODUCTS, type Product, productRows, productWidths, type Shape } from './shape.ts'

/** A packed matrix [rows, columns], or a part of its rows. */
export interface Matrix {
  format: WeightFormat
  rows: number
  columns: number
  words: GPUBuffer
  /** Null where the format has none. */
  scales: GPUBuffer | null
}

export interface FrozenLayer {
  inputNorm: GPUBuffer
  outputNorm: GPUBuffer
  queryNorm: GPUBuffer | null
  keyNorm: GPUBuffer | null
  /** [qkv] where the architecture has biases. */
  qkvBias: GPUBuffer | null
  products: Record<Product, Matrix>
}

export interface FrozenWeights {
  /** [V, D]; also the head where that is tied. */
  embedding: Matrix
  head: Matrix
  finalNorm: GPUBuffer
  layers: FrozenLayer[]
}

/** Rows of a matrix that are on the heap at once. */
const SLICE_BYTES = 16 << 20

export interface FrozenFormats {
  products: WeightFormat
  embedding: WeightFormat
}

/** What `[browser] base_dtype` means: embedding and head stay at int8 where the rest is int4. */
export function formatsOf(base: WeightFormat): FrozenFormats {
  return { products: base, embedding: base === 'int4' ? 'int8' : base }
}

export async function loadFrozenWeights(
  memory: GpuMemory,
  model: Model,
  shape: Shape,
  formats: FrozenFormats,
): Promise<FrozenWeights> {
  const { card } = model
  const load = new Loader(memory, model)
  const embedding = await load.embedding('model.embed_tokens.weight', shape, formats.embedding)
  const head = card.tiedHead ? embedding : await load.embedding('lm_head.weight', shape, formats.embedding)
  const layers: FrozenLayer[] = []
  for (let layer = 0; layer < card.layers; layer++) {
    const prefix = `model.layers.${layer}`
    const products = {} as Record<Product, Matrix>
    for (const product of PRODUCTS) products[product] = await load.product(layer, product, shape, formats.products)
    const { queryKeyNorm } = card
    layers.push({
      inputNorm: await load.vector(`${prefix}.input_layernorm.weight`, shape.width),
      outputNorm: await load.vector(`${prefix}.post_attention_layernorm.weight`, shape.width),
      queryNorm: queryKeyNorm ? await load.vector(`${prefix}.self_attn.q_norm.weight`, card.headWidth) : null,
      keyNorm: queryKeyNorm ? await load.vector(`${prefix}.self_attn.k_norm.weight`, card.headWidth) : null,
      qkvBias: card.queryKeyValueBias ? await load.biases(layer, shape) : null,
      products,
    })
  }
  return { embedding, head, finalNorm: await load.vector('model.norm.weight', shape.width), layers }
}

class Loader {
  constructor(
    readonly memory: GpuMemory,
    readonly model: Model,
  ) {}

  async vector(name: string, padded: number): Promise<GPUBuffer> {
    const data = new Float32Array(padded)
    data.set(await this.model.weight(name))
    const buffer = this.memory.storage('weights', data.byteLength, name)
    this.memory.device.queue.writeBuffer(buffer, 0, data)
    return buffer
  }

  async biases(layer: number, shape: Shape): Promise<GPUBuffer> {
    const data = new Float32Array(shape.qkv)
    for (const { projection, place } of productRows(shape.card, 'qkv'))
      data.set(await this.model.weight(`${projectionPath(layer, projection as Projection)}.bias`), place(0))
    const buffer = this.memory.storage('weights', data.byteLength, `layer ${layer} biases`)
    this.memory.device.queue.writeBuffer(buffer, 0, data)
    return buffer
  }

  async embedding(name: string, shape: Shape, format: WeightFormat): Promise<Matrix> {
    const matrix = this.#matrix(name, shape.vocabulary, shape.width, format)
    await this.#slices(name, shape.card.vocabulary, shape.card.width, async (values, from) => {
      this.#write(matrix, from, values, shape.card.width)
    })
    return matrix
  }

  async product(layer: number, product: Product, shape: Shape, format: WeightFormat): Promise<Matrix> {
    const { input, output } = productWidths(shape, product)
    const matrix = this.#matrix(`layer ${layer} ${product}`, output, input, format)
    const parts = productRows(shape.card, product)
    if (product === 'gateUp') {
      // Gate and up alternate: a slice of both makes a stretch of whole rows.
      const [gate, up] = parts.map(({ projection }) => `${projectionPath(layer, projection as Projection)}.weight`)
      const columns = shape.card.width
      await this.#slices(gate, parts[0].rows, columns, async (gates, from, to) => {
        const ups = await this.model.rows(up, from, to)
        const both = new Float32Array(2 * gates.length)
        for (let row = 0; row < to - from; row++) {
          both.set(gates.subarray(row * columns, (row + 1) * columns), 2 * row * columns)
          both.set(ups.subarray(row * columns, (row + 1) * columns), (2 * row + 1) * columns)
        }
        this.#write(matrix, 2 * from, both, columns)
      })
      return matrix
    }
    for (const { projection, rows, place } of parts) {
      const name = `${projectionPath(layer, projection as Projection)}.weight`
      const columns = this.model.shapeOf(name)[1]
      await this.#slices(name, rows, columns, async (values, from) => this.#write(matrix, place(from), values, columns))
    }
    return matrix
  }

  #matrix(label: string, rows: number, columns: number, format: WeightFormat): Matrix {
    const words = this.memory.storage('weights', rows * wordsPerRow(format, columns) * 4, label)
    const scales = isQuantised(format) ? this.memory.storage('weights', (rows * columns) / 8, `${label} scales`) : null
    return { format, rows, columns, words, scales }
  }

  async #slices(
    name: string,
    rows: number,
    columns: number,
    each: (values: Float32Array, from: number, to: number) => Promise<void>,
  ): Promise<void> {
    const slice = Math.max(1, Math.floor(SLICE_BYTES / (4 * columns)))
    for (let from = 0; from < rows; from += slice) {
      const to = Math.min(rows, from + slice)
      await each(await this.model.rows(name, from, to), from, to)
    }
  }

  #write(matrix: Matrix, row: number, values: Float32Array, columns: number): void {
    const { queue } = this.memory.device
    const packed = packWeights(values, columns, matrix.columns, matrix.format)
    const wordBytes = wordsPerRow(matrix.format, matrix.columns) * 4
    queue.writeBuffer(matrix.words, row * wordBytes, packed.words as BufferSource)
    if (matrix.scales) queue.writeBuffer(matrix.scales, (row * matrix.columns) / 8, packed.scales as BufferSource)
  }
}

/** Bytes on the GPU that the frozen weights of an architecture take. */
export function matrixBytes(rows: number, columns: number, format: WeightFormat): number {
  return rows * wordsPerRow(format, columns) * 4 + (isQuantised(format) ? (rows * columns) / 8 : 0)
}
