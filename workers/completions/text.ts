// Tokens in, text out, while an answer is being decoded: nothing is given out that a later token could change. Half a
// character waits for its other half, and what may become a stop text waits until it is one or is not.

const BROKEN = '�'

export class TextStream {
  #decode: (ids: number[]) => string
  #stops: string[]
  #keepStop: boolean
  #ids: number[] = []
  /** Tokens from `#from` on are decoded together; those before `#read` have been given out. */
  #from = 0
  #read = 0
  #held = ''
  #stop: string | null = null

  constructor(decode: (ids: number[]) => string, { stops = [] as string[], keepStop = false } = {}) {
    this.#decode = decode
    this.#stops = stops.filter((stop) => stop !== '')
    this.#keepStop = keepStop
  }

  /** The text that ended the answer; null while none has. */
  get stop(): string | null {
    return this.#stop
  }

  /** The text that is certain now that this token has come. Nothing more comes after a stop. */
  push(id: number): string {
    if (this.#stop !== null) return ''
    this.#ids.push(id)
    const text = this.#decode(this.#ids.slice(this.#from))
    // The end of a character may still be on its way: wait.
    if (text.endsWith(BROKEN)) return ''
    return this.#pass(this.#advance(text))
  }

  /** Whatever was held back: no token follows. */
  end(): string {
    if (this.#stop !== null) return ''
    const rest = this.#pass(this.#advance(this.#decode(this.#ids.slice(this.#from))))
    if (this.#stop !== null) return rest
    const held = this.#held
    this.#held = ''
    return rest + held
  }

  // A decoder may write a token differently at the beginning of a text, so the last piece is decoded again before the new.
  #advance(text: string): string {
    const known = this.#decode(this.#ids.slice(this.#from, this.#read))
    this.#from = this.#read
    this.#read = this.#ids.length
    return text.slice(known.length)
  }

  #pass(text: string): string {
    if (this.#stops.length === 0) return text
    const open = this.#held + text
    const found = this.#stops
      .map((stop) => ({ stop, at: open.indexOf(stop) }))
      .filter(({ at }) => at >= 0)
      .sort((a, b) => a.at - b.at || b.stop.length - a.stop.length)[0]
    if (found) {
      this.#stop = found.stop
      this.#held = ''
      return open.slice(0, found.at + (this.#keepStop ? found.stop.length : 0))
    }
    const waiting = Math.max(...this.#stops.map((stop) => overlap(open, stop)))
    this.#held = open.slice(open.length - waiting)
    return open.slice(0, open.length - waiting)
  }
}

/** Length of the longest end of `text` that is a beginning of `stop`, but not all of it. */
function overlap(text: string, stop: string): number {
  for (let length = Math.min(text.length, stop.length - 1); length > 0; length--)
    if (text.endsWith(stop.slice(0, length))) return length
  return 0
}
