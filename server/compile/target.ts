// The form in which a target is written down: one row for each knob of RunConfig, with what becomes of it there.
// Knows no knob and no target by name.

import { equal } from '../../configs/difference.ts'
import { getAt, parsePath } from '../../configs/path.ts'
import { type RunConfig, runConfig } from '../../configs/schema.ts'

/** `refuse`: what is asked for cannot be done there. `warn`: the run will differ. `note`: worth knowing, nothing more. */
export type Act = 'refuse' | 'warn' | 'note'

export interface Outcome {
  /** Their dotted paths and values; undefined is not written, null is written as none. */
  set?: Record<string, unknown>
  act?: Act
  /** A sentence. Of a knob that comes back otherwise, it is what is lost and why. */
  why?: string
  /** The path of ours that it is about, where the knob is a list; the knob itself unless given. */
  at?: string
  /** Further paths of ours that do not come back as they went. */
  also?: string[]
}

export interface Row {
  knob: string
  /** Their path; null where they have none. */
  to: string | null
  /** How the value goes along, or why not; in a table for people. */
  how: string
  carry(config: RunConfig): Outcome[]
}

export type TargetId = 'prime-rl' | 'prime-rl-2026-01' | 'hosted'

export interface Target {
  id: TargetId
  title: string
  /** What the table was read from. */
  pin: string
  rows: readonly Row[]
  /** The key list that values kept below `remote` are checked against; null where they are not of this program. */
  keys: string | null
  /** Where ours keeps what only this program knows. */
  kept: (config: RunConfig) => Record<string, unknown>
  /** Values kept for another program or version: how they are said here. */
  keptAs?: Record<string, string>
  /** What stands in every file of this target, below what the rows say. */
  always: (config: RunConfig) => Outcome[]
  /** The table for `type = "sft"`, where the program has another config for it. */
  supervised?: Target
  /** Writes null as the text "None"; other programs know no null, and it is left out. */
  nullIsNone: boolean
}

const defaults = runConfig.parse({})

/** Undefined for what lies in a list or in a table that is absent until given. */
export const defaultOf = (knob: string): unknown => getAt(defaults, parsePath(knob) ?? [])

export const valueIn = (config: RunConfig, knob: string): unknown => getAt(config, parsePath(knob) ?? [])

export const isDefault = (config: RunConfig, knob: string): boolean => equal(valueIn(config, knob), defaultOf(knob))

/** A default of theirs that nobody should count on: the value is always written. */
const WRITTEN = Symbol('always written')

interface Same {
  /** Their default; a value equal to both defaults need not be written. */
  there?: unknown
  as?: (value: unknown, config: RunConfig) => unknown
  how?: string
}

/** The same thing under another name. */
export function same(knob: string, to: string, { there = WRITTEN, as = (value) => value, how }: Same = {}): Row {
  return {
    knob,
    to,
    how: how ?? (knob === to ? 'the same' : 'another name'),
    carry(config) {
      const value = valueIn(config, knob)
      if (value === undefined) return []
      const said = as(value, config)
      if (there !== WRITTEN && isDefault(config, knob) && equal(said, there)) return []
      return [{ set: { [to]: said } }]
    },
  }
}

/** What has no counterpart. `harmless` tells of values that mean nothing; the default unless given. */
export function lost(
  knob: string,
  act: Act,
  how: string,
  harmless: (value: unknown, config: RunConfig) => boolean = (_, config) => isDefault(config, knob),
): Row {
  return {
    knob,
    to: null,
    how: `${act === 'refuse' ? 'refused' : act === 'warn' ? 'lost, warned' : 'lost, noted'}: ${how}`,
    carry(config) {
      const value = valueIn(config, knob)
      if (value === undefined || harmless(value, config)) return []
      return [{ act, why: `${knob} = ${shown(value)} cannot go along: ${how}.` }]
    },
  }
}

/** An off switch with two spellings. */
export function offOrRefused(knob: string, off: unknown, how: string): Row {
  const row = lost(knob, 'refuse', how, (value, config) => value === off || isDefault(config, knob))
  return {
    ...row,
    carry: (config) =>
      valueIn(config, knob) === off
        ? [{ act: 'note', why: `${knob} = ${shown(off)} is off, as ${shown(defaultOf(knob))} is.` }]
        : row.carry(config),
  }
}

/** Rows that mean something only in some configs; elsewhere their knobs do nothing here either, and are left out. */
export function when(holds: (config: RunConfig) => boolean, because: string, rows: readonly Row[]): Row[] {
  return rows.map((row) => ({
    ...row,
    carry(config) {
      if (holds(config)) return row.carry(config)
      if (isDefault(config, row.knob)) return []
      return [{ act: 'note', why: `${row.knob} does nothing ${because}, and is left out.` }]
    },
  }))
}

/** What takes more than a name. */
export function made(knob: string, to: string | null, how: string, carry: (config: RunConfig) => Outcome[]): Row {
  return { knob, to, how, carry }
}

/** Knobs that another row takes along. */
export function parts(whole: string, ...names: string[]): Row[] {
  return names.map((name) => ({ knob: name, to: null, how: `with ${whole}`, carry: () => [] }))
}

export function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length > 60 ? `${text.slice(0, 57)}…` : text
}
