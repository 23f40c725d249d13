// Packs rows of a checkpoint on the GPU as they come: bytes go up as they are stored and leave as packed words. One source
// buffer is used again and again; a few slices are under way, never more.

import { Pipelines } from './kernel.ts'
import { pack, packPlace, packWorkgroups, type SourceFormat } from './kernels/pack.ts'
import type { WeightFormat } from './kernels/weightFormat.ts'
import type { GpuMemory } from './memory.ts'
import { type Bound, Plan, submit } from './plan.ts'

/** A packed matrix [rows, columns]. */
export interface PackedMatrix {
  format: WeightFormat
  /** Whole blocks of 32. */
  columns: number
  words: GPUBuffer
  scales: GPUBuffer | null
}

/** Bytes of the checkpoint that go up at once. */
export const SLICE_BYTES = 16 << 20
/** Slices that were sent and may not have arrived. */
const UNDER_WAY = 3

export class Packer {
  readonly #source: GPUBuffer
  readonly #place: GPUBuffer
  #underWay: Promise<unknown>[] = []

  constructor(readonly memory: GpuMemory) {
    this.#source = memory.storage('tables', SLICE_BYTES, 'rows of the checkpoint')
    this.#place = memory.uniform('tables', 16, 'place of rows')
  }

  /** Rows of so many columns that one `write` takes; an even number where rows would else begin within a word. */
  rowsPerSlice(columns: number): number {
    return Math.max(2, Math.floor(SLICE_BYTES / (4 * columns) / 2) * 2)
  }

  /**
   * Source row r becomes row `first + r · step` of the matrix. Resolves when another slice may be sent.
   * @param bytes whole rows of `columns` numbers, little-endian, at most SLICE_BYTES
   */
  async write(
    matrix: PackedMatrix,
    source: SourceFormat,
    bytes: Uint8Array,
    columns: number,
    { first, step = 1 }: { first: number; step?: number },
  ): Promise<void> {
    const { device } = this.memory
    const rows = bytes.length / columns / (source === 'F32' ? 4 : 2)
    if (bytes.length > this.#source.size) {
      throw new Error(`internal: a slice of the checkpoint has ${bytes.length} bytes, more than ${this.#source.size}`)
    }
    const spec = { source, format: matrix.format, columns, paddedColumns: matrix.columns }
    const buffers: Bound[] = [this.#source, this.#place, matrix.words]
    if (matrix.scales) buffers.push(matrix.scales)
    const plan = new Plan(Pipelines.of(device), [
      { kernel: pack(spec), buffers, workgroups: packWorkgroups(spec, rows) },
    ])
    device.queue.writeBuffer(this.#source, 0, wholeWords(bytes) as BufferSource)
    device.queue.writeBuffer(this.#place, 0, packPlace(rows, first, step))
    submit(device, [plan])
    this.#underWay.push(device.queue.onSubmittedWorkDone())
    if (this.#underWay.length >= UNDER_WAY) await this.#underWay.shift()
  }

  /** Resolves when everything is packed; gives the packer's own buffers back. */
  async finish(): Promise<void> {
    await Promise.all(this.#underWay)
    this.#underWay = []
    this.memory.free(this.#source, this.#place)
  }
}

function wholeWords(bytes: Uint8Array): Uint8Array {
  if (bytes.length % 4 === 0) return bytes
  const padded = new Uint8Array(Math.ceil(bytes.length / 4) * 4)
  padded.set(bytes)
  return padded
}
