// The form in which a rule between fields of a target is written down, and how a rule looks at a compiled table.

import { getAt, isTable, parsePath, type Table } from '../../../configs/path.ts'
import type { TargetId } from '../target.ts'

export interface Broken {
  /** Theirs, dotted. */
  path: string
  sentence: string
}

export interface Rule {
  id: string
  targets: TargetId[]
  /** Where the target states it: a file, and after the colon the validator in it. */
  source: string
  /** A table that breaks this rule, as little of it as possible. */
  example: Table
  check(table: Table): Broken | null
}

export const BOTH: TargetId[] = ['prime-rl', 'prime-rl-2026-01']
export const NOW: TargetId[] = ['prime-rl']
export const THEN: TargetId[] = ['prime-rl-2026-01']
export const HOSTED: TargetId[] = ['hosted']

export const at = (table: Table, path: string): unknown => getAt(table, parsePath(path) ?? [])

export const number = (table: Table, path: string, otherwise: number): number => {
  const value = at(table, path)
  return typeof value === 'number' ? value : otherwise
}

export const has = (table: Table, path: string): boolean => at(table, path) != null

export const broken = (path: string, sentence: string): Broken => ({ path, sentence })

/** Training environments, of either version. */
export const sources = (table: Table): Table[] => {
  const list = at(table, 'orchestrator.train.source') ?? at(table, 'orchestrator.env') ?? []
  return Array.isArray(list) ? list.filter(isTable) : []
}
