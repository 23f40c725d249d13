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
export function samplingOrder(N: number, K: number, rank: number, limits: TileLimits): SumOrder {
  if (limits.software) return { BK: 16, groups: 1, splits: 1 }
  const roomy = limits.workgroupBytes >= 49152
  const most = roomy ? 8 : 4
  const BK = roomy && K % 32 === 0 && rank % 32 === 0 ? 32 : 16
  if (N >= HEAD) return { BK: 16, groups: 1, splits: 1 }
  if (N >= 4096) return { BK, groups: 1, splits: 1 }
  if (K >= 2048) return { BK, groups: 2, splits: 8 }
  if (N >= 2048) return { BK: 16, groups: 2, splits: 1 }
  return { BK: 16, groups: N < 256 || K > 600 ? most : 4, splits: 1 }
}

/** A result this wide is a head's. */
const HEAD = 16384

export function samplingTile(order: SumOrder, M: number, N: number): Tile {
  const few = { ...order, BM: 16, BN: 16, TM: 4, TN: 4 }
  if (M <= 16 || N < 256) return few
  if (N >= HEAD) return { ...order, BM: 64, BN: 64, TM: 8, TN: 4 }
  if (N >= 4096) {
    return M <= 64 ? { ...order, BM: 32, BN: 64, TM: 4, TN: 4 } : { ...order, BM: 64, BN: 64, TM: 8, TN: 4 }
  }
  if (N >= 2048) {
    return M <= 64 ? { ...order, BM: 16, BN: 32, TM: 4, TN: 4 } : { ...order, BM: 32, BN: 64, TM: 4, TN: 4 }
  }
  if (order.splits > 1) return { ...order, BM: 64, BN: 64, TM: 8, TN: 8 }
  return M <= 64 && N < 1024 ? few : { ...order, BM: 32, BN: 32, TM: 8, TN: 4 }
}

const NO_PARTS = { groups: 1, splits: 1 }
/** Workgroups that keep a large GPU busy to the end. */
const WORKGROUPS_WANTED = 400

/** While learning: thousands of rows. `rank` must be a whole number of stretches. */
export function learningTile(
  M: number,
  N: number,
  K: number,
  rank: number,
  limits: TileLimits,
  forward: boolean,
): Tile {
  const small: Tile = { ...NO_PARTS, BM: 32, BN: 32, BK: 16, TM: 4, TN: 4 }
  if (limits.software) return small
  const BK = K % 32 === 0 && rank % 32 === 0 ? 32 : 16
  if (N <= 64) {
    return M >= 8192 && BK === 32
      ? { ...NO_PARTS, BM: 128, BN: 16, BK, TM: 8, TN: 4 }
      : { BM: 64, BN: 16, BK: 16, TM: 4, TN: 4, groups: 2, splits: 1 }
  }
  const wide: Tile = { ...NO_PARTS, BM: 128, BN: 128, BK, TM: 8, TN: 8 }
  const tall: Tile = { ...NO_PARTS, BM: 128, BN: 64, BK: 16, TM: 8, TN: 8 }
  const narrow: Tile = forward
    ? { ...NO_PARTS, BM: 64, BN: 64, BK: 8, TM: 8, TN: 8 }
    : { ...NO_PARTS, BM: 64, BN: 64, BK: 8, TM: 4, TN: 8 }
  const wasted = Math.ceil(N / 128) * 128 > 1.1 * N
  const enough = (across: number) => Math.ceil(M / 128) * Math.ceil(N / across) >= WORKGROUPS_WANTED
  const candidates = [
    ...(forward && !wasted && enough(128) ? [wide] : []),
    ...(enough(64) || (forward && M >= 8192) ? [tall] : []),
    narrow,
  ]
  return candidates.find((tile) => fits(tile, limits, forward)) ?? small
}

function fits(tile: Tile, limits: TileLimits, forward: boolean): boolean {
  return (
    workgroupBytes(tile, forward ? 'forward' : 'gradient') <= limits.workgroupBytes &&
    threadsOf(tile) <= limits.invocations
  )
}
