// Watches a stream of server-sent events as it passes: lets only whole events through, so that a cut never leaves half of
// one, and notices how it ends and what it says of tokens. Changes no byte.

export interface Tokens {
  prompt: number
  completion: number
}

const LF = 0x0a
const CR = 0x0d
/** An event longer than this is passed on in pieces. */
const LONGEST_HELD = 1024 * 1024
const DONE = /(^|\n)data: ?\[DONE\]\s*$/
const USAGE = Buffer.from('"usage":')
const FINISHED = ['"finish_reason":"', '"finish_reason": "'].map((text) => Buffer.from(text))

export class EventWatch {
  /** Whether a choice has said why it ended. */
  finished = false
  #count = 0
  #held: Buffer[] = []
  #heldBytes = 0
  #last: Buffer | null = null
  #usage: Buffer | null = null

  /** What may be passed on now, null when no event is whole yet. */
  push(chunk: Buffer): Buffer | null {
    let piece = chunk
    if (this.#heldBytes > 0) {
      this.#held.push(chunk)
      this.#heldBytes += chunk.length
      // The blank line may be split between two chunks.
      piece = Buffer.concat(this.#held)
    }
    const end = this.#heldBytes > LONGEST_HELD ? piece.length : endOfEvents(piece)
    this.#held = end < piece.length ? [piece.subarray(end)] : []
    this.#heldBytes = piece.length - end
    if (end === 0) return null
    const whole = end === piece.length ? piece : piece.subarray(0, end)
    this.#note(whole)
    return whole
  }

  /** What is left when the node has ended: a last event without its blank line. */
  rest(): Buffer | null {
    if (!this.#heldBytes) return null
    const rest = Buffer.concat(this.#held)
    if (!DONE.test(rest.toString('latin1'))) return null
    this.#note(rest)
    return rest
  }

  /** Whether the last event was [DONE]. */
  get done(): boolean {
    const last = this.#last
    return last !== null && DONE.test(last.toString('latin1', Math.max(0, last.length - 64)))
  }

  /** Events that passed, [DONE] aside. */
  get words(): number {
    return this.#count - (this.done ? 1 : 0)
  }

  /** As the node told them in the stream, null when it did not. */
  get tokens(): Tokens | null {
    return this.#usage && tokensOf(this.#usage)
  }

  #note(piece: Buffer) {
    this.#last = piece
    for (let at = endOfEvent(piece, 0); at > 0; at = endOfEvent(piece, at)) this.#count++
    if (piece.includes(USAGE)) this.#usage = piece
    if (!this.finished) this.finished = FINISHED.some((text) => piece.includes(text))
  }
}

/** The position after the last blank line, 0 when there is none. */
function endOfEvents(bytes: Buffer): number {
  for (let at = bytes.length; at > 1; ) {
    at = bytes.lastIndexOf(LF, at - 1)
    if (at < 1) return 0
    if (bytes[at - 1] === LF || (bytes[at - 1] === CR && bytes[at - 2] === LF)) return at + 1
  }
  return 0
}

/** The position after the next blank line from `start`, 0 when there is none. */
function endOfEvent(bytes: Buffer, start: number): number {
  for (let at = start; ; ) {
    at = bytes.indexOf(LF, at)
    if (at < 0) return 0
    if (bytes[at + 1] === LF) return at + 2
    if (bytes[at + 1] === CR && bytes[at + 2] === LF) return at + 3
    at++
  }
}

const ERRORS = ['data: {"error"', 'data: {"object":"error"'].map((text) => Buffer.from(text))

/**
 * The error among whole events, as vLLM sends one when its engine fails; null when there is none. In a model's words the
 * same would have its quotes escaped.
 */
export function errorOf(events: Buffer): { message: string; code: number | null } | null {
  const at = Math.max(...ERRORS.map((text) => events.indexOf(text)))
  if (at < 0) return null
  const end = events.indexOf(LF, at)
  try {
    const value = JSON.parse(events.toString('utf8', at + 'data: '.length, end < 0 ? events.length : end))
    const error = value.error ?? value
    const code = Number(error.code)
    const message = typeof error === 'string' ? error : String(error.message ?? '')
    return { message, code: Number.isInteger(code) ? code : null }
  } catch {
    return null
  }
}

/** The last `usage` in an answer's bytes. A text that contains the word has its quotes escaped, so it is not mistaken. */
export function tokensOf(bytes: Buffer): Tokens | null {
  const at = bytes.lastIndexOf(USAGE)
  if (at < 0) return null
  const start = bytes.indexOf(0x7b, at)
  if (start < 0 || bytes.toString('latin1', at + USAGE.length, start).trim() !== '') return null
  let depth = 0
  for (let i = start; i < bytes.length; i++) {
    if (bytes[i] === 0x7b) depth++
    else if (bytes[i] === 0x7d && --depth === 0) {
      try {
        const { prompt_tokens, completion_tokens } = JSON.parse(bytes.toString('utf8', start, i + 1))
        return { prompt: whole(prompt_tokens), completion: whole(completion_tokens) }
      } catch {
        return null
      }
    }
  }
  return null
}

const whole = (value: unknown) => (Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : 0)
