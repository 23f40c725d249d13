// Takes the values of secrets out of what a run writes: its log, its events. A program may print what it was given.

const MARK = '[secret]'
/** Shorter values would blot out ordinary words. */
const SHORTEST = 6

export interface Redactor {
  /** A whole text, or a whole JSON document. */
  text(text: string): string
  /** A part of a stream; what may be the beginning of a secret is held back until the next part. */
  part(bytes: Uint8Array): Uint8Array
  /** What was held back. */
  end(): Uint8Array
}

export function redactor(variables: Record<string, string>): Redactor {
  const values = Object.values(variables).flatMap((value) => [value, ...value.split(/\r?\n/)])
  const needles = [...new Set(values.flatMap((value) => [value, JSON.stringify(value).slice(1, -1)]))]
    .filter(({ length }) => length >= SHORTEST)
    .sort((a, b) => b.length - a.length)
  const whole = new Search(needles)
  // Latin-1 keeps bytes one to one, so a stream can be cut anywhere.
  const bytewise = new Search(needles.map((needle) => Buffer.from(needle).toString('latin1')))
  let held = ''
  return {
    text: (text) => whole.replace(text, true).done,
    part(bytes) {
      const { done, rest } = bytewise.replace(held + Buffer.from(bytes).toString('latin1'), false)
      held = rest
      return Buffer.from(done, 'latin1')
    },
    end() {
      const { done } = bytewise.replace(held, true)
      held = ''
      return Buffer.from(done, 'latin1')
    },
  }
}

/** Replaces the leftmost, then longest needle, again and again. */
class Search {
  readonly #pattern: RegExp | null
  readonly #longest: number

  constructor(private readonly needles: readonly string[]) {
    const escaped = needles.map((needle) => needle.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&'))
    this.#pattern = needles.length > 0 ? new RegExp(escaped.join('|'), 'g') : null
    this.#longest = needles[0]?.length ?? 0
  }

  /** `rest`, from where a needle may have begun, is empty when the text is known to have ended. */
  replace(text: string, ended: boolean): { done: string; rest: string } {
    if (!this.#pattern) return { done: text, rest: '' }
    let done = ''
    for (let at = 0; ; ) {
      const begun = ended ? text.length : this.#begun(text, at)
      this.#pattern.lastIndex = at
      const match = this.#pattern.exec(text)
      if (!match || match.index >= begun) return { done: done + text.slice(at, begun), rest: text.slice(begun) }
      done += text.slice(at, match.index) + MARK
      at = match.index + match[0].length
    }
  }

  /** The first place from which the rest of a text is the beginning of a needle; its length where there is none. */
  #begun(text: string, from: number): number {
    for (let at = Math.max(from, text.length - this.#longest + 1); at < text.length; at++) {
      const rest = text.slice(at)
      if (this.needles.some((needle) => needle.length > rest.length && needle.startsWith(rest))) return at
    }
    return text.length
  }
}
