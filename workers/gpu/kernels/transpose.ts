// A frozen matrix [N, K] in the order that `decodeWhole` reads: [K][N], four columns together.

import { declare, type Kernel, specialise } from '../kernel.ts'
import { rowOfColumn } from './decodeWholeLayout.ts'
import { flatWorkgroups } from './sumParts.ts'
import source from './transpose.wgsl?raw'

export interface TransposeSpec {
  /** Columns of the matrix, a multiple of 4. */
  K: number
  /** Quads of its rows. */
  quads: number
  format: 'f32' | 'f16'
  /** Rows are gates and ups in turn; the result has four of the one, then four of the other. */
  alternating: boolean
}

/**
 * Bound in this order: the packed matrix [N, K], the result: f32 [K][quads] of four, packed f16 [K / 2][quads] of two times
 * four. Exact.
 */
export function transpose({ K, quads, format, alternating }: TransposeSpec): Kernel {
  const half = format === 'f16'
  const { text, bindings } = declare([
    ['matrix', 'read', half ? 'array<vec2u>' : 'array<vec4u>'],
    ['result', 'write', 'array<vec4u>'],
  ])
  const fourOf = `fn fourOf(at: u32) -> vec4u { return ${half ? 'vec4u(matrix[at], 0u, 0u)' : 'matrix[at]'}; }`
  const code = specialise([text, fourOf, source].join('\n'), {
    FOURS: K / 4,
    QUADS: quads,
    HALF: half,
    ALTERNATING: alternating,
  })
  return { name: 'transpose', code, bindings }
}

export function transposeWorkgroups({ K, quads }: TransposeSpec): [number, number] {
  return flatWorkgroups((K * quads) / 4, 64)
}

/** The plain reference, of numbers: [K][4·quads]. */
export function transposeReference(
  matrix: ArrayLike<number>,
  { K, quads, alternating }: Omit<TransposeSpec, 'format'>,
): Float64Array {
  const columns = 4 * quads
  return Float64Array.from(
    { length: K * columns },
    (_, i) => matrix[rowOfColumn(alternating ? 'gateUp' : 'head', i % columns) * K + Math.floor(i / columns)],
  )
}
