// A config as it was written: its values, and the line and column of every key and value, so that a problem can be shown
// where it stands. Reads TOML and JSON; knows no key by name.

import { parse, TomlError } from 'smol-toml'
import { formatPath, type Path, type Table } from './path.ts'
import { jsonSource } from './source/json.ts'
import { tomlPositions } from './source/toml.ts'

/** Character offsets: where the key begins, and where its value begins and ends. */
export interface Position {
  key: number
  value: number
  end: number
}

/** From formatted path to position. */
export type Positions = Map<string, Position>

/** Counted from 1. */
export interface Place {
  line: number
  column: number
}

export class SourceError extends Error {
  constructor(
    message: string,
    readonly offset: number,
  ) {
    super(message)
  }
}

export interface Source {
  value: Table
  /** The nearest written key or value at or above the path; null for what no text says. */
  place(path: Path, what: 'key' | 'value'): Place | null
  position(path: Path): Position | null
}

export type Format = 'toml' | 'json'

/** Throws SourceError where the text is not of its format. */
export function readSource(text: string, format: Format): Source {
  if (format === 'json') {
    const { value, positions } = jsonSource(text)
    return fromPositions(value, positions, text)
  }
  let value: Table
  try {
    value = parse(text)
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    throw new SourceError(tomlSentence(error.message), offsetOf(text, error.line, error.column))
  }
  return fromPositions(value, tomlPositions(text), text)
}

/** A config that was never text: no place to point at. */
export function unwritten(value: Table): Source {
  return { value, place: () => null, position: () => null }
}

export function guessFormat(text: string): Format {
  return /^\s*\{/.test(text) ? 'json' : 'toml'
}

function fromPositions(value: Table, positions: Positions, text: string): Source {
  const position = (path: Path) => positions.get(formatPath(path)) ?? null
  return {
    value,
    position,
    place(path, what) {
      for (let length = path.length; length > 0; length--) {
        const found = position(path.slice(0, length))
        if (found) return placeOf(text, found[what])
      }
      return null
    },
  }
}

export function placeOf(text: string, offset: number): Place {
  const before = text.slice(0, offset)
  const line = before.split('\n').length
  return { line, column: offset - (before.lastIndexOf('\n') + 1) + 1 }
}

function offsetOf(text: string, line: number, column: number): number {
  let offset = 0
  for (let i = 1; i < line; i++) offset = text.indexOf('\n', offset) + 1
  return offset + column - 1
}

// smol-toml's message goes on with a drawing of the place, which the line and column already give.
function tomlSentence(message: string): string {
  const [first] = message.split('\n')
  return first.replace(/^Invalid TOML document: /, '')
}
