// The table by which attention over packed rows is divided into workgroups.

/** Tokens of a block: queries of one workgroup, or keys. */
const ATTEND_BLOCK = 32

/** As many blocks as any rows need that fill M tokens together with padding. */
export function attendBlockCapacity(rows: number, tokens: number): number {
  return Math.ceil(tokens / ATTEND_BLOCK) + rows + 1
}

/**
 * Blocks of at most 32 tokens, each within one row and counted from its start; long rows' last blocks first, since they
 * take longest. Tokens behind the last row are padding, in blocks of an empty row.
 * @param rows in the order of their tokens, one after the other from token 0
 * @param tokens M
 * @param capacity blocks in the table; those to spare are empty
 * @returns [capacity] of (first token of the row, one past its last, first token, last token)
 */
export function attendBlocks(
  rows: { start: number; length: number }[],
  tokens: number,
  capacity = attendBlockCapacity(rows.length, tokens),
): Uint32Array {
  const blocks: number[][] = []
  let end = 0
  for (const { start, length } of rows) {
    end = start + length
    for (let first = start; first < end; first += ATTEND_BLOCK)
      blocks.push([start, end, first, Math.min(first + ATTEND_BLOCK, end) - 1])
  }
  blocks.sort((a, b) => b[2] - b[0] - (a[2] - a[0]))
  for (let first = end; first < tokens; first += ATTEND_BLOCK)
    blocks.push([first, first, first, Math.min(first + ATTEND_BLOCK, tokens) - 1])
  if (blocks.length > capacity)
    throw new Error(
      `Dividing ${rows.length} rows of ${tokens} tokens into blocks of attention: they are ${blocks.length}, more than the ` +
        `table's ${capacity}. Take a table of attendBlockCapacity(rows, tokens).`,
    )
  while (blocks.length < capacity) blocks.push([0, 0, 1, 0])
  return Uint32Array.from(blocks.flat())
}
