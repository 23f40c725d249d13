// Between a knob's value and what stands in its field. The schema has the last word; this only refuses what has no type.

import type { Knob } from '../../configs/knob.ts'

export function shownValue(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (Array.isArray(value))
    return value.map((item) => (typeof item === 'object' ? JSON.stringify(item) : String(item))).join(', ')
  if (typeof value === 'object') return Object.keys(value).length ? JSON.stringify(value) : ''
  if (typeof value === 'number' && value !== 0 && Math.abs(value) < 1e-3)
    return value.toExponential().replace('e+', 'e')
  return String(value)
}

export function readValue(knob: Knob, text: string): { value: unknown } | { sentence: string } {
  const trimmed = text.trim()
  if (trimmed === '' && knob.nullable) return { value: null }
  switch (knob.type) {
    case 'integer':
    case 'number': {
      const value = Number(trimmed.replace('−', '-'))
      if (trimmed === '' || Number.isNaN(value)) return { sentence: `«${trimmed}» is no number.` }
      return { value }
    }
    case 'list': {
      const items = trimmed.startsWith('[')
        ? parsed(trimmed)
        : trimmed
            .split(',')
            .map((item) => item.trim())
            .filter(Boolean)
      return Array.isArray(items) ? { value: items } : { sentence: 'Write a list: items with commas between them.' }
    }
    case 'table': {
      const value = trimmed === '' ? {} : parsed(trimmed)
      return typeof value === 'object' && value !== null
        ? { value }
        : { sentence: 'Write it as JSON, {"key": value}, or use the TOML view.' }
    }
    default:
      return { value: trimmed }
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
