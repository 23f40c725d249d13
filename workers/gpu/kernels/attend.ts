// Causal attention over packed rows without a [T, T] matrix (Dao et al., FlashAttention, 2022).

import { type Constants, declare, type Kernel, specialise } from '../kernel.ts'
import text from './attend.wgsl?raw'
import tileText from './attendTile.wgsl?raw'
import { type HeadShape, headConstants } from './ropeHead.ts'
import { unroll } from './unroll.ts'

export interface AttendShape extends HeadShape {
  /** Floats from one row of qkv to the next; values stand behind H·d + K·d columns. */
  stride: number
  /** Floats from one row of the output to the next; columns past H·d become zero. */
  outStride: number
  /** Columns of a head in workgroup memory at once, at most; 64 by default. Changes no number. */
  chunk?: number
}

function chunkWidth({ headWidth, chunk = 64 }: AttendShape): number {
  let width = Math.min(headWidth, chunk)
  while (headWidth % width !== 0 || width % 4 !== 0) width--
  return width
}

function tileConstants(shape: AttendShape): Constants {
  return {
    ...headConstants(shape),
    QKV_STRIDE: shape.stride,
    OUT_STRIDE: shape.outStride,
    WIDTH: chunkWidth(shape),
    ...tileSizes(shape),
  }
}

/** Vectors of a thread in one chunk, and chunks. */
function tileSizes(shape: AttendShape): { COLUMNS: number; CHUNKS: number } {
  const width = chunkWidth(shape)
  return { COLUMNS: Math.ceil(width / 32), CHUNKS: shape.headWidth / width }
}

export function tileSource(shape: AttendShape, declarations: string, kernel: string): string {
  const sizes = { ...tileSizes(shape), FOUR: 4, EIGHT: 8 }
  return specialise([declarations, unroll(`${tileText}\n${kernel}`, sizes)].join('\n'), tileConstants(shape))
}

/**
 * softmax over the tokens of the own row up to the own one. The result for a token depends on its row alone, not on where
 * the row stands.
 * Binds: qk [M, (H + K)·d] as `rope` leaves it, qkv [M, stride] for its values, blocks as `attendBlocks` makes them;
 * written: out [M, outStride], logSums [M, H], the log of the sum of exponentials, nats; zeros for padding.
 */
export function attend(shape: AttendShape): Kernel {
  const { text: declarations, bindings } = declare([
    ['qk', 'read', 'array<vec4f>'],
    ['qkv', 'read', 'array<vec4f>'],
    ['blocks', 'read', 'array<vec4u>'],
    ['out', 'write', 'array<vec4f>'],
    ['logSums', 'write', 'array<f32>'],
  ])
  return { name: 'attend.forward', code: tileSource(shape, declarations, text), bindings }
}

/** @param blocks those of the table, spare ones included */
export function attendWorkgroups({ heads }: HeadShape, blocks: number): [number, number] {
  return [blocks, heads]
}
