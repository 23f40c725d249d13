// The frozen weights on the GPU: one packed matrix per product and layer, read from the checkpoint in slices as it stores
// them and packed on the GPU, so that no more than a slice is ever on the heap.

import { isQuantised, type WeightFormat, wordsPerRow } from '../../gpu/kernels/weightFormat.ts'
import type { GpuMemory } from '../../gpu/memory.ts'
import { Packer } from '../../gpu/packer.ts'
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
  const load = new Loader(memory, model, new Packer(memory))
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
  const finalNorm = await load.vector('model.norm.weight', shape.width)
  await load.packer.finish()
  return { embedding, head, finalNorm, layers }
}

class Loader {
  constructor(
    readonly memory: GpuMemory,
    readonly model: Model,
    readonly packer: Packer,
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
    await this.#pack(matrix, name, shape.card.vocabulary, { first: 0, step: 1 })
    return matrix
  }

  async product(layer: number, product: Product, shape: Shape, format: WeightFormat): Promise<Matrix> {
    const { input, output } = productWidths(shape, product)
    const matrix = this.#matrix(`layer ${layer} ${product}`, output, input, format)
    for (const { projection, rows, place } of productRows(shape.card, product)) {
      const name = `${projectionPath(layer, projection as Projection)}.weight`
      await this.#pack(matrix, name, rows, { first: place(0), step: place(1) - place(0) })
    }
    return matrix
  }

  #matrix(label: string, rows: number, columns: number, format: WeightFormat): Matrix {
    const words = this.memory.storage('weights', rows * wordsPerRow(format, columns) * 4, label)
    const scales = isQuantised(format) ? this.memory.storage('weights', (rows * columns) / 8, `${label} scales`) : null
    return { format, rows, columns, words, scales }
  }

  async #pack(matrix: Matrix, name: string, rows: number, place: { first: number; step: number }): Promise<void> {
    const { model, packer } = this
    const columns = model.shapeOf(name)[1]
    const dtype = model.dtypeOf(name)
    const slice = packer.rowsPerSlice(columns)
    for (let from = 0; from < rows; from += slice) {
      const bytes = await model.rawRows(name, from, Math.min(rows, from + slice))
      await packer.write(matrix, dtype, bytes, columns, { first: place.first + from * place.step, step: place.step })
    }
  }
}

/** Bytes on the GPU that the frozen weights of an architecture take. */
export function matrixBytes(rows: number, columns: number, format: WeightFormat): number {
  return rows * wordsPerRow(format, columns) * 4 + (isQuantised(format) ? (rows * columns) / 8 : 0)
}
