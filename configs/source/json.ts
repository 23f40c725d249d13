// Reads JSON and remembers where each key and value stands, which JSON.parse does not tell. Strings and numbers are left
// to JSON.parse.

import { formatPath, type Part, setAt, type Table } from '../path.ts'
import { type Positions, SourceError } from '../source.ts'

/** Throws SourceError. The outermost value must be an object. */
export function jsonSource(text: string): { value: Table; positions: Positions } {
  const reader = new Reader(text)
  return { value: reader.document(), positions: reader.positions }
}

const TOKEN = /"(?:[^"\\\n]|\\.)*"|-?\d[\d.eE+-]*|true|false|null/y

class Reader {
  readonly positions: Positions = new Map()
  private at = 0

  constructor(private readonly text: string) {}

  document(): Table {
    this.blank()
    if (this.text[this.at] !== '{') this.fail('a config in JSON is one object, { … }')
    const value = this.object([])
    this.blank()
    if (this.at < this.text.length) this.fail('nothing may follow the closing brace')
    return value
  }

  private value(path: readonly Part[]): unknown {
    if (this.text[this.at] === '{') return this.object(path)
    if (this.text[this.at] === '[') return this.list(path)
    return this.scalar()
  }

  private object(path: readonly Part[]): Table {
    const value: Table = {}
    this.at++
    for (let first = true; !this.closes('}', first); first = false) {
      const key = this.at
      const name = this.text[key] === '"' ? this.scalar() : undefined
      if (typeof name !== 'string') this.fail('a key in double quotes is expected here')
      if (Object.hasOwn(value, name)) this.fail(`the key ${JSON.stringify(name)} is given twice in one object`, key)
      this.blank()
      if (this.text[this.at] !== ':') this.fail('a colon is expected after the key')
      this.at++
      this.blank()
      this.entry([...path, name], key, value, name)
    }
    return value
  }

  private list(path: readonly Part[]): unknown[] {
    const value: unknown[] = []
    this.at++
    for (let i = 0; !this.closes(']', i === 0); i++) value.push(this.entry([...path, i], this.at))
    return value
  }

  private entry(path: readonly Part[], key: number, into?: Table, name?: string): unknown {
    const start = this.at
    const value = this.value(path)
    if (into && name !== undefined) setAt(into, [name], value)
    this.positions.set(formatPath(path), { key, value: start, end: this.at })
    return value
  }

  private closes(bracket: string, first: boolean): boolean {
    this.blank()
    if (this.text[this.at] === bracket) {
      this.at++
      return true
    }
    if (first) return false
    if (this.text[this.at] !== ',') this.fail(`a comma or ${bracket} is expected here`)
    this.at++
    this.blank()
    if (this.text[this.at] === bracket) this.fail('the last entry has no comma after it')
    return false
  }

  private scalar(): unknown {
    TOKEN.lastIndex = this.at
    const token = TOKEN.exec(this.text)?.[0]
    if (token === undefined) this.fail('a value is expected here')
    try {
      const value: unknown = JSON.parse(token)
      this.at += token.length
      return value
    } catch {
      this.fail(`${token} is not JSON`)
    }
  }

  private blank(): void {
    while (/[ \t\r\n]/.test(this.text[this.at] ?? '')) this.at++
  }

  private fail(sentence: string, offset = this.at): never {
    throw new SourceError(sentence, offset)
  }
}
