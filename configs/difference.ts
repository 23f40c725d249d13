// What differs between two configs, key by key, and a config put together again from what differs. Knows no key by name.

import { deleteAt, isTable, type Path, setAt, type Table } from './path.ts'

/** `value` is absent where the key itself is gone. */
export type Delta = { path: Path; value: unknown } | { path: Path; gone: true }

/** Lists of tables of equal length are compared entry by entry, other lists as a whole. Absent and undefined are one. */
export function difference(base: unknown, value: unknown): Delta[] {
  const deltas: Delta[] = []
  compare(base, value, [], deltas)
  return deltas
}

function compare(base: unknown, value: unknown, path: Path, deltas: Delta[]): void {
  if (isTable(base) && isTable(value)) {
    for (const key of new Set([...Object.keys(base), ...Object.keys(value)])) {
      compare(own(base, key), own(value, key), [...path, key], deltas)
    }
  } else if (areTables(base) && areTables(value) && base.length === value.length) {
    for (const [i, entry] of value.entries()) compare(base[i], entry, [...path, i], deltas)
  } else if (value === undefined) {
    if (base !== undefined) deltas.push({ path, gone: true })
  } else if (!equal(base, value)) deltas.push({ path, value })
}

/** A new config; `base` stays as it is. */
export function withDifference(base: Table, deltas: readonly Delta[]): Table {
  const made = structuredClone(base)
  for (const delta of deltas) {
    if ('gone' in delta) deleteAt(made, delta.path)
    else setAt(made, delta.path, structuredClone(delta.value))
  }
  return made
}

function own(table: Table, key: string): unknown {
  return Object.hasOwn(table, key) ? table[key] : undefined
}

function areTables(value: unknown): value is Table[] {
  return Array.isArray(value) && value.length > 0 && value.every(isTable)
}

/** Equal as values; the order of keys does not count, and an absent one is undefined. */
export function equal(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((entry, i) => equal(entry, b[i]))
  if (isTable(a) && isTable(b)) {
    const keys = new Set([...Object.keys(a), ...Object.keys(b)])
    return [...keys].every((key) => equal(own(a, key), own(b, key)))
  }
  return Object.is(a, b) || (a instanceof Date && b instanceof Date && String(a) === String(b))
}
