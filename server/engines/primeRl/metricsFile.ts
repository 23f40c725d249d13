// metrics.jsonl -> one record a step. Two programs append to the file, trainer and orchestrator, each a row a step; rows of
// one step are put together, and a step that comes again, after a restart, is told again. A cursor is a byte offset and the
// rows behind it that have been told already, so that a follower that comes back misses nothing and repeats nothing.

import { open } from 'node:fs/promises'
import { sizeOf } from '../../store/events/appendOnly.ts'
import { ourMetrics } from './metricNames.ts'

export interface MetricsCursor {
  offset: number
  /** Offsets of rows behind `offset` that have been told. */
  told: number[]
}

export interface StepRecord {
  step: number
  /** Milliseconds since the epoch, of the newest row. */
  time: number
  /** Under our names. */
  metrics: Record<string, number>
}

export interface MetricsPart {
  steps: StepRecord[]
  evaluations: StepRecord[]
  cursor: MetricsCursor
}

interface Row {
  offset: number
  step: number
  time: number
  writer: string
  evaluation: boolean
  metrics: Record<string, number>
}

const MOST_BYTES = 2 * 1024 * 1024

/** What is new; `over` when nobody will write any more, so that a half of a step is not waited for. */
export async function readMetrics(path: string, from: MetricsCursor, over: boolean): Promise<MetricsPart> {
  const size = await sizeOf(path)
  // A file that has become shorter is another one.
  const start = size < from.offset ? { offset: 0, told: [] } : from
  const { rows, end } = await readRows(path, start.offset)
  const whole = over && end >= size
  const told = new Set(start.told)
  const steps: StepRecord[] = []
  const evaluations: StepRecord[] = []
  let open: Row[] = []
  const tell = (parts: Row[]) => {
    steps.push(joined(parts))
    for (const { offset } of parts) told.add(offset)
    open = open.filter((row) => !parts.includes(row))
  }
  for (const row of rows) {
    if (told.has(row.offset)) continue
    if (row.evaluation) {
      evaluations.push(joined([row]))
      told.add(row.offset)
      continue
    }
    const parts = open.filter(({ step }) => step === row.step)
    if (parts.some(({ writer }) => writer === row.writer)) tell(parts)
    // A step is complete once both have spoken; what lies two steps back, or ahead of a step that came again, is left.
    for (const step of new Set(open.map((each) => each.step)))
      if (step < row.step - 1 || step > row.step + 1) tell(open.filter((each) => each.step === step))
    open.push(row)
    const now = open.filter(({ step }) => step === row.step)
    if (new Set(now.map(({ writer }) => writer)).size === 2) tell(now)
  }
  if (whole) for (const step of new Set(open.map((each) => each.step))) tell(open.filter((each) => each.step === step))
  const offset = Math.min(end, ...open.map((row) => row.offset))
  return { steps, evaluations, cursor: { offset, told: [...told].filter((each) => each >= offset) } }
}

function joined(rows: Row[]): StepRecord {
  return {
    step: rows[0].step,
    time: Math.max(...rows.map(({ time }) => time)),
    metrics: Object.assign({}, ...rows.map(({ metrics }) => metrics)),
  }
}

/** Whole lines only: what follows the last line end is being written. */
async function readRows(path: string, from: number): Promise<{ rows: Row[]; end: number }> {
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (!file) return { rows: [], end: from }
  try {
    const { size } = await file.stat()
    const bytes = Buffer.alloc(Math.max(0, Math.min(MOST_BYTES, size - from)))
    const { bytesRead } = bytes.length > 0 ? await file.read(bytes, 0, bytes.length, from) : { bytesRead: 0 }
    const rows: Row[] = []
    let at = 0
    for (;;) {
      const end = bytes.subarray(0, bytesRead).indexOf(10, at)
      if (end < 0) break
      const row = rowOf(bytes.toString('utf8', at, end), from + at)
      if (row) rows.push(row)
      at = end + 1
    }
    return { rows, end: from + at }
  } finally {
    await file.close()
  }
}

function rowOf(line: string, offset: number): Row | null {
  let raw: Record<string, unknown>
  try {
    raw = JSON.parse(line)
  } catch {
    return null
  }
  const { step, time, producer, ...rest } = raw
  // Rows by the clock alone, of the inference servers, belong to no step.
  if (typeof step !== 'number') return null
  const names = Object.keys(rest)
  const evaluation = names.length > 0 && names.every((name) => name.startsWith('eval/'))
  const writer =
    typeof producer === 'string'
      ? producer
      : names.some((name) => name.startsWith('optim/'))
        ? 'trainer'
        : 'orchestrator'
  const seconds = typeof time === 'number' ? time : 0
  return { offset, step, time: seconds * 1000, writer, evaluation, metrics: ourMetrics(rest) }
}
