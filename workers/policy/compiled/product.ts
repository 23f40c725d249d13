// One matrix product as dispatches: the product itself and, where its sum is split among workgroups, the adding up.

import { type MatmulSpec, matmul, matmulWorkgroups, type Tile } from '../../gpu/kernels/matmul.ts'
import { sumParts, sumPartsWorkgroups } from '../../gpu/kernels/sumParts.ts'
import type { Bound, Dispatch } from '../../gpu/plan.ts'
import type { Variants } from '../../gpu/variants.ts'
import type { Matrix } from './frozen.ts'

export interface ProductCall {
  name: string
  direction: 'forward' | 'gradient'
  /** Rows to compute; buffers hold a whole number of tiles. */
  M: number
  input: Bound
  matrix: Matrix
  /** Packed part of the matrix when the call takes only some of its rows. */
  part?: { words: Bound; scales: Bound | null; rows: number }
  tile: Tile
  variants: Variants
  norm?: { gain: Bound; width: number; epsilon: number } | { gain: Bound }
  extension?: { rank: number; u: Bound; e: Bound } | null
  epilogue?: MatmulSpec['epilogue']
  /** The bias, the residual or the scales per row of the epilogue. */
  addend?: Bound | null
  /** Where a split sum is kept: splits × rows × columns. */
  scratch: Bound
  output: Bound
}

export function productDispatches(call: ProductCall): Dispatch[] {
  const { name, direction, M, input, matrix, part, tile, norm, extension, epilogue = 'store', addend, output } = call
  const rows = part?.rows ?? matrix.rows
  const forward = direction === 'forward'
  const [K, N] = forward ? [matrix.columns, rows] : [rows, matrix.columns]
  const split = tile.splits > 1
  const spec: MatmulSpec = {
    name,
    K,
    N,
    direction,
    format: matrix.format,
    half: matrix.format === 'f16' && call.variants.half(`${name}/${matrix.rows}x${matrix.columns}`),
    tile,
    norm: norm === undefined ? undefined : 'width' in norm ? { width: norm.width, epsilon: norm.epsilon } : 'gain',
    rank: extension?.rank ?? 0,
    epilogue: split ? 'store' : epilogue,
  }
  const buffers: Bound[] = [input, part?.words ?? matrix.words]
  const scales = part ? part.scales : matrix.scales
  if (scales) buffers.push(scales)
  if (norm) buffers.push(norm.gain)
  if (extension) buffers.push(extension.u, extension.e)
  if (!split && addend) buffers.push(addend)
  buffers.push(split ? call.scratch : output)
  const product: Dispatch = { kernel: matmul(spec), buffers, workgroups: matmulWorkgroups(spec, M) }
  if (!split) return [product]
  const size = Math.ceil(M / tile.BM) * tile.BM * N
  const sum = {
    name: `${name}.sum`,
    parts: tile.splits,
    size,
    addend: epilogue === 'residual' || epilogue === 'bias' ? epilogue : ('none' as const),
    columns: N,
  }
  return [
    product,
    {
      kernel: sumParts(sum),
      buffers: [call.scratch, addend ?? call.scratch, output],
      workgroups: sumPartsWorkgroups(sum),
    },
  ]
}
