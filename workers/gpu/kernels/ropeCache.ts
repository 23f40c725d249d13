// Queries, keys and values of rows on their way into attention over a cache.

import { declare, type Kernel, specialise } from '../kernel.ts'
import { type Place, placeBindings, placeText } from './attendPlace.ts'
import text from './ropeCache.wgsl?raw'
import { normBindings, type RopeShape, ropeConstants, ropeText } from './ropeHead.ts'

export interface CacheShape extends RopeShape {
  /** S, positions per slot. */
  positions: number
  place: Place
}

/**
 * Normed (with `norm`), turned keys and plain values of every row into the cache, normed, turned queries times 1/√d into
 * a buffer of their own; zeros there for padding.
 * Binds: qkv [M, stride], rows [M] (and slots), turns [positions, d/2] of (cos, sin), with `norm` queryNorm [d] and
 * keyNorm [d]; written: keys and values [slots, S, K·d], queries [M, H·d].
 */
export function ropeCache(shape: CacheShape): Kernel {
  const { text: declarations, bindings } = declare([
    ['qkv', 'read', 'array<vec4f>'],
    ...placeBindings(shape.place),
    ['turns', 'read', 'array<vec4f>'],
    ...normBindings(shape),
    ['keys', 'write', 'array<vec4f>'],
    ['values', 'write', 'array<vec4f>'],
    ['queries', 'write', 'array<vec4f>'],
  ])
  const source = [declarations, placeText(shape.place), ropeText(shape), text].join('\n')
  const code = specialise(source, { ...ropeConstants(shape), POSITIONS: shape.positions })
  return { name: 'rope.cache', code, bindings }
}

export function ropeCacheWorkgroups(shape: CacheShape, rows: number): [number, number] {
  return [Math.ceil(((shape.heads + 2 * shape.kvHeads) * shape.headWidth) / 8 / 64), rows]
}
