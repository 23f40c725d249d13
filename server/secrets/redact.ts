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
  // Latin-1 keeps bytes one to one, so a stream can be cut anywhere.
  const inBytes = needles.map((needle) => Buffer.from(needle).toString('latin1'))
  let held = ''

  const replace = (text: string, list: readonly string[]) =>
    list.reduce((done, needle) => done.replaceAll(needle, MARK), text)
  return {
    text: (text) => replace(text, needles),
    part(bytes) {
      const text = replace(held + Buffer.from(bytes).toString('latin1'), inBytes)
      const keep = longestBeginning(text, inBytes)
      held = text.slice(text.length - keep)
      return Buffer.from(text.slice(0, text.length - keep), 'latin1')
    },
    end() {
      const rest = Buffer.from(held, 'latin1')
      held = ''
      return rest
    },
  }
}

/** How much of the end of a text may be the beginning of a needle. */
function longestBeginning(text: string, needles: readonly string[]): number {
  let longest = 0
  for (const needle of needles) {
    for (let length = Math.min(needle.length - 1, text.length); length > longest; length--) {
      if (needle.startsWith(text.slice(text.length - length))) longest = length
    }
  }
  return longest
}
