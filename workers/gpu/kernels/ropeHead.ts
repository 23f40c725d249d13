// The shape of a row of queries, keys and values, and the text that norms and turns one head of it.

import type { Constants, Declared } from '../kernel.ts'
import headText from './ropeHead.wgsl?raw'
import normedText from './ropeNormed.wgsl?raw'
import unnormedText from './ropeUnnormed.wgsl?raw'
import widthsText from './ropeWidths.wgsl?raw'

export interface HeadShape {
  /** H, query heads; a multiple of `kvHeads`. */
  heads: number
  /** K, heads of keys and values. */
  kvHeads: number
  /** d, a multiple of 8. */
  headWidth: number
}

export interface RopeShape extends HeadShape {
  /** Floats from one row of qkv to the next, a multiple of 4: H·d of queries, K·d of keys, K·d of values, padding. */
  stride: number
  /** RMS norm of every query and key head before the turn (Qwen3). */
  norm: boolean
  /** Of that norm. */
  epsilon: number
}

/** @throws Error when the widths do not fit the kernels */
export function headConstants({ heads, kvHeads, headWidth }: HeadShape): Constants {
  if (headWidth % 8 !== 0 || heads % kvHeads !== 0)
    throw new Error(
      `Building attention for ${heads} query heads, ${kvHeads} key heads and head width ${headWidth}: the width must be a ` +
        'multiple of 8 and the query heads a multiple of the key heads. Choose a model with such a shape.',
    )
  return { HEADS: heads, KV_HEADS: kvHeads, HEAD_WIDTH: headWidth, GROUP: heads / kvHeads }
}

export function ropeConstants(shape: RopeShape): Constants {
  return {
    ...headConstants(shape),
    QKV_STRIDE: shape.stride,
    EPSILON: { float: shape.epsilon },
    QUERY_SCALE: { float: 1 / Math.sqrt(shape.headWidth) },
  }
}

export function ropeText({ norm }: RopeShape): string {
  return `${widthsText}\n${headText}\n${norm ? normedText : unnormedText}`
}

/** The weights of the two norms, [d] each, where there are any. */
export function normBindings({ norm }: RopeShape): Declared[] {
  return norm
    ? [
        ['queryNorm', 'read', 'array<vec4f>'],
        ['keyNorm', 'read', 'array<vec4f>'],
      ]
    : []
}
