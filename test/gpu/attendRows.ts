// Packed rows that the tests of attention, forward and backward, share.

import { type AttendShape, attend, attendWorkgroups } from '../../workers/gpu/kernels/attend.ts'
import { attendBlockCapacity, attendBlocks } from '../../workers/gpu/kernels/attendBlocks.ts'
import type { HeadRows } from '../../workers/gpu/kernels/attendReference.ts'
import { floats } from './attendCases.ts'
import { runKernel } from './runKernel.ts'

/** Rows of a token, of a block and of several; the last block of some is not full. */
export const LENGTHS = [33, 1, 70, 32]
export const PADDING = 40

/** [heads, kvHeads, headWidth, chunk] */
export const SHAPES: [number, number, number, number][] = [
  [4, 2, 8, 64],
  [3, 1, 32, 64],
  [2, 1, 16, 8],
  [1, 1, 40, 64],
]

export interface PackedRow {
  /** [T, (H + K)·d] */
  qk: Float32Array
  /** [T, K·d] */
  values: Float32Array
}

function placesOf(lengths: number[]): { start: number; length: number }[] {
  let start = 0
  return lengths.map((length) => {
    start += length
    return { start: start - length, length }
  })
}

export function pack(shape: AttendShape, rows: PackedRow[], padding: number) {
  const { heads: H, kvHeads: K, headWidth: d, stride } = shape
  const width = (H + K) * d
  const places = placesOf(rows.map(({ qk }) => qk.length / width))
  const M = places.reduce((sum, { length }) => sum + length, 0) + padding
  const qk = new Float32Array(M * width).fill(Number.NaN)
  const qkv = new Float32Array(M * stride).fill(Number.NaN)
  for (const [r, { start, length }] of places.entries()) {
    qk.set(rows[r].qk, start * width)
    for (let t = 0; t < length; t++)
      qkv.set(rows[r].values.subarray(t * K * d, (t + 1) * K * d), (start + t) * stride + width)
  }
  const capacity = attendBlockCapacity(rows.length, M) + 2
  return { M, places, qk, qkv, capacity, blocks: attendBlocks(places, M, capacity) }
}

export type Packed = ReturnType<typeof pack>

export async function runForward(shape: AttendShape, packed: Packed) {
  const { M, qk, qkv, blocks, capacity } = packed
  const buffers = [
    qk,
    qkv,
    blocks,
    new Float32Array(M * shape.outStride).fill(7),
    new Float32Array(M * shape.heads).fill(7),
  ]
  const [out, logSums] = await runKernel(attend(shape), buffers, attendWorkgroups(shape, capacity))
  return { out: out as Float32Array, logSums: logSums as Float32Array }
}

export function packedShape([heads, kvHeads, headWidth, chunk]: (typeof SHAPES)[number]): AttendShape {
  const stride = (heads + 2 * kvHeads) * headWidth + 16
  return { heads, kvHeads, headWidth, chunk, stride, outStride: Math.ceil((heads * headWidth) / 32) * 32 }
}

export function randomRows({ heads, kvHeads, headWidth: d }: AttendShape): PackedRow[] {
  const random = floats(31)
  return LENGTHS.map((T) => ({
    qk: random(T * (heads + kvHeads) * d, 2 / Math.sqrt(d)),
    values: random(T * kvHeads * d),
  }))
}

export function headsAt({ heads: H, kvHeads: K, headWidth: d }: AttendShape, row: PackedRow, t: number): HeadRows {
  const cut = (whole: Float32Array, at: number) => Array.from(whole.subarray(at, at + d))
  const range = (n: number) => Array.from({ length: n }, (_, i) => i)
  return {
    queries: range(H).map((h) => cut(row.qk, (t * (H + K) + h) * d)),
    keys: range(K).map((k) => cut(row.qk, (t * (H + K) + H + k) * d)),
    values: range(K).map((k) => cut(row.values, (t * K + k) * d)),
  }
}
