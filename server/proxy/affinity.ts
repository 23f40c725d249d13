// Which node has seen a session or the beginning of a prompt before, so that its prefix cache is used again. Keeps hashes
// and node names, never text.

const MOST_PIECES = 32

/** FNV-1a over bytes, from a seed. */
export function hash(bytes: Uint8Array, seed = 0x811c9dc5, start = 0, end = bytes.length): number {
  let h = seed
  for (let i = start; i < end; i++) h = Math.imul(h ^ bytes[i], 0x01000193)
  return h >>> 0
}

const hashText = (text: string, seed?: number) => hash(Buffer.from(text), seed)

/** The node of a session: the highest hash of session and name (rendezvous), so that a lost node moves only its own. */
export function nodeOfSession(session: string, names: readonly string[]): string | undefined {
  let best: string | undefined
  let highest = -1
  for (const name of names) {
    const weight = avalanche(hashText(`${session}\n${name}`))
    if (weight > highest) [best, highest] = [name, weight]
  }
  return best
}

/** FNV's high bits hardly depend on the last characters; murmur3's finish spreads them. */
function avalanche(h: number): number {
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

export class Prefixes {
  #seen = new Map<number, string>()

  constructor(private config: { piece_bytes: number; pieces: number }) {}

  configure(config: { piece_bytes: number; pieces: number }) {
    this.config = config
  }

  /** One hash for each whole piece of the prompt, of all up to its end. */
  piecesOf(model: string, prompt: Uint8Array): number[] {
    const { piece_bytes: size } = this.config
    const whole = Math.min(Math.floor(prompt.length / size), MOST_PIECES)
    if (whole === 0) return []
    const pieces: number[] = []
    let h = hashText(model)
    for (let i = 0; i < whole; i++) {
      h = hash(prompt, h, i * size, (i + 1) * size)
      pieces.push(h)
    }
    return pieces
  }

  /** The node that saw the longest beginning. */
  nodeOf(pieces: readonly number[]): string | undefined {
    for (let i = pieces.length - 1; i >= 0; i--) {
      const node = this.#seen.get(pieces[i])
      if (node !== undefined) return node
    }
    return undefined
  }

  remember(pieces: readonly number[], node: string) {
    for (const piece of pieces) {
      this.#seen.delete(piece)
      this.#seen.set(piece, node)
    }
    while (this.#seen.size > this.config.pieces) this.#seen.delete(this.#seen.keys().next().value!)
  }

  forget(node: string) {
    for (const [piece, name] of this.#seen) if (name === node) this.#seen.delete(piece)
  }
}
