// Changes one key of a TOML text and leaves the rest as its author wrote it, comments included. Knows no key by name.
//
// Each edit is read back: where the text cannot be changed in place (inline tables, dotted keys), it is written anew.

import { stringify } from 'smol-toml'
import { equal } from './difference.ts'
import { deleteAt, formatPath, getAt, isTable, type Path, setAt, type Table } from './path.ts'
import { readSource, type Source } from './source.ts'

/** The text with the value at the path; null is written "None", as prime-rl does. The text must be valid TOML. */
export function withValue(text: string, path: Path, value: unknown): string {
  const source = readSource(text, 'toml')
  const written = value === null ? 'None' : value
  const wanted = structuredClone(source.value)
  setAt(wanted, path, written)
  return checked(replaced(text, source, path, written) ?? inserted(text, source, path, written), wanted)
}

/** The text without the key at the path; the same text where there is none. The text must be valid TOML. */
export function withoutKey(text: string, path: Path): string {
  const source = readSource(text, 'toml')
  if (getAt(source.value, path) === undefined) return text
  const wanted = structuredClone(source.value)
  deleteAt(wanted, path)
  return checked(removed(text, source, path), wanted)
}

function checked(text: string | null, wanted: Table): string {
  try {
    if (text !== null && equal(readSource(text, 'toml').value, wanted)) return text
  } catch {
    // The edit broke the text; it is written anew below.
  }
  return stringify(wanted)
}

function replaced(text: string, source: Source, path: Path, value: unknown): string | null {
  const position = source.position(path)
  if (!position || isHeader(text, position.value)) return null
  return text.slice(0, position.value) + literal(value) + text.slice(position.end)
}

function inserted(text: string, source: Source, path: Path, value: unknown): string | null {
  const key = path[path.length - 1]
  if (typeof key === 'number') return null
  const table = path.slice(0, -1)
  const line = `${formatPath([key])} = ${literal(value)}`
  const after = endOfTable(text, source, table)
  if (after !== null) return insertLine(text, after, line)
  if (table.some((part) => typeof part === 'number') && !lastOfItsList(source, table)) return null
  const header = formatPath(table.filter((part) => typeof part === 'string'))
  return `${text.trimEnd()}\n\n[${header}]\n${line}\n`
}

function removed(text: string, source: Source, path: Path): string | null {
  const position = source.position(path)
  if (!position || isHeader(text, position.value)) return null
  const start = text.lastIndexOf('\n', position.key) + 1
  if (text.slice(start, position.key).trim() !== '') return null
  const end = text.indexOf('\n', position.end)
  return text.slice(0, start) + (end < 0 ? '' : text.slice(end + 1))
}

/** The offset behind the last key that stands directly in the table, or behind its header; null where it has none. */
function endOfTable(text: string, source: Source, table: Path): number | null {
  const content = table.length === 0 ? source.value : getAt(source.value, table)
  if (!isTable(content)) return null
  const header = table.length === 0 ? null : source.position(table)
  if (header && !isHeaderOf(text, header.value, table)) return null
  if (table.length > 0 && !header) return null
  const ends = Object.keys(content)
    .map((key) => source.position([...table, key]))
    .filter((position) => position !== null && !isHeader(text, position.value))
    .map((position) => position!.end)
  if (ends.length > 0) return Math.max(...ends)
  if (header) return header.end
  // No key stands before the first table: the opening comments stay on top.
  const first = text.search(/^[^\S\n]*\[/m)
  return first < 0 ? text.length : Math.max(0, first - 1)
}

function insertLine(text: string, after: number, line: string): string {
  const found = text.indexOf('\n', after)
  const end = found < 0 ? text.length : found
  return `${text.slice(0, end)}\n${line}${found < 0 ? '\n' : ''}${text.slice(end)}`
}

/** A header, not the value of an assignment that happens to be a list. */
function isHeader(text: string, offset: number): boolean {
  return text[offset] === '[' && text.slice(text.lastIndexOf('\n', offset - 1) + 1, offset).trim() === ''
}

function isHeaderOf(text: string, offset: number, table: Path): boolean {
  if (!isHeader(text, offset)) return false
  const names = table.filter((part) => typeof part === 'string')
  const written = text.slice(offset).match(/^\[+([^\]\n]*)\]/)?.[1] ?? ''
  return written.replace(/\s/g, '') === formatPath(names)
}

function lastOfItsList(source: Source, table: Path): boolean {
  return table.every((part, i) => {
    const list = getAt(source.value, table.slice(0, i))
    return typeof part !== 'number' || (Array.isArray(list) && part === list.length - 1)
  })
}

/** TOML of a value inside a line. */
function literal(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`
  if (isTable(value)) {
    const entries = Object.entries(value).map(([key, inner]) => `${formatPath([key])} = ${literal(inner)}`)
    return entries.length ? `{ ${entries.join(', ')} }` : '{}'
  }
  if (typeof value === 'number') return shortNumber(value)
  return stringify({ value })
    .trim()
    .replace(/^value = /, '')
}

/** 0.0001 and 1e-7 as people write them; a whole number without a point. */
function shortNumber(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value)
  if (value !== 0 && Math.abs(value) < 1e-3) return value.toExponential().replace('e+', 'e')
  return String(value)
}
