// A table for the terminal. Control characters cannot leave it: what stands in a row may be anybody's text.

const CONTROL = /\p{Cc}/gu

/** Rows below their headings, as wide as their longest cell; ends with a newline. */
export function columns(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [headings, ...rows].map((row) => row.map((cell) => cell.replace(CONTROL, '�')))
  const widths = headings.map((_, at) => Math.max(...all.map((row) => row[at].length)))
  return all
    .map(
      (row) =>
        `${row
          .map((cell, at) => cell.padEnd(widths[at]))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('')
}
