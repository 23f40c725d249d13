// What zod found wrong, as sentences: what was expected, what came, what to do. Knows no key by name.

import type { z } from 'zod'
import { nearest } from './nearest.ts'
import { getAt, isTable, type Path } from './path.ts'

type Issue = z.core.$ZodIssue

const NAMES: Record<string, string> = {
  int: 'a whole number',
  number: 'a number',
  string: 'a text in quotes',
  boolean: 'true or false',
  array: 'a list, [ … ]',
  object: 'a table',
  record: 'a table',
}

export interface Sentence {
  /** Where, in the checked value. */
  path: Path
  what: 'key' | 'value'
  sentence: string
}

/** `name` shows a path as the file calls it; `keys` gives the known keys of a table. */
export function sentenceOf(
  issue: Issue,
  value: unknown,
  name: (path: Path) => string,
  keys: (path: Path) => string[],
): Sentence[] {
  const path = issue.path as Path
  const subject = name(path) || 'The config'
  const got = getAt(value, path)
  const say = (rest: string): Sentence[] => [
    { path, what: 'value', sentence: `${subject} ${rest}${rest.endsWith('?') ? '' : '.'}` },
  ]
  switch (issue.code) {
    case 'invalid_type': {
      if (got === undefined)
        return [
          { path, what: 'key', sentence: `${subject} is missing; it is ${NAMES[issue.expected] ?? issue.expected}.` },
        ]
      return say(
        `must be ${NAMES[issue.expected] ?? issue.expected}, but it is ${shown(got)}${remedy(issue.expected, got)}`,
      )
    }
    case 'invalid_value': {
      const choices = issue.values.map(String)
      const near = typeof got === 'string' ? nearest(got, choices) : null
      return say(
        `must be one of ${choices.join(', ')}, but it is ${shown(got)}${near ? `; did you mean ${near}?` : ''}`,
      )
    }
    case 'too_small':
    case 'too_big': {
      const low = issue.code === 'too_small'
      const limit = Number(low ? issue.minimum : issue.maximum)
      const bound = limits(low, issue.inclusive ?? true, limit)
      if (issue.origin === 'string') return say('must not be empty')
      if (issue.origin === 'array')
        return say(
          `must have ${low ? 'at least' : 'at most'} ${limit} entries, but it has ${Array.isArray(got) ? got.length : 0}`,
        )
      return say(`must be ${bound}, but it is ${shown(got)}`)
    }
    case 'unrecognized_keys':
      return issue.keys.map((key) => {
        const near = nearest(key, keys(path))
        const hint = near ? `did you mean ${near}?` : `the keys here are ${keys(path).join(', ')}.`
        return { path: [...path, key], what: 'key', sentence: `Unknown key ${key} in ${subject}; ${hint}` }
      })
    default:
      return say(`is not right: ${issue.message}`)
  }
}

function limits(low: boolean, inclusive: boolean, limit: number): string {
  if (low) return inclusive ? `${limit} or more` : `more than ${limit}`
  return inclusive ? `${limit} or less` : `less than ${limit}`
}

function remedy(expected: string, got: unknown): string {
  if (typeof got !== 'string') return ''
  const plain = (expected === 'int' || expected === 'number') && got.trim() !== '' && Number.isFinite(Number(got))
  const truth = expected === 'boolean' && /^(true|false)$/i.test(got)
  return plain || truth ? `; write ${got.toLowerCase()} without quotes` : ''
}

/** 0.00001 → 1e-5, as learning rates are written. */
export function numberText(value: number): string {
  return value !== 0 && Math.abs(value) < 0.01 ? value.toExponential().replace('e-0', 'e-') : String(value)
}

export function shown(value: unknown): string {
  if (typeof value === 'number') return numberText(value)
  if (value === undefined) return 'missing'
  if (typeof value === 'string')
    return `the text ${JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value)}`
  if (Array.isArray(value)) return 'a list'
  if (isTable(value)) return 'a table'
  return String(value)
}
