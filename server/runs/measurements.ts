// How fast models run on the targets of this server: from runs that have taken place, and from short ones made for it.

import type { RunEvent } from '../../workers/protocol.ts'
import { newId } from '../store/ids.ts'
import type { AttemptRow, MeasurementRow, RunRow } from '../store/tables/runs.ts'
import type { RunsContext } from './context.ts'
import { Refused } from './problem.ts'
import type { MeasurementView } from './views.ts'

/** Of so many steps at the end of an attempt the mean is taken. */
const STEPS = 8

/** The newest of each model on a target. */
export async function measurementsOf(context: RunsContext, target: string): Promise<MeasurementView[]> {
  const rows = await context.store.db
    .selectFrom('measurement')
    .selectAll()
    .where('target', '=', target)
    .orderBy('id', 'desc')
    .limit(200)
    .execute()
  const newest = new Map<string, MeasurementRow>()
  for (const row of rows) if (!newest.has(row.model)) newest.set(row.model, row)
  return [...newest.values()].map((row) => ({
    model: row.model,
    backend: row.backend,
    adapter: row.adapter,
    tokensPerSecond: row.tokens_per_second,
    stepTokensPerSecond: row.step_tokens_per_second,
    run: row.run_id,
    at: row.created_at,
  }))
}

/** Makes a short run of its own, and keeps what it shows. */
export async function measure(context: RunsContext, target: string, model: string, signal: AbortSignal) {
  const engine = context.engines.get(target)
  if (!engine?.measure) throw new Refused(404, `The target "${target}" cannot be measured.`)
  const measured = await engine.measure(model, signal).catch((error: Error) => {
    throw new Refused(422, error.message)
  })
  await insert(context, { target, model, run_id: null, ...rowOf(measured) })
  return (await measurementsOf(context, target)).find((view) => view.model === model)
}

/** What the attempt's last steps have shown; nothing where there were too few to say. */
export async function recordMeasurement(context: RunsContext, run: RunRow, attempt: AttemptRow): Promise<void> {
  const file = context.files.of(run.id)
  const rows = await context.store.db
    .selectFrom('step_index')
    .selectAll()
    .where('run_id', '=', run.id)
    .where('attempt', '=', attempt.number)
    .where('kind', '=', 'step')
    .orderBy('seq', 'desc')
    .limit(STEPS)
    .execute()
  if (rows.length < 2) return
  const started = await startedOf(context, run.id, attempt.number)
  if (!started) return
  const steps = (await file.lines(rows)).map((line) => JSON.parse(line) as Extract<RunEvent, { kind: 'step' }>)
  const mean = (key: string) => steps.reduce((sum, { metrics }) => sum + (metrics[key] ?? 0), 0) / steps.length
  const model = started.config.model
  const { backend, adapter } = started.description.device
  const shown = {
    backend,
    adapter,
    tokensPerSecond: mean('perf/sampling_throughput'),
    stepTokensPerSecond: mean('perf/throughput'),
  }
  const { db } = context.store
  // The end of an attempt may be written down twice, when the server was killed in between.
  await db.deleteFrom('measurement').where('run_id', '=', run.id).execute()
  await insert(context, { target: attempt.engine, model, run_id: run.id, ...rowOf(shown) })
}

async function startedOf(context: RunsContext, run: string, attempt: number) {
  const row = await context.store.db
    .selectFrom('step_index')
    .selectAll()
    .where('run_id', '=', run)
    .where('attempt', '=', attempt)
    .where('kind', '=', 'started')
    .orderBy('seq', 'desc')
    .executeTakeFirst()
  if (!row) return null
  const [line] = await context.files.of(run).lines([row])
  return JSON.parse(line) as Extract<RunEvent, { kind: 'started' }>
}

function rowOf(measured: { backend: string; adapter: string; tokensPerSecond: number; stepTokensPerSecond: number }) {
  return {
    backend: measured.backend,
    adapter: measured.adapter,
    tokens_per_second: measured.tokensPerSecond,
    step_tokens_per_second: measured.stepTokensPerSecond,
  }
}

async function insert(context: RunsContext, row: Omit<MeasurementRow, 'id' | 'created_at'>): Promise<void> {
  await context.store.db
    .insertInto('measurement')
    .values({ id: newId(), created_at: Date.now(), ...row })
    .execute()
}
