// The known name that a mistyped one was most likely meant to be. Knows no key by name.

/** Insertions, deletions, replacements and swaps of neighbours that turn one text into the other. */
export function editDistance(a: string, b: string): number {
  let before: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1)
      next[j] = Math.min(replaced, row[j] + 1, next[j - 1] + 1)
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (swapped) next[j] = Math.min(next[j], before[j - 2] + 1)
    }
    before = row
    row = next
  }
  return row[b.length]
}

/** null when nothing is near: more than a third of the letters would have to change, and more than one. */
export function nearest(name: string, known: Iterable<string>): string | null {
  const plain = (text: string) => text.toLowerCase().replaceAll('-', '_')
  let best: string | null = null
  let least = Math.max(1, Math.floor(name.length / 3)) + 1
  for (const candidate of known) {
    const distance = editDistance(plain(name), plain(candidate))
    if (distance < least) {
      best = candidate
      least = distance
    }
  }
  return best
}
