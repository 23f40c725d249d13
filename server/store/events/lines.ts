// The lines of a run's event file: one event a line, and after each batch a line that says where the batch ends. Whatever
// follows the last such line was being written when the process died.

import type { RunEvent } from '../../../workers/protocol.ts'

/** The end of a batch. */
export interface BatchEnd {
  /** Counter of the batch's last event. */
  end: number
  attempt: number
  /** How far the engine's own events have been read, in its own words; null before the first. */
  cursor: string | null
  /** Where the groups of the batch's `samples` events lie in the samples file. */
  samples: { seq: number; offset: number; length: number; items: number }[]
  samplesBytes: number
  /** Of the attempt's newest `state` event; null before the first. */
  state: string | null
}

/** With `run`, `attempt`, `seq` first, so that a reader finds the counter without parsing the rest. */
export function eventLine(event: RunEvent): string {
  const { run, attempt, seq, time, source, ...body } = event
  const kept = body.kind === 'samples' ? { ...body, groups: [] } : body
  const { kind, ...rest } = kept
  return `${JSON.stringify({ run, attempt, seq, time, kind, source, ...rest })}\n`
}

export function batchLine(end: BatchEnd): string {
  return `${JSON.stringify(end)}\n`
}

const EVENT = /^\{"run":"[^"]*","attempt":\d+,"seq":(\d+),"time":\d+,"kind":"(\w+)"/
const END = '{"end":'

export interface EventHead {
  seq: number
  kind: RunEvent['kind']
}

/** Counter and kind of an event's line; null for the end of a batch. */
export function headOf(line: string): EventHead | null {
  const match = EVENT.exec(line)
  return match ? { seq: Number(match[1]), kind: match[2] as RunEvent['kind'] } : null
}

export function batchEndOf(line: string): BatchEnd | null {
  return line.startsWith(END) ? (JSON.parse(line) as BatchEnd) : null
}
