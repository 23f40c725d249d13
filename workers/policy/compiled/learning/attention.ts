// Attention over packed rows: the tables that say which tokens belong together, and its dispatches.

import { attend, attendWorkgroups } from '../../../gpu/kernels/attend.ts'
import {
  attendBackwardKeys,
  attendBackwardKeysWorkgroups,
  attendBackwardQueries,
  attendBackwardQueriesWorkgroups,
} from '../../../gpu/kernels/attendBackward.ts'
import { attendBlockCapacity, attendBlocks } from '../../../gpu/kernels/attendBlocks.ts'
import { rope, ropeBackward, ropeBackwardWorkgroups, ropeWorkgroups } from '../../../gpu/kernels/rope.ts'
import type { Dispatch } from '../../../gpu/plan.ts'
import { type Engine, rotaryTurns } from '../engine.ts'
import type { LearningContext } from './layers.ts'
import type { Packed } from './packing.ts'

/** Spans of tokens, blocks of attention and the turns of positions; written before every pass. */
export class RowTables {
  readonly spans: GPUBuffer
  blocks: GPUBuffer
  turns: GPUBuffer
  /** Blocks of the table, spare ones included: the plans' size. */
  size = 0
  #capacity = 0
  #positions = 0

  constructor(
    readonly engine: Engine,
    tokens: number,
  ) {
    const { memory } = engine
    this.spans = memory.storage('tables', tokens * 8, 'spans')
    this.blocks = memory.storage('tables', 16, 'blocks')
    this.turns = memory.storage('tables', 16, 'turns')
  }

  /** True when buffers were made anew: plans that bind them are void. */
  write({ tokens, spans, rows }: Packed): boolean {
    const { memory, device } = this.engine
    let renewed = false
    const longest = Math.max(...rows.map(({ length }) => length))
    if (longest > this.#positions) {
      this.#positions = Math.ceil(longest / 128) * 128
      memory.free(this.turns)
      const turns = rotaryTurns(this.engine, this.#positions)
      this.turns = memory.storage('tables', turns.byteLength, 'turns')
      device.queue.writeBuffer(this.turns, 0, turns)
      renewed = true
    }
    // Few sizes, so that few plans are made.
    this.size = Math.ceil(attendBlockCapacity(rows.length, tokens) / 64) * 64
    if (this.size > this.#capacity) {
      this.#capacity = this.size
      memory.free(this.blocks)
      this.blocks = memory.storage('tables', this.size * 16, 'blocks')
      renewed = true
    }
    device.queue.writeBuffer(this.spans, 0, spans as BufferSource)
    device.queue.writeBuffer(this.blocks, 0, attendBlocks(rows, tokens, this.size) as BufferSource)
    return renewed
  }

  dispose(): void {
    this.engine.memory.free(this.spans, this.blocks, this.turns)
  }
}

function shapes({ engine }: LearningContext) {
  const { card, qkv, attended } = engine.shape
  const { heads, kvHeads, headWidth, queryKeyNorm, normEpsilon } = card
  return {
    turn: { heads, kvHeads, headWidth, stride: qkv, norm: queryKeyNorm, epsilon: normEpsilon },
    attend: { heads, kvHeads, headWidth, stride: qkv, outStride: attended },
  }
}

function norms({ engine }: LearningContext, index: number): GPUBuffer[] {
  const { queryNorm, keyNorm } = engine.weights.layers[index]
  return queryNorm && keyNorm ? [queryNorm, keyNorm] : []
}

function turned(context: LearningContext, index: number, M: number): Dispatch {
  const { tables, activations } = context
  const { turn } = shapes(context)
  const { qkv, qk } = activations.layers[index]
  return {
    kernel: rope(turn),
    buffers: [qkv, tables.spans, tables.turns, ...norms(context, index), qk],
    workgroups: ropeWorkgroups(turn, M),
  }
}

export function attentionForward(context: LearningContext, index: number, M: number): Dispatch[] {
  const { tables, activations } = context
  const { attend: shape } = shapes(context)
  const { qkv, qk, attended, logSums } = activations.layers[index]
  return [
    turned(context, index, M),
    {
      kernel: attend(shape),
      buffers: [qk, qkv, tables.blocks, attended, logSums],
      workgroups: attendWorkgroups(shape, tables.size),
    },
  ]
}

/** From `work.dy`, the gradient of what attention wrote, to `work.dqkv`; `again` turns queries and keys once more. */
export function attentionBackward(context: LearningContext, index: number, M: number, again: boolean): Dispatch[] {
  const { tables, activations } = context
  const { turn, attend: shape } = shapes(context)
  const { work } = activations
  const { qkv, qk, attended, logSums } = activations.layers[index]
  const normed = norms(context, index)
  return [
    ...(again ? [turned(context, index, M)] : []),
    {
      kernel: attendBackwardQueries(shape),
      buffers: [qk, qkv, work.dy, attended, logSums, tables.blocks, work.dqk, work.delta],
      workgroups: attendBackwardQueriesWorkgroups(shape, tables.size),
    },
    {
      kernel: attendBackwardKeys(shape),
      buffers: [qk, qkv, work.dy, logSums, work.delta, tables.blocks, work.dqk, work.dqkv],
      workgroups: attendBackwardKeysWorkgroups(shape, tables.size),
    },
    {
      kernel: ropeBackward(turn),
      buffers: [work.dqk, tables.spans, tables.turns, ...(normed.length ? [qkv, qk, ...normed] : []), work.dqkv],
      workgroups: ropeBackwardWorkgroups(turn, M),
    },
  ]
}
