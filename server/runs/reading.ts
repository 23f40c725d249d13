// What a run has shown so far: metrics by step, rollouts by step, logs by byte.

import type { RunEvent } from '../../workers/protocol.ts'
import type { LogPart } from '../engines/engine.ts'
import type { StepIndexRow } from '../store/tables/runs.ts'
import type { RunsContext } from './context.ts'
import { Refused } from './problem.ts'
import { readMasked } from './redaction.ts'
import type { MetricsPage, MetricsRow, RolloutsPage } from './views.ts'

export interface MetricsRange {
  /** Steps, both included. */
  from: number
  to: number
  /** Counters after this one: where the page before ended. */
  after: number
  limit: number
}

/** The run's steps and evaluations as they stand: what a later attempt did again is not among them. */
export async function metricsOf(context: RunsContext, run: string, range: MetricsRange): Promise<MetricsPage> {
  const rows = await context.store.db
    .selectFrom('step_index')
    .selectAll()
    .where('run_id', '=', run)
    .where('kind', 'in', ['step', 'evaluation'])
    .where('superseded', '=', 0)
    .where('step', '>=', range.from)
    .where('step', '<=', range.to)
    .where('seq', '>', range.after)
    .orderBy('seq')
    .limit(range.limit + 1)
    .execute()
  const page = rows.slice(0, range.limit)
  const lines = await context.files.of(run).lines(page)
  return { rows: lines.map(metricsRow), next: rows.length > page.length ? (page.at(-1)?.seq ?? null) : null }
}

function metricsRow(line: string): MetricsRow {
  const event = JSON.parse(line) as Extract<RunEvent, { kind: 'step' | 'evaluation' }>
  const { seq, attempt, kind, step, time, metrics, seconds } = event
  const environment = kind === 'evaluation' ? { environment: event.environment } : {}
  return { seq, attempt, kind, step, time, metrics, seconds, ...environment }
}

/** The steps of which rollouts are kept, increasing, of one split. */
export async function stepsWithRollouts(context: RunsContext, run: string, split: 'train' | 'eval'): Promise<number[]> {
  const rows = await context.store.db
    .selectFrom('step_index')
    .select('step')
    .distinct()
    .where('run_id', '=', run)
    .where('kind', '=', `samples/${split}`)
    .where('superseded', '=', 0)
    .orderBy('step')
    .execute()
  return rows.map(({ step }) => step)
}

export async function rolloutsOf(
  context: RunsContext,
  run: string,
  asked: { step: number; split: 'train' | 'eval'; offset: number; limit: number },
): Promise<RolloutsPage> {
  const { step, split, offset, limit } = asked
  const row: StepIndexRow | undefined = await context.store.db
    .selectFrom('step_index')
    .selectAll()
    .where('run_id', '=', run)
    .where('kind', '=', `samples/${split}`)
    .where('superseded', '=', 0)
    .where('step', '=', step)
    .orderBy('seq', 'desc')
    .executeTakeFirst()
  if (!row) throw new Refused(404, `No ${split} rollouts of step ${step} are recorded for run ${run}.`)
  const groups = await context.files.of(run).groups(row)
  const next = offset + limit < groups.length ? offset + limit : null
  return { step, split, attempt: row.attempt, groups: groups.slice(offset, offset + limit), total: groups.length, next }
}

export async function logOf(
  context: RunsContext,
  run: string,
  asked: { stream: string; attempt: number | null; offset: number; most: number },
): Promise<LogPart & { attempt: number }> {
  let query = context.store.db.selectFrom('attempt').selectAll().where('run_id', '=', run)
  if (asked.attempt !== null) query = query.where('number', '=', asked.attempt)
  const attempt = await query.orderBy('number', 'desc').executeTakeFirst()
  if (!attempt) throw new Refused(404, `Run ${run} has no attempt ${asked.attempt}.`)
  const engine = context.engines.get(attempt.engine)
  if (!engine?.capabilities.logs.includes(asked.stream)) {
    const known = engine?.capabilities.logs.join(', ') || 'none'
    throw new Refused(404, `Runs on ${attempt.engine} have no log "${asked.stream}"; they have ${known}.`)
  }
  if (attempt.engine_id === null)
    return { bytes: new Uint8Array(), nextOffset: 0, eof: attempt.ended_at !== null, attempt: attempt.number }
  const { engine_id, number } = attempt
  const row = await context.store.db
    .selectFrom('run')
    .select(['id', 'project', 'secrets_json'])
    .where('id', '=', run)
    .executeTakeFirstOrThrow()
  const redact = await context.redaction.of(row, engine).catch((error: Error) => {
    throw new Refused(
      503,
      `The log cannot be told without the run's secrets, which are to be taken out. ${error.message}`,
    )
  })
  const read = (offset: number, most: number) => engine.readLog(engine_id, asked.stream, offset, most)
  return { ...(await readMasked(read, asked.offset, asked.most, redact)), attempt: number }
}
