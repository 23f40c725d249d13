// Python's difflib in TypeScript: SequenceMatcher(None, a, b).ratio() with autojunk, over code points. The arguments'
// order matters, as it does there. Ratcliff and Obershelp's gestalt matching, not a longest common subsequence.

/** Below this length of `b` no element is too popular to start a match. */
const AUTOJUNK_LENGTH = 200

/**
 * ratio = 2·M / (|a| + |b|), in [0, 1]; 1 when both are empty. M sums the lengths of the matching blocks: the longest
 * common run, then the same to its left and to its right.
 */
export function ratio(a: string, b: string): number {
  const left = Array.from(a)
  const right = Array.from(b)
  const length = left.length + right.length
  return length === 0 ? 1 : (2 * matchingSize(left, right)) / length
}

/** M for two sequences of any elements that a Map can tell apart. */
export function matchingSize<T>(a: readonly T[], b: readonly T[]): number {
  const matcher = new Matcher(a, b)
  let total = 0
  const open: [number, number, number, number][] = [[0, a.length, 0, b.length]]
  for (let range = open.pop(); range !== undefined; range = open.pop()) {
    const [aLow, aHigh, bLow, bHigh] = range
    const [i, j, size] = matcher.longestMatch(aLow, aHigh, bLow, bHigh)
    if (size === 0) continue
    total += size
    if (aLow < i && bLow < j) open.push([aLow, i, bLow, j])
    if (i + size < aHigh && j + size < bHigh) open.push([i + size, aHigh, j + size, bHigh])
  }
  return total
}

/** The known word nearest to `word`, or null where none is near (difflib.get_close_matches with its cutoff of 0.6). */
export function nearest(word: string, known: Iterable<string>): string | null {
  let best: string | null = null
  let bestRatio = 0.6
  for (const candidate of known) {
    const similarity = ratio(candidate, word)
    if (similarity > bestRatio || (similarity === bestRatio && best === null)) {
      best = candidate
      bestRatio = similarity
    }
  }
  return best
}

class Matcher<T> {
  readonly #a: readonly T[]
  readonly #b: readonly T[]
  /** For each index of `a`, where its element stands in `b`, ascending; empty where it may not start a match. */
  readonly #places: Int32Array[]
  // The run that ends at b[j] has length #run[j] if #row[j] is the row asked for; stamps make clearing needless.
  readonly #run: Int32Array
  readonly #row: Int32Array
  #rows = 0

  constructor(a: readonly T[], b: readonly T[]) {
    this.#a = a
    this.#b = b
    const places = new Map<T, number[]>()
    b.forEach((element, j) => {
      const known = places.get(element)
      if (known) known.push(j)
      else places.set(element, [j])
    })
    const popular = b.length >= AUTOJUNK_LENGTH ? Math.floor(b.length / 100) + 1 : Infinity
    const none = new Int32Array(0)
    const usable = new Map<T, Int32Array>()
    for (const [element, js] of places) usable.set(element, js.length > popular ? none : Int32Array.from(js))
    this.#places = a.map((element) => usable.get(element) ?? none)
    this.#run = new Int32Array(b.length)
    this.#row = new Int32Array(b.length)
  }

  /** The longest common run of a[aLow … aHigh) and b[bLow … bHigh): earliest in a, then earliest in b. */
  longestMatch(aLow: number, aHigh: number, bLow: number, bHigh: number): [number, number, number] {
    let bestI = aLow
    let bestJ = bLow
    let bestSize = 0
    let bestRow = -1
    this.#rows++ // an unused row: nothing continues from an earlier call
    for (let i = aLow; i < aHigh; i++) {
      const row = ++this.#rows
      const places = this.#places[i]
      // From right to left, so that #run[j − 1] still belongs to row − 1 when it is read.
      for (let at = lowerBound(places, bHigh) - 1; at >= 0; at--) {
        const j = places[at]
        if (j < bLow) break
        const size = j > bLow && this.#row[j - 1] === row - 1 ? this.#run[j - 1] + 1 : 1
        this.#run[j] = size
        this.#row[j] = row
        // Equal sizes in one row: the smaller j wins; across rows: the earlier row.
        if (size > bestSize || (size === bestSize && row === bestRow)) {
          bestI = i - size + 1
          bestJ = j - size + 1
          bestSize = size
          bestRow = row
        }
      }
    }
    // Popular elements start no match, but they lengthen one.
    while (bestI > aLow && bestJ > bLow && this.#a[bestI - 1] === this.#b[bestJ - 1]) {
      bestI--
      bestJ--
      bestSize++
    }
    while (
      bestI + bestSize < aHigh &&
      bestJ + bestSize < bHigh &&
      this.#a[bestI + bestSize] === this.#b[bestJ + bestSize]
    )
      bestSize++
    return [bestI, bestJ, bestSize]
  }
}

/** How many of the ascending values are below `limit`. */
function lowerBound(values: Int32Array, limit: number): number {
  let low = 0
  let high = values.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (values[middle] < limit) low = middle + 1
    else high = middle
  }
  return low
}
