// From hidden states to log-probabilities of targets: the vocabulary in chunks, so that no [N, V] array exists, and the
// gradient for a slope of one in the same sweep, so that the head is never run twice.

import {
  headChunk,
  headChunkWorkgroups,
  headFinish,
  headFinishWorkgroups,
  headScore,
  headScoreWorkgroups,
  STATE_NUMBERS,
} from '../../../gpu/kernels/headChunk.ts'
import { wordsPerRow } from '../../../gpu/kernels/weightFormat.ts'
import type { GpuMemory } from '../../../gpu/memory.ts'
import type { Bound, Dispatch } from '../../../gpu/plan.ts'
import type { Engine } from '../engine.ts'
import type { Matrix } from '../frozen.ts'
import { productDispatches } from '../product.ts'
import { learningTile } from '../tiles.ts'

/** Bytes of one chunk of logits, about. */
const CHUNK_BYTES = 96 << 20
const WIDEST_CHUNK = 16384

export class Head {
  /** Hidden rows of the targets, [N, D], and their unit-slope gradient. */
  readonly hidden: GPUBuffer
  readonly unit: GPUBuffer
  readonly targets: GPUBuffer
  readonly inverseTemperatures: GPUBuffer
  /** (log-probability, entropy) per target. */
  readonly scores: GPUBuffer
  readonly columns: number
  readonly #states: GPUBuffer
  readonly #rescale: GPUBuffer
  readonly #chunk: GPUBuffer
  readonly #starts: GPUBuffer[]
  readonly #memory: GpuMemory

  constructor(
    readonly engine: Engine,
    /** N, at most. */
    readonly capacity: number,
  ) {
    const { shape, memory } = engine
    this.#memory = memory
    const wanted = Math.floor(CHUNK_BYTES / (4 * capacity) / 512) * 512
    this.columns = Math.min(shape.vocabulary, WIDEST_CHUNK, Math.max(512, wanted))
    const make = (floats: number, label: string) => memory.storage('activations', floats * 4, label)
    this.hidden = make(capacity * shape.width, 'hidden of targets')
    this.unit = make(capacity * shape.width, 'unit gradients')
    this.targets = make(capacity, 'targets')
    this.inverseTemperatures = make(capacity, 'inverse temperatures')
    this.scores = make(capacity * 2, 'scores')
    this.#states = make(capacity * STATE_NUMBERS, 'softmax states')
    this.#rescale = make(capacity, 'rescale')
    this.#chunk = make(capacity * this.columns, 'logits of a chunk')
    const count = Math.ceil(shape.vocabulary / this.columns)
    this.#starts = Array.from({ length: count }, (_, i) => {
      const start = memory.uniform('tables', 16, 'first column')
      memory.device.queue.writeBuffer(start, 0, new Uint32Array([i * this.columns, 0, 0, 0]))
      return start
    })
  }

  /** `keep` also leaves the unit-slope gradients in `unit`. */
  dispatches(N: number, keep: boolean): Dispatch[] {
    const { weights, shape, limits, variants } = this.engine
    const matrix = weights.head
    const lanes = variants.lanes(`head.chunk/${shape.vocabulary}`)
    const states: Bound = { buffer: this.#states, offset: 0, size: N * STATE_NUMBERS * 4 }
    const list: Dispatch[] = []
    for (const [index, start] of this.#starts.entries()) {
      const first = index * this.columns
      const rows = Math.min(this.columns, shape.vocabulary - first)
      const part = { ...rowsOf(matrix, first, rows), rows }
      list.push(
        ...productDispatches({
          name: 'learn.head',
          direction: 'forward',
          M: N,
          input: this.hidden,
          matrix,
          part,
          tile: learningTile(N, rows, matrix.columns, 0, limits, true),
          variants,
          scratch: this.#chunk,
          output: this.#chunk,
        }),
        {
          kernel: headChunk({ vocabulary: shape.card.vocabulary, columns: rows, lanes }),
          buffers: [this.#chunk, this.targets, this.inverseTemperatures, start, states, this.#rescale],
          workgroups: headChunkWorkgroups(N),
        },
      )
      if (!keep) continue
      list.push(
        ...productDispatches({
          name: 'learn.head.backward',
          direction: 'gradient',
          M: N,
          input: this.#chunk,
          matrix,
          part,
          tile: learningTile(N, matrix.columns, rows, 0, limits, false),
          variants,
          // The first chunk starts the sum anew: nothing of an earlier pass, finite or not, is read.
          ...(index === 0 ? {} : { epilogue: 'rescaled' as const, addend: this.#rescale }),
          scratch: this.unit,
          output: this.unit,
        }),
      )
    }
    list.push({ kernel: headScore(), buffers: [states, this.scores], workgroups: headScoreWorkgroups(N) })
    if (keep) {
      const spec = { vocabulary: shape.card.vocabulary, width: shape.width, format: matrix.format }
      const table = matrix.scales ? [matrix.words, matrix.scales] : [matrix.words]
      list.push({
        kernel: headFinish(spec),
        buffers: [...table, this.targets, this.inverseTemperatures, states, this.unit],
        workgroups: headFinishWorkgroups(spec, N),
      })
    }
    return list
  }

  dispose(): void {
    this.#memory.free(
      ...[this.hidden, this.unit, this.targets, this.inverseTemperatures, this.scores],
      ...[this.#states, this.#rescale, this.#chunk, ...this.#starts],
    )
  }
}

function rowsOf(
  { format, columns, words, scales }: Matrix,
  first: number,
  rows: number,
): { words: Bound; scales: Bound | null } {
  const wordBytes = wordsPerRow(format, columns) * 4
  return {
    words: { buffer: words, offset: first * wordBytes, size: rows * wordBytes },
    scales: scales && { buffer: scales, offset: (first * columns) / 8, size: (rows * columns) / 8 },
  }
}

/** Bytes per target token, beside the chunk of logits. */
export function headBytes(width: number): number {
  return 4 * (2 * width + 2 + 2 + STATE_NUMBERS + 1)
}
