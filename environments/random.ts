// A small seeded stream for data generators and for environments that roll dice. A stream is named, never handed on:
// the same names give the same numbers, whatever was drawn elsewhere. It knows nothing of the policy's noise.
//
// The generator is sfc32 (Doty-Humphrey, PractRand), its four words seeded by a hash of the names.

export type StreamName = string | number

export class RandomStream {
  readonly #names: StreamName[]
  readonly #words: Uint32Array

  constructor(...names: StreamName[]) {
    this.#names = names
    const text = JSON.stringify(names)
    // The last word counts up, so that a stream cannot fall into a short cycle.
    this.#words = Uint32Array.of(hash32(text, 1), hash32(text, 2), hash32(text, 3), 1)
    for (let round = 0; round < 12; round++) this.#word()
  }

  /** A stream of its own under this one's name; it neither reads nor moves this stream. */
  fork(...names: StreamName[]): RandomStream {
    return new RandomStream(...this.#names, ...names)
  }

  /** Uniform in [0, 1) with 32 random bits. */
  next(): number {
    return this.#word() / 4294967296
  }

  /** Uniform integer in [0, n), n ≤ 2³². */
  integer(n: number): number {
    return Math.floor(this.next() * n)
  }

  /** Uniform integer in [low, high], both included. */
  between(low: number, high: number): number {
    return low + this.integer(high - low + 1)
  }

  choice<T>(items: ArrayLike<T>): T {
    return items[this.integer(items.length)]
  }

  /** A shuffled copy (Fisher and Yates). */
  shuffled<T>(items: Iterable<T>): T[] {
    const copy = [...items]
    for (let i = copy.length - 1; i > 0; i--) {
      const j = this.integer(i + 1)
      ;[copy[i], copy[j]] = [copy[j], copy[i]]
    }
    return copy
  }

  #word(): number {
    const [a, b, c, count] = this.#words
    const sum = (a + b + count) | 0
    this.#words[3] = count + 1
    this.#words[0] = b ^ (b >>> 9)
    this.#words[1] = c + (c << 3)
    this.#words[2] = ((c << 21) | (c >>> 11)) + sum
    return sum >>> 0
  }
}

/** 32 bits out of a text: FNV-1a over its UTF-16 units, then the finisher of MurmurHash3. */
export function hash32(text: string, seed = 0): number {
  let value = 0x811c9dc5 ^ Math.imul(seed, 0x9e3779b1)
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193)
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35)
  return (value ^ (value >>> 16)) >>> 0
}
