// The widths of a compiled policy. Every width that a product sums over or writes is padded with zeros to a multiple of 32,
// so that tiles and quantisation blocks fit; the padding stays zero from layer to layer.

import type { Card } from '../card.ts'

export interface Shape {
  card: Card
  /** D, padded. */
  width: number
  /** H·d, padded: what attention writes. */
  attended: number
  /** H·d + 2·K·d, padded: queries, keys, values. */
  qkv: number
  /** F, padded. */
  ffn: number
  /** Gate and up interleaved: 2·F padded. */
  gateUp: number
  /** V, padded to a multiple of 64. */
  vocabulary: number
}

export function padTo(value: number, multiple: number): number {
  return Math.ceil(value / multiple) * multiple
}

export function shapeOf(card: Card): Shape {
  const { heads, kvHeads, headWidth } = card
  const ffn = padTo(card.ffnWidth, 32)
  return {
    card,
    width: padTo(card.width, 32),
    attended: padTo(heads * headWidth, 32),
    qkv: padTo((heads + 2 * kvHeads) * headWidth, 32),
    ffn,
    gateUp: 2 * ffn,
    vocabulary: padTo(card.vocabulary, 64),
  }
}

/** The four products of a layer, each over all projections that read the same input. */
export const PRODUCTS = ['qkv', 'o', 'gateUp', 'down'] as const
export type Product = (typeof PRODUCTS)[number]

/** Padded input and output widths. */
export function productWidths(shape: Shape, product: Product): { input: number; output: number } {
  return {
    qkv: { input: shape.width, output: shape.qkv },
    o: { input: shape.attended, output: shape.width },
    gateUp: { input: shape.width, output: shape.gateUp },
    down: { input: shape.ffn, output: shape.width },
  }[product]
}

/** Where output row `row` of a projection lies among the rows of its product. */
export function productRows(
  card: Card,
  product: Product,
): { projection: string; rows: number; place: (row: number) => number }[] {
  const { heads, kvHeads, headWidth: d, width, ffnWidth } = card
  const from = (offset: number) => (row: number) => offset + row
  switch (product) {
    case 'qkv':
      return [
        { projection: 'q_proj', rows: heads * d, place: from(0) },
        { projection: 'k_proj', rows: kvHeads * d, place: from(heads * d) },
        { projection: 'v_proj', rows: kvHeads * d, place: from((heads + kvHeads) * d) },
      ]
    case 'o':
      return [{ projection: 'o_proj', rows: width, place: from(0) }]
    case 'gateUp':
      return [
        { projection: 'gate_proj', rows: ffnWidth, place: (row) => 2 * row },
        { projection: 'up_proj', rows: ffnWidth, place: (row) => 2 * row + 1 },
      ]
    case 'down':
      return [{ projection: 'down_proj', rows: width, place: from(0) }]
  }
}
