// What may be written at a place of a TOML config: tables, keys and choices of the schema. Reads lines, not a syntax
// tree, because a text that is being written is seldom whole.

import type { Completion, CompletionContext, CompletionResult } from '@codemirror/autocomplete'
import type { Knob } from '../../configs/knob.ts'
import { knobs } from '../../configs/schema.ts'

/** The schema's path of the table that a position lies in: `[[env]]` is `env[]`, the top is ''. */
export function tableAt(text: string, position: number): string {
  const headers = [...text.slice(0, position).matchAll(/^[^\S\n]*(\[\[?)([^\]\n]+)\]/gm)]
  const last = headers.at(-1)
  return last ? schemaPath(last[2].replace(/\s/g, '')) : ''
}

/** The knob whose key stands at a position, and where. */
export function knobAt(text: string, position: number): { knob: Knob; from: number; to: number } | null {
  const start = text.lastIndexOf('\n', position - 1) + 1
  const line = text.slice(start).split('\n', 1)[0]
  const match = line.match(/^(\s*)([\w.-]+)\s*=/)
  if (!match) return null
  const from = start + match[1].length
  const to = from + match[2].length
  if (position < from || position > to) return null
  const knob = knobOf(tableAt(text, start), match[2])
  return knob ? { knob, from, to } : null
}

export function completeToml(context: CompletionContext): CompletionResult | null {
  const text = context.state.doc.toString()
  const line = context.state.doc.lineAt(context.pos)
  const before = line.text.slice(0, context.pos - line.from)
  if (before.includes('#')) return null

  const header = before.match(/^\s*(\[\[?)([\w.]*)$/)
  if (header) {
    const closing = header[1] === '[[' ? ']]' : ']'
    const options = tables(header[1] === '[[').map(
      (label): Completion => ({
        label,
        apply: `${label}${line.text.slice(before.length).startsWith(']') ? '' : closing}\n`,
        type: 'namespace',
      }),
    )
    return { from: context.pos - header[2].length, options, validFor: /^[\w.]*$/ }
  }

  const value = before.match(/^\s*([\w.-]+)\s*=\s*("?)([\w.-]*)$/)
  if (value) {
    const knob = knobOf(tableAt(text, line.from), value[1])
    const written = knob?.type === 'boolean' ? ['true', 'false'] : (knob?.choices ?? []).map((choice) => `"${choice}"`)
    if (!knob || !written.length) return null
    const options = written.map(
      (label): Completion => ({
        label,
        detail: knob.notYet.includes(label.replaceAll('"', '')) ? 'not yet' : undefined,
      }),
    )
    return { from: context.pos - value[3].length - value[2].length, options, validFor: /^"?[\w.-]*"?$/ }
  }

  const key = before.match(/^\s*([\w-]*)$/)
  if (!key || (!key[1] && !context.explicit)) return null
  const table = tableAt(text, line.from)
  const options = keysOf(table).map(
    ({ knob, name }): Completion => ({
      label: name,
      apply: line.text.slice(before.length).includes('=') ? name : `${name} = ${start(knob)}`,
      detail: detail(knob),
      info: knob.help,
      boost: knob.used === 'browser' ? 1 : -1,
    }),
  )
  return { from: context.pos - key[1].length, options, validFor: /^[\w-]*$/ }
}

function schemaPath(header: string): string {
  const parts = header.split('.')
  let path = ''
  for (const part of parts) {
    path += (path ? '.' : '') + part
    if (knobs().some((knob) => knob.path.startsWith(`${path}[].`))) path += '[]'
  }
  return path
}

function knobOf(table: string, key: string): Knob | undefined {
  const path = table ? `${table}.${key}` : key
  return knobs().find((knob) => knob.path === path)
}

function keysOf(table: string): { knob: Knob; name: string }[] {
  const prefix = table ? `${table}.` : ''
  return knobs()
    .filter((knob) => knob.path.startsWith(prefix) && !knob.path.slice(prefix.length).includes('.'))
    .map((knob) => ({ knob, name: knob.path.slice(prefix.length) }))
    .filter(({ name }) => !name.includes('['))
}

/** Tables, or lists of tables, that the schema has. */
function tables(lists: boolean): string[] {
  const found = new Set<string>()
  for (const { path } of knobs()) {
    const parts = path.split('.').slice(0, -1)
    for (let length = 1; length <= parts.length; length++) {
      const table = parts.slice(0, length).join('.')
      if (table.endsWith('[]') === lists && !table.slice(0, -2).includes('[]')) found.add(table.replace(/\[\]$/, ''))
    }
  }
  return [...found].sort()
}

function detail(knob: Knob): string {
  const kind = knob.choices ? knob.choices.join(' | ') : knob.type
  return [kind, knob.unit].filter(Boolean).join(', ')
}

function start(knob: Knob): string {
  if (typeof knob.default === 'number' || typeof knob.default === 'boolean') return String(knob.default)
  if (typeof knob.default === 'string') return JSON.stringify(knob.default)
  return knob.type === 'list' ? '[]' : knob.type === 'string' || knob.type === 'choice' ? '""' : ''
}
