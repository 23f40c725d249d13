import { describe, expect, it } from 'vitest'
import {
  type AttendCacheShape,
  attendCache,
  attendCacheFused,
  attendCacheWorkgroups,
} from '../../workers/gpu/kernels/attendCache.ts'
import {
  ATTENTION_TOLERANCE,
  attendReference,
  type HeadRows,
  headsOfRow,
} from '../../workers/gpu/kernels/attendReference.ts'
import { copyCache, copyCacheWorkgroups } from '../../workers/gpu/kernels/copyCache.ts'
import { type CacheShape, ropeCache, ropeCacheWorkgroups } from '../../workers/gpu/kernels/ropeCache.ts'
import { offeredBy } from '../../workers/gpu/variants.ts'
import { floats, HEAD_SHAPES, headNorms, normBuffers, ropeShape, sameBits, turnTable } from './attendCases.ts'
import { runKernel, testDevice, worst } from './runKernel.ts'

const S = 150
const SLOTS = 5
const PADDING = 0xffffffff
const offered = offeredBy(await testDevice())
/** How the threads of a team add up: through workgroup memory, or by subgroup shuffles where there are any. */
const SHUFFLES = offered.lanes ? [0, offered.lanes] : [0]

type Shape = CacheShape & AttendCacheShape

/** (slot, position): first and last positions, both sides of a block's edge, padding; out of order. */
const ROWS = [
  [3, 70],
  [0, 0],
  [4, S - 1],
  [9, PADDING],
  [1, 63],
  [2, 64],
]

function cacheCase(
  [heads, kvHeads, headWidth, norm]: (typeof HEAD_SHAPES)[number],
  seed: number,
  { threads, shuffles }: { threads?: number; shuffles?: number } = {},
) {
  const rope = ropeShape(heads, kvHeads, headWidth, norm)
  const outStride = Math.ceil((heads * headWidth) / 16) * 16
  const shape: Shape = { ...rope, positions: S, place: 'rows', outStride, threads, shuffles }
  const random = floats(seed)
  const norms = headNorms(rope, random)
  return {
    shape,
    norms,
    qkv: random(ROWS.length * rope.stride, 2),
    turns: turnTable(S, headWidth),
    keys: random(SLOTS * S * kvHeads * headWidth, 2),
    values: random(SLOTS * S * kvHeads * headWidth),
    rows: Uint32Array.from(ROWS.flat()),
  }
}

type Case = ReturnType<typeof cacheCase>

async function runRope({ shape, qkv, rows, turns, norms, keys, values }: Case) {
  const M = rows.length / 2
  const queries = new Float32Array(M * shape.heads * shape.headWidth)
  const buffers = [qkv, rows, turns, ...normBuffers(norms), keys, values, queries]
  return runKernel(ropeCache(shape), buffers, ropeCacheWorkgroups(shape, M))
}

async function runSeparate(c: Case) {
  const M = c.rows.length / 2
  const [keys, values, queries] = await runRope(c)
  const out = new Float32Array(M * c.shape.outStride).fill(7)
  const buffers = [queries, c.rows, keys, values, out]
  const [attended] = await runKernel(attendCache(c.shape), buffers, attendCacheWorkgroups(c.shape, M))
  return { keys, values, out: attended }
}

async function runFused({ shape, qkv, rows, turns, norms, keys, values }: Case, slots?: Uint32Array) {
  const M = rows.length / 2
  const out = new Float32Array(M * shape.outStride).fill(7)
  const place = slots ? [rows, slots] : [rows]
  const kernel = attendCacheFused({ ...shape, place: slots ? 'slots' : 'rows' })
  const buffers = [qkv, ...place, turns, ...normBuffers(norms), keys, values, out]
  const [k, v, attended] = await runKernel(kernel, buffers, attendCacheWorkgroups(shape, M))
  return { keys: k, values: v, out: attended }
}

function expectedHeads({ shape, qkv, rows, turns, norms }: Case, row: number): HeadRows {
  return headsOfRow(shape, qkv.subarray(row * shape.stride, (row + 1) * shape.stride), rows[row * 2 + 1], turns, norms)
}

function cachedHeads({ shape, keys, values }: Case, slot: number, count: number): HeadRows[] {
  const { kvHeads: K, headWidth: d } = shape
  const heads = (cache: Float32Array, position: number) =>
    Array.from({ length: K }, (_, k) => {
      const at = ((slot * S + position) * K + k) * d
      return Array.from(cache.subarray(at, at + d))
    })
  return Array.from({ length: count }, (_, p) => ({ queries: [], keys: heads(keys, p), values: heads(values, p) }))
}

