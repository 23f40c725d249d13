// Where each key and value of a TOML text stands. A scanner for text that is known to be valid: the parser has read it
// before, so only what moves positions is looked at. Gives offsets, never values.

import { formatPath, type Part } from '../path.ts'
import type { Positions } from '../source.ts'

export function tomlPositions(text: string): Positions {
  return new Scanner(text).document()
}

class Scanner {
  private at = 0
  private readonly positions: Positions = new Map()
  /** How many tables each [[list]] has so far. */
  private readonly counts = new Map<string, number>()

  constructor(private readonly text: string) {}

  document(): Positions {
    let table: Part[] = []
    for (this.blank(); this.at < this.text.length; this.blank()) {
      if (this.text[this.at] === '[') table = this.header()
      else this.assignment(table)
    }
    return this.positions
  }

  private header(): Part[] {
    const start = this.at
    const isList = this.text[this.at + 1] === '['
    this.at += isList ? 2 : 1
    const keys = this.keys()
    this.at += isList ? 2 : 1
    // A header's inner keys step into the newest table of any list on the way: [a.b] after [[a]] is a[0].b.
    const path: Part[] = []
    keys.forEach((key, i) => {
      path.push(key.name)
      const list = formatPath(path)
      const last = i === keys.length - 1
      this.note(path, key.start, start, this.at)
      const count = this.counts.get(list)
      if (isList && last) {
        this.counts.set(list, (count ?? 0) + 1)
        path.push(count ?? 0)
        this.note(path, key.start, start, this.at)
      } else if (count !== undefined) path.push(count - 1)
    })
    return path
  }

  private assignment(table: readonly Part[]): void {
    const keys = this.keys()
    this.at++ // =
    this.blank()
    const start = this.at
    const path = [...table]
    const paths = keys.map((key) => {
      path.push(key.name)
      return [...path]
    })
    this.value(path)
    paths.forEach((each, i) => {
      this.note(each, keys[i].start, i === keys.length - 1 ? start : keys[i].start, this.at)
    })
  }

  private keys(): { name: string; start: number }[] {
    const keys: { name: string; start: number }[] = []
    for (;;) {
      this.blank()
      const start = this.at
      const quote = this.text[this.at]
      if (quote === '"' || quote === "'") {
        this.string()
        const raw = this.text.slice(start + 1, this.at - 1)
        keys.push({ name: quote === '"' ? unescaped(raw) : raw, start })
      } else {
        while (/[A-Za-z0-9_-]/.test(this.text[this.at] ?? '')) this.at++
        keys.push({ name: this.text.slice(start, this.at), start })
      }
      this.blank()
      if (this.text[this.at] !== '.') return keys
      this.at++
    }
  }

  private value(path: readonly Part[]): void {
    const first = this.text[this.at]
    if (first === '"' || first === "'") this.string()
    else if (first === '[') this.list(path)
    else if (first === '{') this.inlineTable(path)
    else {
      // Dates may hold a space, so a bare value reaches to what can only follow one.
      while (this.at < this.text.length && !/[,\]}#\n\r]/.test(this.text[this.at])) this.at++
      while (/[ \t]/.test(this.text[this.at - 1])) this.at--
    }
  }

  private list(path: readonly Part[]): void {
    this.at++
    for (let i = 0; ; i++) {
      this.blank()
      if (this.text[this.at] === ']') break
      const start = this.at
      this.value([...path, i])
      this.note([...path, i], start, start, this.at)
      this.blank()
      if (this.text[this.at] === ',') this.at++
    }
    this.at++
  }

  private inlineTable(path: readonly Part[]): void {
    this.at++
    for (;;) {
      this.blank()
      if (this.text[this.at] === '}') break
      this.assignment(path)
      this.blank()
      if (this.text[this.at] === ',') this.at++
    }
    this.at++
  }

  private string(): void {
    const quote = this.text[this.at]
    const long = this.text.startsWith(quote.repeat(3), this.at)
    this.at += long ? 3 : 1
    const close = long ? quote.repeat(3) : quote
    while (!this.text.startsWith(close, this.at)) this.at += quote === '"' && this.text[this.at] === '\\' ? 2 : 1
    this.at += close.length
    // A long string may end with one or two quotes of its own before the closing three.
    while (long && this.text[this.at] === quote) this.at++
  }

  private blank(): void {
    for (; this.at < this.text.length; this.at++) {
      if (this.text[this.at] === '#') {
        const end = this.text.indexOf('\n', this.at)
        this.at = end < 0 ? this.text.length : end
      }
      if (!/\s/.test(this.text[this.at] ?? ' ')) return
    }
  }

  private note(path: readonly Part[], key: number, value: number, end: number): void {
    const name = formatPath(path)
    if (!this.positions.has(name)) this.positions.set(name, { key, value, end })
  }
}

function unescaped(raw: string): string {
  const plain = raw
    .replace(/\\U([0-9a-fA-F]{8})/g, (_, hex: string) => String.fromCodePoint(Number.parseInt(hex, 16)))
    .replace(/\\e/g, '\\u001b')
    .replace(/\\x([0-9a-fA-F]{2})/g, '\\u00$1')
  return JSON.parse(`"${plain.replace(/\t/g, '\\t')}"`) as string
}
