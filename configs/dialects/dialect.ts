// The form in which another vocabulary of the same knobs is written down. A pattern is a path whose indices are `[]`.

import type { Table } from '../path.ts'

export interface Outcome {
  /** Our paths and their values. */
  set?: Record<string, unknown>
  /** The same, giving way to what the file says elsewhere. */
  unless?: Record<string, unknown>
  note?: string
  /** The note tells of something that will differ here. */
  warning?: boolean
  problem?: string
}

/** `to` carries the indices of the path on to the patterns it sets: `to('env[].id')` is `env[3].id` for `env[3].…`. */
export type Convert = (value: unknown, to: (pattern: string) => string) => Outcome

/** What depends on other knobs is read when they are known: `draft` holds what the file has said so far. */
export type Late = (value: unknown, draft: Table) => Outcome

export interface Dialect {
  name: string
  /** Paths that begin like this are read as if they began like that; '' is the root. */
  prefixes?: Record<string, string>
  /** The same value under another name. */
  renames?: Record<string, string>
  /** Renames that give way to the knob's own name, because components repeat each other. */
  echoes?: Record<string, string>
  /** Values that are written differently. */
  converts?: Record<string, Convert>
  late?: Record<string, Late>
  /** Whole tables, or lists of tables, that are written differently. */
  tables?: Record<string, Convert>
  /** What an empty table says. */
  empty?: Record<string, Outcome>
  /** What has no counterpart and waits below `remote` for a full-size run, whatever stands below it included. */
  keeps?: Record<string, string>
  /** Where the vocabulary's own defaults differ from ours; told when a file leaves them out. */
  defaults?: Record<string, unknown>
}
