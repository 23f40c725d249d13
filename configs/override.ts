// `--set a.b=c`: what is put over a config as written. The value is TOML, or plain text where it is not.

import { parse } from 'smol-toml'
import { isTable, parsePath, setAt, type Table } from './path.ts'

/** A table of the overrides, or a sentence about the first that is none. `env.0.id` and `env[0].id` are the same. */
export function overrides(texts: readonly string[]): { table: Table } | { sentence: string } {
  const table: Table = {}
  for (const text of texts) {
    const equals = text.indexOf('=')
    const path = equals > 0 ? parsePath(text.slice(0, equals).trim()) : null
    if (!path)
      return { sentence: `--set ${text} is not of the form path=value; write learning_rate=1e-3, for example.` }
    const indexed = path.map((part) => (typeof part === 'string' && /^\d+$/.test(part) ? Number(part) : part))
    setAt(table, indexed, tomlOrText(text.slice(equals + 1).trim()))
  }
  return { table }
}

function tomlOrText(text: string): unknown {
  try {
    return parse(`value = ${text}`).value
  } catch {
    return text
  }
}

/** `over` on top of `under`: tables by key, lists of tables by position, everything else replaced. */
export function merge(under: unknown, over: unknown): unknown {
  if (over === undefined) return under
  if (isTable(under) && isTable(over)) {
    const merged: Table = { ...under }
    for (const [key, value] of Object.entries(over)) setAt(merged, [key], merge(under[key], value))
    return merged
  }
  const lists = Array.isArray(under) && Array.isArray(over) && under.some(isTable) && over.some(isTable)
  if (!lists) return over
  const length = Math.max(under.length, over.length)
  return Array.from({ length }, (_, i) => merge(under[i], over[i]))
}
