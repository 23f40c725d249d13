// What a person at a terminal sees: lines that stay, and one below them that is rewritten.

export interface Terminal {
  /** Whole lines. */
  write(line: string): void
  /** What is going on at the moment; replaces what it said before. */
  status?(line: string): void
}

/** Lines on stdout; the status below them, where there is a terminal to rewrite it. */
export function terminal(): Terminal {
  const { stdout, stderr } = process
  if (!stderr.isTTY) return { write: (line) => void stdout.write(`${plain(line)}\n`) }
  let shown = ''
  const show = (line: string) =>
    stderr.write(`\r\x1b[2K${plain(line).slice(0, Math.max(20, (stderr.columns || 80) - 1))}`)
  return {
    write(line) {
      if (shown) show('')
      stdout.write(`${plain(line)}\n`)
      if (shown) show(shown)
    },
    status(line) {
      shown = line
      show(line)
    },
  }
}

/** What comes from a server may be anybody's text: no control character of it reaches the terminal. */
function plain(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]/gu, '\ufffd')
}