describe.each(HEAD_SHAPES)('attention over a cache, %i heads on %i of width %i, norm %s', (...shape) => {
  const c = cacheCase(shape, 11)
  const { heads: H, kvHeads: K, headWidth: d, outStride } = c.shape

  it('puts turned keys and values into the cache, and nothing else', async () => {
    const [keys, values, queries] = await runRope(c)
    const wantedKeys = Float64Array.from(c.keys)
    const wantedValues = Float64Array.from(c.values)
    const wantedQueries = new Float64Array(queries.length)
    for (const [row, [slot, position]] of ROWS.entries()) {
      if (position === PADDING) continue
      const expected = expectedHeads(c, row)
      wantedKeys.set(expected.keys.flat(), (slot * S + position) * K * d)
      wantedValues.set(expected.values.flat(), (slot * S + position) * K * d)
      wantedQueries.set(expected.queries.flat(), row * H * d)
    }
    expect(worst(keys, wantedKeys)).toBeLessThan(ATTENTION_TOLERANCE)
    expect(worst(values, wantedValues)).toBe(0)
    expect(worst(queries, wantedQueries)).toBeLessThan(ATTENTION_TOLERANCE)
  })

  it.each(SHUFFLES)('attends to positions up to its own, whichever kernel, %i shuffles', async (shuffles) => {
    const c = cacheCase(shape, 11, { shuffles })
    const separate = await runSeparate(c)
    const fused = await runFused(c)
    for (const [row, [slot, position]] of ROWS.entries()) {
      const got = separate.out.subarray(row * outStride, (row + 1) * outStride)
      if (position === PADDING) {
        expect(Array.from(got)).toEqual(Array(outStride).fill(0))
        continue
      }
      const seen = cachedHeads(c, slot, position + 1)
      const own = expectedHeads(c, row)
      seen[position] = own
      const expected = [...attendReference(c.shape, own.queries, seen).out, ...Array(outStride - H * d).fill(0)]
      expect(worst(got, expected)).toBeLessThan(ATTENTION_TOLERANCE)
    }
    expect(sameBits(fused.out, separate.out)).toBe(true)
    expect(sameBits(fused.keys, separate.keys)).toBe(true)
    expect(sameBits(fused.values, separate.values)).toBe(true)
  })

  it.each(SHUFFLES)('gives a row the same bits alone and by the state of its slot, %i shuffles', async (shuffles) => {
    const c = cacheCase(shape, 11, { shuffles })
    const together = await runFused(c)
    // Row 3's slot is empty: length 0.
    const slots = new Uint32Array((SLOTS + 1) * 8).fill(77, 0, SLOTS * 8)
    for (const [slot, position] of ROWS) if (position !== PADDING) slots[slot * 8 + 1] = position + 1
    const rows = Uint32Array.from(ROWS.flatMap(([slot]) => [Math.min(slot, SLOTS), 77]))
    const byState = await runFused({ ...c, rows }, slots)
    expect(sameBits(byState.out, together.out)).toBe(true)
    expect(sameBits(byState.keys, together.keys)).toBe(true)
    for (const row of ROWS.keys()) {
      if (ROWS[row][1] === PADDING) continue
      const rows = c.rows.subarray(row * 2, row * 2 + 2)
      const qkv = c.qkv.subarray(row * c.shape.stride, (row + 1) * c.shape.stride)
      const alone = await runFused({ ...c, rows, qkv })
      const wanted = together.out.subarray(row * outStride, (row + 1) * outStride)
      expect(sameBits(alone.out, wanted)).toBe(true)
      if (ROWS[row][0] !== 0)
        expect(sameBits(byState.out.subarray(row * outStride, (row + 1) * outStride), wanted)).toBe(true)
    }
  })
})

// Several workgroups to a key head with an uneven last one, several rounds of merging, other numbers of threads.
describe.each<[number, number, number, number]>([
  [5, 1, 128, 64],
  [2, 1, 32, 256],
])('attention over a cache, %i heads on %i of width %i with %s threads', (heads, kvHeads, headWidth, threads) => {
  it.each(SHUFFLES)('agrees with the reference, whichever kernel, %i shuffles', async (shuffles) => {
    const c = cacheCase([heads, kvHeads, headWidth, true], 12, { threads, shuffles })
    const rows = Uint32Array.from([1, 77])
    const short = { ...c, rows, qkv: c.qkv.subarray(0, c.shape.stride) }
    const separate = await runSeparate(short)
    const fused = await runFused(short)
    const own = expectedHeads(short, 0)
    const seen = cachedHeads(short, 1, 78)
    seen[77] = own
    expect(worst(separate.out, attendReference(c.shape, own.queries, seen).out)).toBeLessThan(ATTENTION_TOLERANCE)
    expect(sameBits(fused.out, separate.out)).toBe(true)
  })
})

describe('copies within a cache', () => {
  it('fills other slots with the positions asked for, and nothing else', async () => {
    const shape = { kvHeads: 3, headWidth: 8, positions: 20 }
    const width = 24
    const random = floats(13)
    const [keys, values] = [random(5 * 20 * width), random(5 * 20 * width)]
    const copies = [
      [1, 0, 0, 20],
      [1, 4, 2, 7],
      [3, 2, 19, 1],
      [3, 2, 0, 0],
    ]
    const wanted = [keys, values].map((cache) => {
      const copy = cache.slice()
      for (const [source, to, first, count] of copies) {
        const begin = (source * 20 + first) * width
        copy.set(cache.subarray(begin, begin + count * width), (to * 20 + first) * width)
      }
      return copy
    })
    for (const count of [20, 1]) {
      const groups = copyCacheWorkgroups(shape, copies.length, count)
      const got = await runKernel(copyCache(shape), [keys, values, Uint32Array.from(copies.flat())], groups)
      expect(sameBits(got[0], wanted[0])).toBe(true)
      expect(sameBits(got[1], wanted[1])).toBe(true)
    }
  })
})
