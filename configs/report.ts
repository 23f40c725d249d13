// What loading a config has to say about it: problems stop it, notes do not. Knows no key by name.

import type { Path } from './path.ts'
import type { Place } from './source.ts'

export interface Problem {
  sentence: string
  /** Dotted, as written in the file; '' for the file as a whole. */
  path: string
  /** Counted from 1; null for what no text says. */
  line: number | null
  column: number | null
}

/**
 * `alias`: taken under another name. `moved`: taken from the wrong table. `remote`: only full-size runs use it.
 * `not yet`: nothing here uses it yet. `advice`: allowed, and worth knowing. `default`: left out, and differs elsewhere.
 */
export type NoteKind = 'alias' | 'moved' | 'remote' | 'not yet' | 'advice' | 'default'

export interface Note extends Problem {
  kind: NoteKind
  /** The run will differ from what the file asks for, or the documents advise against it. */
  warning: boolean
}

/** Before lines and columns are known. `at` is a path in the file. */
export interface Finding {
  at: Path
  what: 'key' | 'value'
  sentence: string
  /** Absent on problems. */
  kind?: NoteKind
  warning?: boolean
}

export const inOrder = <T extends Place | Problem>(list: T[]): T[] =>
  [...list].sort((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0))

/** `path:line:column: sentence`, the form that editors and terminals turn into a link. */
export function lineOf(problem: Problem, file: string): string {
  const place = problem.line === null ? '' : `:${problem.line}:${problem.column}`
  const key = problem.path.split('.').pop() ?? ''
  return `${file}${place}: ${problem.sentence}${problem.sentence.includes(key) ? '' : ` (${problem.path})`}`
}
