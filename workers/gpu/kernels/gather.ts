// The rows that have a target, picked out of all rows, and their gradients put back.

import { type Kernel, specialise } from '../kernel.ts'
import backSource from './gatherBack.wgsl?raw'
import rowsSource from './gatherRows.wgsl?raw'
import { flatWorkgroups } from './sumParts.ts'

/** The place of a row that was not picked. */
const NOWHERE = 0xffffffff

/**
 * result[n] = source[index[n]]. Bound in this order: source [M, width], index u32 [Nt], result [Nt, width]; width a multiple
 * of 4. Exact.
 */
export function gatherRows(width: number): Kernel {
  return {
    name: 'gather.rows',
    code: specialise(rowsSource, { WIDTH_QUADS: width / 4 }),
    bindings: ['read', 'read', 'write'],
  }
}

/**
 * result[m] = slope[n]·unit[n] with n = place[m], zero where that is NOWHERE: the gradient of `gatherRows` for a loss whose
 * derivative to the n-th score is slope[n].
 * Bound in this order: unit [Nt, width], slope f32 [Nt], place u32 [M] (`placesOf`), result [M, width]. Exact.
 */
export function scatterRows(width: number): Kernel {
  return {
    name: 'gather.back',
    code: specialise(backSource, { WIDTH_QUADS: width / 4 }),
    bindings: ['read', 'read', 'read', 'write'],
  }
}

/** Of both; `rows` of the result. */
export function gatherWorkgroups(width: number, rows: number): [number, number] {
  return flatWorkgroups((rows * width) / 4, 256)
}

/** Where each of M rows stands among the picked ones. Rows are picked at most once. */
export function placesOf(index: ArrayLike<number>, M: number): Uint32Array<ArrayBuffer> {
  const places = new Uint32Array(M).fill(NOWHERE)
  for (let n = 0; n < index.length; n++) places[index[n]] = n
  return places
}

/** The plain reference of `gatherRows`. */
export function gatherReference(source: ArrayLike<number>, index: ArrayLike<number>, width: number): Float64Array {
  return Float64Array.from(
    { length: index.length * width },
    (_, i) => source[index[Math.floor(i / width)] * width + (i % width)],
  )
}

/** The plain reference of `scatterRows`. */
export function scatterReference(
  unit: ArrayLike<number>,
  slope: ArrayLike<number>,
  index: ArrayLike<number>,
  M: number,
  width: number,
): Float64Array {
  const result = new Float64Array(M * width)
  for (let n = 0; n < index.length; n++) {
    for (let j = 0; j < width; j++) result[index[n] * width + j] = Math.fround(slope[n] * unit[n * width + j])
  }
  return result
}
