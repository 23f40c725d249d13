// Reading what slurmrestd answers, whichever version it speaks: numbers that are plain or wrapped, states that are a word
// or a list, errors that are told by a number and never by the HTTP status.

import { isTable, type Table } from '../../../configs/path.ts'

/** 5, or { set, infinite, number }; null for what is not set or has no end. */
export function numberOf(value: unknown): number | null {
  if (typeof value === 'number') return value
  if (!isTable(value) || value.set === false || value.infinite === true) return null
  return typeof value.number === 'number' ? value.number : null
}

/** Seconds to milliseconds; Slurm's 0 is "not yet". */
export function timeOf(value: unknown): number | null {
  const seconds = numberOf(value)
  return seconds === null || seconds <= 0 ? null : seconds * 1000
}

export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

export const listOf = (value: unknown): Table[] => (Array.isArray(value) ? value.filter(isTable) : [])

/** A word, or the first of a list. */
export const wordOf = (value: unknown): string =>
  Array.isArray(value) ? textOf(value.find((entry) => typeof entry === 'string')) : textOf(value)

export interface SlurmComplaint {
  number: number
  sentence: string
  /** Which of Slurm's own calls said it. */
  source: string
}

/** What newer versions say of each job that was to be ended. */
export function statusesOf(answer: unknown): SlurmComplaint[] {
  return listOf(isTable(answer) ? answer.status : undefined).flatMap(({ error }) =>
    isTable(error) ? [{ number: Number(error.code ?? 0), sentence: textOf(error.message), source: '' }] : [],
  )
}

/** Submits say `error_code`, queries `error_number`. */
export function complaintsOf(answer: unknown): SlurmComplaint[] {
  return listOf(isTable(answer) ? answer.errors : undefined).map((error) => ({
    number: Number(error.error_number ?? error.error_code ?? 0),
    sentence: textOf(error.description) || textOf(error.error),
    source: textOf(error.source),
  }))
}
