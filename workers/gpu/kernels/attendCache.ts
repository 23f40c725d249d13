// Attention of single rows over the cache of their slots. Every number depends on the row's slot alone: neither on its
// place among the rows nor on which of the two kernels works it out.

import { type Constants, declare, type Kernel, specialise } from '../kernel.ts'
import text from './attendCache.wgsl?raw'
import blocksText from './attendCacheBlocks.wgsl?raw'
import fusedText from './attendCacheFused.wgsl?raw'
import mergeText from './attendCacheMerge.wgsl?raw'
import shuffledText from './attendCacheShuffled.wgsl?raw'
import turnedText from './attendCacheTurned.wgsl?raw'
import { type Place, placeBindings, placeText } from './attendPlace.ts'
import type { CacheShape } from './ropeCache.ts'
import { type HeadShape, headConstants, normBindings, ropeConstants, ropeText } from './ropeHead.ts'
import { ENABLE_SUBGROUPS, shuffled } from './shuffle.ts'
import { unroll } from './unroll.ts'

export interface AttendCacheShape extends HeadShape {
  /** S, positions per slot. */
  positions: number
  /** Floats from one row of the output to the next; columns past H·d become zero. */
  outStride: number
  place: Place
  /** Of a workgroup, at most; changes the order of sums. 128 by default. */
  threads?: number
  /** Threads that may add up by subgroup shuffles, another order of sums; 0, the default: none. */
  shuffles?: number
}

/** How a workgroup divides one key head's work; the names are those of the WGSL. */
export interface CacheTiling {
  /** Threads that share one key, each with `vectors` vectors of four. */
  lanes: number
  vectors: number
  /** Teams of `lanes` threads. */
  parts: number
  /** Query heads of one workgroup, and workgroups of one key head. */
  chunk: number
  chunks: number
  /** Keys of a team in one block. */
  unroll: number
  /** Vectors of a thread merged at once. */
  merged: number
}

const ACCUMULATORS = 16 // vectors a thread keeps in registers
const AREA = 2560 // floats of workgroup memory for products and merging

export function cacheTiling(shape: AttendCacheShape): CacheTiling {
  const { heads, kvHeads, headWidth, threads = 128, shuffles = 0 } = shape
  const lanes = [8, 4, 2].find((n) => headWidth % (4 * n) === 0 && (shuffles === 0 || n <= shuffles))!
  const vectors = headWidth / 4 / lanes
  const parts = Math.max(8, Math.min(32, threads / lanes))
  const group = heads / kvHeads
  const chunks = Math.ceil(group / Math.max(1, Math.min(lanes, Math.floor(ACCUMULATORS / vectors))))
  const chunk = Math.ceil(group / chunks)
  let unrolled = 1
  const fits = (keys: number) => shuffles > 0 || keys * chunk * parts * (lanes + 1) <= AREA
  while (unrolled * 2 * vectors <= 4 && fits(unrolled * 2)) unrolled *= 2
  const merged = Math.max(1, Math.min(chunk * vectors, Math.floor(AREA / (4 * rowStep(parts, lanes)))))
  return { lanes, vectors, parts, chunk, chunks, unroll: unrolled, merged }
}

function rowStep(parts: number, lanes: number): number {
  return parts * (lanes + 1) + lanes
}

function tilingConstants({ shuffles = 0 }: AttendCacheShape, t: CacheTiling): Constants {
  const merging = 4 * t.merged * rowStep(t.parts, t.lanes)
  return {
    LANES: t.lanes,
    VECTORS: t.vectors,
    PARTS: t.parts,
    CHUNK: t.chunk,
    CHUNKS: t.chunks,
    UNROLL: t.unroll,
    MERGED: t.merged,
    AREA: shuffles > 0 ? merging : Math.max(t.unroll * t.chunk * t.parts * (t.lanes + 1), merging),
  }
}

function unrolledText({ shuffles = 0 }: AttendCacheShape, t: CacheTiling): string {
  const add = (a: string, b: string) => `${a} + ${b}`
  const threads = t.parts * t.lanes
  const sum = { name: 'teamSum', type: 'f32', threads, team: t.lanes, lanes: shuffles, combine: add }
  const parts = shuffles > 0 ? [shuffled(sum), text, shuffledText] : [text, blocksText]
  return unroll([...parts, mergeText].join('\n'), {
    VECTORS: t.vectors,
    CHUNK: t.chunk,
    UNROLL: t.unroll,
    MERGED: t.merged,
    ROUNDS: Math.ceil((t.chunk * t.vectors) / t.merged),
  })
}

/**
 * softmax over positions 0 … own of the row's slot, for queries that `ropeCache` turned.
 * Binds: queries [M, H·d], rows [M] (and slots), keys and values [slots, S, K·d]; written: out [M, outStride].
 */
export function attendCache(shape: AttendCacheShape): Kernel {
  const { text: declarations, bindings } = declare([
    ['turnedQueries', 'read', 'array<vec4f>'],
    ...placeBindings(shape.place),
    ['keys', 'read', 'array<vec4f>'],
    ['values', 'read', 'array<vec4f>'],
    ['out', 'write', 'array<f32>'],
  ])
  const tiling = cacheTiling(shape)
  const source = [declarations, placeText(shape.place), turnedText, unrolledText(shape, tiling)].join('\n')
  const constants = { ...headConstants(shape), ...ownConstants(shape), ...tilingConstants(shape, tiling) }
  const code = specialise(source, constants, shape.shuffles ? [ENABLE_SUBGROUPS] : [])
  return { name: 'attend.cache', code, bindings }
}

/**
 * `ropeCache` and `attendCache` in one dispatch, with the same numbers to the bit. No two rows may share a slot: a row
 * reads what earlier dispatches wrote, and its own key and value.
 * Binds: qkv [M, stride], rows [M] (and slots), turns [positions, d/2] of (cos, sin), with `norm` queryNorm [d] and
 * keyNorm [d]; written: keys and values [slots, S, K·d], out [M, outStride].
 */
export function attendCacheFused(shape: AttendCacheShape & CacheShape): Kernel {
  const { text: declarations, bindings } = declare([
    ['qkv', 'read', 'array<vec4f>'],
    ...placeBindings(shape.place),
    ['turns', 'read', 'array<vec4f>'],
    ...normBindings(shape),
    ['keys', 'write', 'array<vec4f>'],
    ['values', 'write', 'array<vec4f>'],
    ['out', 'write', 'array<f32>'],
  ])
  const tiling = cacheTiling(shape)
  const source = [declarations, placeText(shape.place), ropeText(shape), fusedText, unrolledText(shape, tiling)].join(
    '\n',
  )
  const constants = { ...ropeConstants(shape), ...ownConstants(shape), ...tilingConstants(shape, tiling) }
  const code = specialise(source, constants, shape.shuffles ? [ENABLE_SUBGROUPS] : [])
  return { name: 'attend.cacheFused', code, bindings }
}

function ownConstants({ positions, outStride }: AttendCacheShape): Constants {
  return { POSITIONS: positions, OUT_STRIDE: outStride }
}

/** Of `attendCache` and `attendCacheFused`. */
export function attendCacheWorkgroups(shape: AttendCacheShape, rows: number): [number, number] {
  return [rows, shape.kvHeads * cacheTiling(shape).chunks]
}
