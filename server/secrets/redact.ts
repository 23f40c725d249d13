// Takes the values of secrets out of what a run writes: its log, its events. A program may print what it was given.

const MARK = '[secret]'
/** Shorter values would blot out ordinary words. */
const SHORTEST = 6
const STAR = 42

export interface Redactor {
  /** A whole text. */
  text(text: string): string
  /** A whole JSON document, which stays one: only its strings and keys are looked into. */
  json(text: string): string
  /** A part of a stream; what may be the beginning of a secret is held back until the next part. */
  part(bytes: Uint8Array): Uint8Array
  /** What was held back. */
  end(): Uint8Array
  /**
   * Bytes of a file that others write: every byte of a value becomes `*`, so that what follows stays at its offset. From
   * `whole` on, what is there may be the beginning of a value.
   */
  mask(bytes: Uint8Array): { bytes: Buffer; whole: number }
  /** Bytes of the longest value: so much before and behind a part of a file decides about the part. */
  readonly longest: number
}

export function redactor(variables: Record<string, string>): Redactor {
  const values = Object.values(variables).flatMap((value) => [value, ...value.split(/\r?\n/)])
  const needles = [...new Set(values.flatMap((value) => [value, ...asJson(value)]))]
    .filter(({ length }) => length >= SHORTEST)
    .sort((a, b) => b.length - a.length)
  const whole = new Search(needles)
  // Latin-1 keeps bytes one to one, so a stream can be cut anywhere.
  const bytewise = new Search(needles.map(latin).sort((a, b) => b.length - a.length))
  let held = ''
  return {
    longest: bytewise.longest,
    text: (text) => whole.replace(text, true).done,
    json: (text) => (needles.length === 0 ? text : text.replace(JSON_STRING, (each) => redactedString(each, whole))),
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
    mask(bytes) {
      const text = Buffer.from(bytes).toString('latin1')
      const masked = Buffer.from(bytes)
      for (const { at, length } of bytewise.all(text)) masked.fill(STAR, at, at + length)
      return { bytes: masked, whole: bytewise.begun(text, 0) }
    },
  }
}

const latin = (text: string): string => Buffer.from(text).toString('latin1')

/** As it stands in JSON, also in that of writers which keep to ASCII. */
function asJson(value: string): string[] {
  const inside = JSON.stringify(value).slice(1, -1)
  return [inside, inside.replace(/[^\0-\x7f]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`)]
}

const JSON_STRING = /"(?:[^"\\]|\\.)*"/g

function redactedString(string: string, search: Search): string {
  const text = JSON.parse(string) as string
  const done = search.replace(text, true).done
  return done === text ? string : JSON.stringify(done)
}

/** Looks for the leftmost, then longest needle, again and again. */
class Search {
  readonly #pattern: RegExp | null
  readonly longest: number

  /** The longest first. */
  constructor(private readonly needles: readonly string[]) {
    const escaped = needles.map((needle) => needle.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&'))
    this.#pattern = needles.length > 0 ? new RegExp(escaped.join('|'), 'g') : null
    this.longest = needles[0]?.length ?? 0
  }

  /** `rest`, from where a needle may have begun, is empty when the text is known to have ended. */
  replace(text: string, ended: boolean): { done: string; rest: string } {
    if (!this.#pattern) return { done: text, rest: '' }
    let done = ''
    for (let at = 0; ; ) {
      const begun = ended ? text.length : this.begun(text, at)
      this.#pattern.lastIndex = at
      const match = this.#pattern.exec(text)
      if (!match || match.index >= begun) return { done: done + text.slice(at, begun), rest: text.slice(begun) }
      done += text.slice(at, match.index) + MARK
      at = match.index + match[0].length
    }
  }

  /** Every place of every needle, also within others: which they are does not depend on where the text was cut. */
  *all(text: string): Generator<{ at: number; length: number }> {
    for (const needle of this.needles)
      for (let at = text.indexOf(needle); at >= 0; at = text.indexOf(needle, at + 1))
        yield { at, length: needle.length }
  }

  /** The first place from which the rest of a text is the beginning of a needle; its length where there is none. */
  begun(text: string, from: number): number {
    for (let at = Math.max(from, text.length - this.longest + 1); at < text.length; at++) {
      const rest = text.slice(at)
      if (this.needles.some((needle) => needle.length > rest.length && needle.startsWith(rest))) return at
    }
    return text.length
  }
}
