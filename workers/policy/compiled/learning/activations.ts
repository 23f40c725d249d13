// What a pass keeps from forward to backward, and what it works in. `recompute` says how much is kept per layer:
// 'none' everything; 'elementwise' the results of products, with norms and SiLU·gate worked out again; 'layer' its input.

import type { GpuMemory } from '../../../gpu/memory.ts'
import { PRODUCTS, type Product, productWidths, type Shape } from '../shape.ts'
import type { Staging } from '../staging.ts'

export type Recompute = 'none' | 'elementwise' | 'layer'

/** Of one layer, [M, …] each. */
export interface LayerBuffers {
  /** The layer's input. */
  x: GPUBuffer
  /** Normed input of qkv, or of gateUp: one after the other in the same place unless everything is kept. */
  y1: GPUBuffer
  y2: GPUBuffer
  /** 1/√(mean x² + ε) of both norms, [M]. */
  s1: GPUBuffer
  s2: GPUBuffer
  qkv: GPUBuffer
  /** Queries and keys after norm and turn. */
  qk: GPUBuffer
  attended: GPUBuffer
  logSums: GPUBuffer
  /** Between attention and feed-forward. */
  between: GPUBuffer
  gateUp: GPUBuffer
  h: GPUBuffer
  u: Record<Product, GPUBuffer>
}

const KEPT: Record<Recompute, (keyof Omit<LayerBuffers, 'x' | 'u'>)[]> = {
  none: ['y1', 'y2', 's1', 's2', 'qkv', 'qk', 'attended', 'logSums', 'between', 'gateUp', 'h'],
  elementwise: ['s1', 's2', 'qkv', 'attended', 'logSums', 'between', 'gateUp'],
  layer: [],
}

/** Floats per token of everything a layer computes. */
function widths(shape: Shape): Record<keyof Omit<LayerBuffers, 'u'>, number> {
  const { card } = shape
  return {
    x: shape.width,
    y1: shape.width,
    y2: shape.width,
    s1: 1,
    s2: 1,
    qkv: shape.qkv,
    qk: (card.heads + card.kvHeads) * card.headWidth,
    attended: shape.attended,
    logSums: card.heads,
    between: shape.width,
    gateUp: shape.gateUp,
    h: shape.ffn,
  }
}

/** Floats per token that backward works in. */
function workWidths(shape: Shape) {
  const { card } = shape
  return {
    dx: shape.width,
    dy: Math.max(shape.width, shape.attended),
    dh: shape.ffn,
    dGateUp: shape.gateUp,
    dqk: (card.heads + card.kvHeads) * card.headWidth,
    dqkv: shape.qkv,
    /** Σ dOut·out per head. */
    delta: card.heads,
  }
}
type Work = Record<keyof ReturnType<typeof workWidths>, GPUBuffer>

export class Activations {
  readonly layers: LayerBuffers[]
  /** Output of the last layer. */
  readonly last: GPUBuffer
  readonly work: Work
  /** Gradient of U, [M, R]. */
  readonly dU: GPUBuffer
  readonly #buffers: GPUBuffer[] = []

  constructor(
    readonly memory: GpuMemory,
    readonly shape: Shape,
    readonly staging: Staging,
    /** M, at most. */
    readonly tokens: number,
    readonly recompute: Recompute,
  ) {
    const make = (width: number, label: string) => {
      const buffer = memory.storage('activations', tokens * width * 4, label)
      this.#buffers.push(buffer)
      return buffer
    }
    const width = widths(shape)
    const names = Object.keys(width) as (keyof typeof width)[]
    const shared = new Map<string, GPUBuffer>()
    const sharedOnce = (name: string, floats: number) => {
      // Normed inputs of the two halves of a layer are needed one after the other.
      const place = name === 'y2' ? 'y1' : name
      const known = shared.get(place) ?? make(floats, place)
      shared.set(place, known)
      return known
    }
    const kept = new Set<string>(KEPT[recompute])
    const { layers } = shape.card
    this.layers = Array.from({ length: layers }, (_, layer) => {
      const own = Object.fromEntries(
        names.map((name) => [
          name,
          name === 'x' || kept.has(name) ? make(width[name], `${name} ${layer}`) : sharedOnce(name, width[name]),
        ]),
      ) as unknown as Omit<LayerBuffers, 'u'>
      const u = Object.fromEntries(
        PRODUCTS.map((product) => {
          const { rank } = staging.layers[layer][product]
          const name = `u ${product}`
          return [product, recompute === 'layer' ? sharedOnce(name, rank) : make(rank, `${name} ${layer}`)]
        }),
      ) as Record<Product, GPUBuffer>
      return { ...own, u }
    })
    this.last = make(shape.width, 'x last')
    const work = workWidths(shape)
    this.work = Object.fromEntries(Object.entries(work).map(([name, floats]) => [name, make(floats, name)])) as Work
    this.dU = make(Math.max(16, ...staging.layers.flatMap((l) => PRODUCTS.map((p) => l[p].rank))), 'dU')
  }

  dispose(): void {
    this.memory.free(...this.#buffers)
  }
}

/** The widest factor pair of a product: parts of its gradient are kept per chunk of rows. */
export function largestFactor(shape: Shape, staging: Staging): number {
  return Math.max(
    16,
    ...staging.layers.flatMap((layer) =>
      PRODUCTS.map((product) => {
        const { input, output } = productWidths(shape, product)
        return layer[product].rank * Math.max(input, output)
      }),
    ),
  )
}
