// Loops of a kernel's text written out, so that arrays of a thread are indexed by literals and stay in registers.

const FOR = /^\s*\/\/ for (\w+) < (\w+)$/
const END = /^\s*\/\/ end$/

/**
 * Writes out every block between `// for i < SIZE` and `// end`, with `$i` replaced by 0, 1, … SIZE−1.
 * @throws Error when a size is missing or a block is not closed
 */
export function unroll(source: string, sizes: Record<string, number>): string {
  const lines = source.split('\n')
  const expand = (from: number, to: number): string[] => {
    const result: string[] = []
    for (let i = from; i < to; i++) {
      const loop = FOR.exec(lines[i])
      if (!loop) {
        result.push(lines[i])
        continue
      }
      const [, variable, size] = loop
      if (!(size in sizes)) throw new Error(`internal: a kernel unrolls to ${size}, which is not among its sizes.`)
      const close = closing(lines, i, to)
      const body = expand(i + 1, close)
      for (let n = 0; n < sizes[size]; n++) {
        for (const line of body) result.push(line.replace(new RegExp(`\\$${variable}\\b`, 'g'), `${n}u`))
      }
      i = close
    }
    return result
  }
  return expand(0, lines.length).join('\n')
}

function closing(lines: string[], open: number, to: number): number {
  let depth = 0
  for (let i = open; i < to; i++) {
    if (FOR.test(lines[i])) depth++
    else if (END.test(lines[i]) && --depth === 0) return i
  }
  throw new Error(`internal: "${lines[open].trim()}" of a kernel has no "// end".`)
}
