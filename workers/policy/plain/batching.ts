// Ragged rows to padded rectangles. Lengths come in buckets of 32 and batches in powers of two, because tfjs's buffer
// pool keeps one list per size and never shrinks.

const BUCKET = 32

export function bucketed(length: number, limit = Number.POSITIVE_INFINITY): number {
  return Math.max(length, Math.min(Math.ceil(length / BUCKET) * BUCKET, limit))
}

export function powerOfTwo(count: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, count)))
}

/** [rows, T], padded with token 0. */
export function pad(rows: ArrayLike<number>[], T: number, count = rows.length): Int32Array {
  const ids = new Int32Array(count * T)
  rows.forEach((row, index) => {
    ids.set(row as number[], index * T)
  })
  return ids
}
