// Gradients of causal attention over packed rows: queries first, then keys and values. Scores are worked out again from
// their saved log-sums; every sum has one order, without atomics.

import { declare, type Kernel } from '../kernel.ts'
import { type AttendShape, tileSource } from './attend.ts'
import keysText from './attendBackwardKeys.wgsl?raw'
import queriesText from './attendBackwardQueries.wgsl?raw'
import gradientsText from './attendGradients.wgsl?raw'
import type { HeadShape } from './ropeHead.ts'

/**
 * The columns of queries of dqk, with respect to turned, scaled queries, and delta = Σ dOut·out per token and head, which
 * `attendBackwardKeys` needs; zeros for padding.
 * Binds: qk [M, (H + K)·d], qkv [M, stride], dOut and out [M, outStride], logSums [M, H], blocks; written: dqk
 * [M, (H + K)·d], delta [M, H].
 */
export function attendBackwardQueries(shape: AttendShape): Kernel {
  const { text, bindings } = declare([
    ['qk', 'read', 'array<vec4f>'],
    ['qkv', 'read', 'array<vec4f>'],
    ['dOut', 'read', 'array<vec4f>'],
    ['out', 'read', 'array<vec4f>'],
    ['logSums', 'read', 'array<f32>'],
    ['blocks', 'read', 'array<vec4u>'],
    ['dqk', 'write', 'array<vec4f>'],
    ['deltaSums', 'write', 'array<f32>'],
  ])
  return { name: 'attend.backwardQueries', code: tileSource(shape, text, `${gradientsText}\n${queriesText}`), bindings }
}

/** @param blocks those of the table, spare ones included */
export function attendBackwardQueriesWorkgroups({ heads }: HeadShape, blocks: number): [number, number] {
  return [blocks, heads]
}

/**
 * The columns of keys of dqk, with respect to turned keys, and the columns of values of dqkv; zeros for padding.
 * Binds: qk [M, (H + K)·d], qkv [M, stride], dOut [M, outStride], logSums [M, H], delta [M, H], blocks; written: dqk
 * [M, (H + K)·d], dqkv [M, stride].
 */
export function attendBackwardKeys(shape: AttendShape): Kernel {
  const { text, bindings } = declare([
    ['qk', 'read', 'array<vec4f>'],
    ['qkv', 'read', 'array<vec4f>'],
    ['dOut', 'read', 'array<vec4f>'],
    ['logSums', 'read', 'array<f32>'],
    ['deltaSums', 'read', 'array<f32>'],
    ['blocks', 'read', 'array<vec4u>'],
    ['dqk', 'write', 'array<vec4f>'],
    ['dqkv', 'write', 'array<vec4f>'],
  ])
  return { name: 'attend.backwardKeys', code: tileSource(shape, text, `${gradientsText}\n${keysText}`), bindings }
}

/** @param blocks those of the table, spare ones included */
export function attendBackwardKeysWorkgroups({ kvHeads }: HeadShape, blocks: number): [number, number] {
  return [blocks, kvHeads]
}
