// Adapters as the products read them. For each product and layer the factors of all its projections stand together:
// A [R, input] and B [output, R], with zeros where a projection has no part. `maps` says where each number comes from in
// the flat vector of adapter.ts, and where it goes back to as a gradient.

import { NOTHING, SCALED } from '../../gpu/kernels/stage.ts'
import type { Bound } from '../../gpu/plan.ts'
import type { Layout, LoraOptions } from '../adapter.ts'
import { type Projection, projectionPath } from '../card.ts'
import { PRODUCTS, type Product, padTo, productRows, productWidths, type Shape } from './shape.ts'

/** A region of the staged buffer, in floats. Offsets are multiples of 64: a binding's offset is one of 256 bytes. */
export interface Region {
  offset: number
  size: number
}

/** A region of a buffer that is laid out as the staged one. */
export function region(buffer: GPUBuffer, { offset, size }: Region): Bound {
  return { buffer, offset: offset * 4, size: Math.max(4, size * 4) }
}

export interface StagedProduct {
  /** R of all projections together, padded to a multiple of 16; 0 where none is adapted. */
  rank: number
  /** [R, input] */
  a: Region
  /** [output, R], times alpha / r. */
  b: Region
}

export interface Staging {
  size: number
  scale: number
  layers: Record<Product, StagedProduct>[]
  /** staged ← flat, `stage` with the scale. */
  toStaged: Uint32Array
  /** flat ← staged gradient, `stage` with the scale. */
  toFlat: Uint32Array
}

export function planStaging(shape: Shape, layout: Layout, lora: LoraOptions): Staging {
  const { card } = shape
  const slots = new Map(layout.slots.map((slot) => [slot.name, slot]))
  let size = 0
  const claim = (length: number): Region => {
    const made = { offset: size, size: length }
    size = padTo(size + length, 64)
    return made
  }
  const layers: Record<Product, StagedProduct>[] = []
  const fills: ((toStaged: Uint32Array) => void)[] = []
  for (let layer = 0; layer < card.layers; layer++) {
    const products = {} as Record<Product, StagedProduct>
    for (const product of PRODUCTS) {
      const { input, output } = productWidths(shape, product)
      const adapted = productRows(card, product).filter(({ projection }) => lora.targetModules.includes(projection))
      const rank = padTo(adapted.length * lora.r, 16)
      const staged = { rank, a: claim(rank * input), b: claim(output * rank) }
      products[product] = staged
      adapted.forEach(({ projection, rows, place }, index) => {
        const prefix = `base_model.model.${projectionPath(layer, projection as Projection)}`
        const a = slots.get(`${prefix}.lora_A.weight`)!
        const b = slots.get(`${prefix}.lora_B.weight`)!
        fills.push((toStaged) => {
          for (let r = 0; r < lora.r; r++) {
            const row = index * lora.r + r
            // Flat A is [input, r], flat B is [r, output].
            for (let k = 0; k < a.rows; k++) toStaged[staged.a.offset + row * input + k] = a.offset + k * lora.r + r
            for (let n = 0; n < rows; n++)
              toStaged[staged.b.offset + place(n) * rank + row] = (b.offset + r * rows + n) | SCALED
          }
        })
      })
    }
    layers.push(products)
  }
  const toStaged = new Uint32Array(Math.max(size, 64)).fill(NOTHING)
  for (const fill of fills) fill(toStaged)
  const toFlat = new Uint32Array(layout.size).fill(NOTHING)
  toStaged.forEach((entry, index) => {
    const flat = entry & NOTHING
    if (flat !== NOTHING) toFlat[flat] = (index | (entry & SCALED)) >>> 0
  })
  return { size: toStaged.length, scale: lora.alpha / lora.r, layers, toStaged, toFlat }
}
