// Which tile computes a product of which shape. While sampling, the order of a sum is one per weight matrix, whatever the
// number of rows; only the tile's extent follows the rows. Measured on an NVIDIA H200 (docs/performance.md).

import { type SumOrder, type Tile, threadsOf, workgroupBytes } from '../../gpu/kernels/matmul.ts'

export interface TileLimits {
  /** Workgroups are computed by a processor: small ones, few barriers. */
  software: boolean
  workgroupBytes: number
  invocations: number
}

/** While sampling: rows are few and the sum is cut among teams of threads, and long narrow ones among workgroups. */
export function samplingOrder(N: number, K: number, limits: TileLimits): SumOrder {
  if (limits.software) return { BK: 16, groups: 1, splits: 1 }
  if (N >= 4096) return { BK: 16, groups: 1, splits: 1 }
  if (K >= 2048) return { BK: 16, groups: 2, splits: 4 }
  return { BK: 16, groups: N >= 1024 ? 2 : 4, splits: 1 }
}

export function samplingTile(order: SumOrder, M: number, N: number): Tile {
  if (M <= 16) return { ...order, BM: 16, BN: 32, TM: 2, TN: 4 }
  if (M <= 32) return { ...order, BM: 32, BN: 32, TM: 4, TN: 4 }
  if (M <= 64 || N < 256)
    return N >= 4096 ? { ...order, BM: 64, BN: 64, TM: 8, TN: 4 } : { ...order, BM: 32, BN: 32, TM: 4, TN: 4 }
  if (N >= 1024) return { ...order, BM: 64, BN: 64, TM: 8, TN: 4 }
  return { ...order, BM: 64, BN: 32, TM: 8, TN: 4 }
}

const NO_PARTS = { groups: 1, splits: 1 }

/** While learning: thousands of rows. `rank` must be a whole number of stretches. */
export function learningTile(
  M: number,
  N: number,
  K: number,
  rank: number,
  limits: TileLimits,
  forward: boolean,
): Tile {
  const BK = K % 32 === 0 && rank % 32 === 0 ? 32 : 16
  const small: Tile = { ...NO_PARTS, BM: 32, BN: 32, BK: 16, TM: 4, TN: 4 }
  if (limits.software || N < 64) return small
  const candidates: Tile[] = [
    { ...NO_PARTS, BM: 128, BN: 128, BK, TM: 8, TN: 8 },
    { ...NO_PARTS, BM: 128, BN: 128, BK: 16, TM: 8, TN: 8 },
    { ...NO_PARTS, BM: 64, BN: 128, BK: 16, TM: 8, TN: 8 },
    { ...NO_PARTS, BM: 64, BN: 64, BK: 16, TM: 8, TN: 8 },
  ]
  for (const tile of candidates) {
    const enough = Math.ceil(M / tile.BM) * Math.ceil(N / tile.BN) >= WORKGROUPS_WANTED
    const wasted = Math.ceil(N / tile.BN) * tile.BN > 1.2 * N
    if (enough && !wasted && fits(tile, limits, forward)) return tile
  }
  const last: Tile = { ...NO_PARTS, BM: 64, BN: 64, BK: 16, TM: 4, TN: 8 }
  return fits(last, limits, forward) ? last : small
}

/** Twice the compute units of a large GPU. */
const WORKGROUPS_WANTED = 260

function fits(tile: Tile, limits: TileLimits, forward: boolean): boolean {
  return (
    workgroupBytes(tile, forward ? 'forward' : 'gradient') <= limits.workgroupBytes &&
    threadsOf(tile) <= limits.invocations
  )
}
