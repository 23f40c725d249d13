// Randomness that depends on names and counters alone, never on an order of arrival. Noise for sampling is one 32-bit
// uniform per (seed, purpose, task, attempt, position); streams are for everything drawn in sequence.
//
// The generator is Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011):
// additions, rotations and exclusive ors of 32-bit words, so that WGSL computes the same words.

const ROTATIONS = [13, 15, 26, 6, 17, 29, 16, 24]
const PARITY = 0x1bd11bda

/** Two 32-bit words out of a key of two words and a counter of two words, all unsigned. */
export function threefry(key0: number, key1: number, counter0: number, counter1: number): [number, number] {
  const keys = [key0 | 0, key1 | 0, PARITY ^ key0 ^ key1]
  let x0 = (counter0 + keys[0]) | 0
  let x1 = (counter1 + keys[1]) | 0
  for (let round = 0; round < 20; round++) {
    const rotation = ROTATIONS[round % 8]
    x0 = (x0 + x1) | 0
    x1 = (x1 << rotation) | (x1 >>> (32 - rotation))
    x1 ^= x0
    if (round % 4 === 3) {
      const injection = (round + 1) / 4
      x0 = (x0 + keys[injection % 3]) | 0
      x1 = (x1 + keys[(injection + 1) % 3] + injection) | 0
    }
  }
  return [x0 >>> 0, x1 >>> 0]
}

/** Names one sequence's noise; a position within it names one uniform. */
export interface NoiseKey {
  key0: number
  key1: number
}

const PURPOSES = { train: 1, eval: 2 } as const
export type Purpose = keyof typeof PURPOSES

/** `task` is the task's position in its split, `attempt` the rollout's number in its group. */
export function noiseKey(seed: number, purpose: Purpose, task: number, attempt: number): NoiseKey {
  const [seed0, seed1] = threefry(seed, PURPOSES[purpose], 0x6e6f6973, 0x65)
  const [key0, key1] = threefry(seed0, seed1, task, attempt)
  return { key0, key1 }
}

/** The uniform of one token, in (0, 1): the middle of one of 2³² equal cells. */
export function uniform(key: NoiseKey, position: number): number {
  return (threefry(key.key0, key.key1, position, 0)[0] + 0.5) / 4294967296
}

/** A sequence of random numbers, forked by name: `random.fork('lora', layer)`. */
export class RandomStream {
  #key: [number, number]
  #count = 0

  constructor(seed: number, key: [number, number] = threefry(seed, 0x73747265, 0, 0)) {
    this.#key = key
  }

  fork(...names: (string | number)[]): RandomStream {
    let key = this.#key
    for (const name of names) key = threefry(key[0], key[1], typeof name === 'number' ? name : hash(name), 0x666f726b)
    return new RandomStream(0, key)
  }

  /** Uniform in [0, 1) with 32 random bits. */
  next(): number {
    return threefry(this.#key[0], this.#key[1], this.#count++, 0)[0] / 4294967296
  }

  /** Uniform integer in [0, n). */
  integer(n: number): number {
    return Math.floor(this.next() * n)
  }

  /** Standard normal (Box and Muller 1958). */
  normal(): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.next()))
    return radius * Math.cos(2 * Math.PI * this.next())
  }
}

// FNV-1a, 32 bits.
function hash(text: string): number {
  let value = 0x811c9dc5
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193)
  return value >>> 0
}
