// Rows of different lengths one after the other, and every table that the kernels want of them. Padding stands at the end.

import type { Row } from '../../policy.ts'
import { padTo } from '../shape.ts'

export interface Packed {
  /** Padded number of tokens and of target tokens. */
  tokens: number
  targets: number
  /** Target tokens that are real, rows in order. */
  count: number
  ids: Uint32Array
  /** (first token of the row, one past its last) per token; empty for padding. */
  spans: Uint32Array
  /** Per target token: the token whose hidden state predicts it, the id, and 1 / temperature. */
  sources: Uint32Array
  targetIds: Uint32Array
  inverseTemperatures: Float32Array
  /** Row starts and lengths, for the attention's blocks. */
  rows: { start: number; length: number }[]
}

/** @param multiple tokens and targets are padded to a multiple of it */
export function packRows(rows: Row[], multiple: number): Packed {
  const total = rows.reduce((sum, { ids }) => sum + ids.length, 0)
  const count = rows.reduce((sum, { targets }) => sum + targets.length, 0)
  const tokens = padTo(Math.max(total, 1), multiple)
  const targets = padTo(Math.max(count, 1), multiple)
  const ids = new Uint32Array(tokens)
  const spans = new Uint32Array(tokens * 2)
  const sources = new Uint32Array(targets)
  const targetIds = new Uint32Array(targets)
  const inverseTemperatures = new Float32Array(targets).fill(1)
  const places: Packed['rows'] = []
  let start = 0
  let at = 0
  for (const row of rows) {
    const { length } = row.ids
    ids.set(row.ids, start)
    for (let t = start; t < start + length; t++) {
      spans[2 * t] = start
      spans[2 * t + 1] = start + length
    }
    for (const t of row.targets) {
      sources[at] = start + t - 1
      targetIds[at] = row.ids[t]
      inverseTemperatures[at] = row.temperature > 0 ? 1 / row.temperature : 1
      at++
    }
    places.push({ start, length })
    start += length
  }
  for (let t = start; t < tokens; t++) spans[2 * t] = spans[2 * t + 1] = t
  return { tokens, targets, count, ids, spans, sources, targetIds, inverseTemperatures, rows: places }
}

/** Cuts rows into passes of at most `budget` tokens, in order; a row is never split. */
export function cutRows(rows: Row[], budget: number): Row[][] {
  const passes: Row[][] = []
  let tokens = Number.POSITIVE_INFINITY
  for (const row of rows) {
    if (tokens + row.ids.length > budget) {
      passes.push([])
      tokens = 0
    }
    passes[passes.length - 1].push(row)
    tokens += row.ids.length
  }
  return passes
}
