// Brings every attempt to its end: hands it to its engine, stores what the engine tells, and writes down how it ended.
// Each turn begins from the database and the engine's own word and may be repeated, so it does not matter where a server
// was killed: the next one takes the same turn again.

import type { RunConfig } from '../../configs/schema.ts'
import { type Engine, isFinal, type Job } from '../engines/engine.ts'
import type { Redactor } from '../secrets/redact.ts'
import { crashPoint } from '../store/crashPoint.ts'
import type { GivenEvent } from '../store/events/eventFile.ts'
import { DiskFull } from '../store/events/fullDisk.ts'
import { newId } from '../store/ids.ts'
import type { AttemptRow, RunRow } from '../store/tables/runs.ts'
import { publish } from './artifacts.ts'
import type { RunsContext } from './context.ts'
import { recordMeasurement } from './measurements.ts'
import { withoutSecrets } from './redaction.ts'

const LOOK_EVERY_MS = 2000
/** Attempts in a row that were lost without having come any further. */
const MOST_LOST = 3
const ENDS: Record<string, string> = { succeeded: 'finished', cancelled: 'stopped' }

export class Driver {
  #context: RunsContext
  /** By attempt: the turn under way, and whether another one was asked for meanwhile. */
  #turns = new Map<string, { done: Promise<void>; again: boolean }>()
  #attempts = new Map<string, string>()
  /** Attempts whose rows agree with their events. */
  #checked = new Set<string>()
  #timer: NodeJS.Timeout | null = null
  #unlisten: (() => void)[] = []
  #closed = false

  constructor(context: RunsContext) {
    this.#context = context
  }

  async open(): Promise<void> {
    for (const engine of this.#context.engines.values())
      this.#unlisten.push(engine.onChange((engineId) => this.#heard(engine, engineId)))
    await this.look()
    this.#timer = setInterval(() => {
      this.look().catch((error) => this.#context.report('looking after runs', error))
    }, LOOK_EVERY_MS)
  }

  /** Lets the turns under way end. */
  async close(): Promise<void> {
    this.#closed = true
    if (this.#timer) clearInterval(this.#timer)
    for (const unlisten of this.#unlisten) unlisten()
    while (this.#turns.size > 0) await Promise.all([...this.#turns.values()].map(({ done }) => done))
  }

  /** A turn for every attempt that has not ended. */
  async look(): Promise<void> {
    const rows = await this.#context.store.db
      .selectFrom('attempt')
      .select(['id'])
      .where('ended_at', 'is', null)
      .orderBy('id')
      .execute()
    for (const { id } of rows) this.wake(id)
  }

  /** Takes a turn for an attempt soon, after the one under way if there is one. */
  wake(attempt: string): void {
    if (this.#closed) return
    const under = this.#turns.get(attempt)
    if (under) {
      under.again = true
      return
    }
    const turn = { again: false, done: Promise.resolve() }
    this.#turns.set(attempt, turn)
    turn.done = this.#turn(attempt)
      .catch((error) => this.#context.report(`the run of attempt ${attempt}`, error))
      .finally(() => {
        this.#turns.delete(attempt)
        if (turn.again) this.wake(attempt)
      })
  }

  #heard(engine: Engine, engineId: string): void {
    const attempt = this.#attempts.get(`${engine.target} ${engineId}`)
    if (attempt) this.wake(attempt)
  }

  async #turn(id: string): Promise<void> {
    const { db } = this.#context.store
    const attempt = await db.selectFrom('attempt').selectAll().where('id', '=', id).executeTakeFirst()
    if (!attempt || attempt.ended_at !== null) return
    const run = await db.selectFrom('run').selectAll().where('id', '=', attempt.run_id).executeTakeFirstOrThrow()
    const engine = this.#context.engines.get(attempt.engine)
    if (!engine) {
      await this.#told(run, attempt, {
        state: 'unknown',
        reason: `This server has no target "${attempt.engine}" any more.`,
      })
      return
    }
    let job: Job | null
    let redact: Redactor
    try {
      const engineId = attempt.engine_id ?? (await this.#submit(engine, run, attempt))
      if (engineId === null) return
      attempt.engine_id = engineId
      this.#attempts.set(`${engine.target} ${engineId}`, id)
      if (run.cancel !== null) await engine.cancel(engineId, run.cancel === 'now' ? 'now' : 'graceful')
      redact = await this.#context.redaction.of(run, engine)
      job = await engine.get(engineId)
      if (job?.reason) job = { ...job, reason: redact.text(job.reason) }
      if (job?.wantsSecrets) await engine.renewSecrets?.(engineId, await this.#secrets(run))
    } catch (error) {
      await this.#told(run, attempt, {
        state: 'unknown',
        reason: `${engine.target} cannot be reached: ${(error as Error).message}`,
      })
      return
    }
    if (!job) {
      await this.#end(engine, run, attempt, {
        ...{
          engineId: attempt.engine_id,
          queuePosition: null,
          nodes: [],
          startedAt: null,
          endedAt: Date.now(),
          raw: null,
        },
        ...{ state: 'node_lost', reason: `${engine.target} no longer knows this attempt.`, exitCode: null },
      })
      return
    }
    try {
      await this.#store(engine, run, attempt, redact)
      if (isFinal(job.state)) await this.#end(engine, run, attempt, job)
      else await this.#told(run, attempt, job)
    } catch (error) {
      if (!(error instanceof DiskFull)) throw error
      // Nothing is lost: the engine keeps what has not been stored, and the next turn asks for it again.
      await this.#told(run, attempt, { state: isFinal(job.state) ? 'running' : job.state, reason: error.message })
    }
  }

  /** null where the run was cancelled before any engine heard of it. */
  async #submit(engine: Engine, run: RunRow, attempt: AttemptRow): Promise<string | null> {
    if (run.cancel !== null && !(await engine.list()).some(({ key }) => key === attempt.id)) {
      const end = { state: 'cancelled' as const, reason: 'Cancelled before it began.', exitCode: null }
      await this.#end(engine, run, attempt, {
        ...{ engineId: '', queuePosition: null, nodes: [], startedAt: null, endedAt: Date.now(), raw: null, ...end },
      })
      return null
    }
    const config = JSON.parse(run.config_json) as RunConfig
    let secrets: Record<string, string>
    try {
      secrets = await this.#secrets(run)
    } catch (error) {
      const end = { state: 'failed' as const, reason: (error as Error).message, exitCode: null }
      await this.#end(engine, run, attempt, {
        ...{ engineId: '', queuePosition: null, nodes: [], startedAt: null, endedAt: Date.now(), raw: null, ...end },
      })
      return null
    }
    const spec = { run: run.id, attempt: attempt.number, name: run.name, project: run.project, config, secrets }
    crashPoint('submit:before-engine')
    const { engineId } = await engine.submit(spec, attempt.id)
    crashPoint('submit:before-recording')
    await this.#context.store.db
      .updateTable('attempt')
      .set({ engine_id: engineId })
      .where('id', '=', attempt.id)
      .where('engine_id', 'is', null)
      .execute()
    crashPoint('submit:after-recording')
    return engineId
  }

  /** Throws a sentence where one is not there any more. */
  async #secrets(run: RunRow): Promise<Record<string, string>> {
    const variables = await this.#context.secrets(run.project, JSON.parse(run.secrets_json))
    this.#context.redaction.given(run.id, variables)
    return variables
  }

  /** Everything that the engine has told since the last time. */
  async #store(engine: Engine, run: RunRow, attempt: AttemptRow, redact: Redactor): Promise<void> {
    const file = this.#context.files.of(run.id)
    if (!this.#checked.has(attempt.id)) await this.#check(run, attempt)
    for (;;) {
      const { cursor } = await file.position(attempt.number)
      const read = await engine.readEvents(attempt.engine_id as string, cursor)
      if (read.events.length === 0 && read.cursor === cursor) return
      const events = withoutSecrets(read.events, redact).map((event) => fitted(event, run, attempt))
      crashPoint('events:before-batch')
      await file.append(attempt.number, events, read.cursor)
      crashPoint('events:after-batch')
      await this.#note(run, attempt, events)
      if (events.some((event) => event.kind === 'saved' && event.save.kept))
        await publish(this.#context, engine, run.id, attempt.number)
      if (events.length === 0) return
    }
  }

  /** Events that an earlier server has stored may say more than it had time to write into the rows. */
  async #check(run: RunRow, attempt: AttemptRow): Promise<void> {
    await this.#context.files.of(run.id).position(attempt.number)
    const rows = await this.#context.store.db
      .selectFrom('step_index')
      .select(['kind', 'step'])
      .where('run_id', '=', run.id)
      .where('attempt', '=', attempt.number)
      .where('kind', 'in', ['started', 'step'])
      .orderBy('seq', 'desc')
      .execute()
    const from = rows.find(({ kind }) => kind === 'started')?.step
    if (from !== undefined) await this.#goneTo(run, attempt, from, rows[0].step)
    this.#checked.add(attempt.id)
  }

  /** What events say about the rows of the run. */
  async #note(run: RunRow, attempt: AttemptRow, events: GivenEvent[]): Promise<void> {
    const started = events.findLast((event) => event.kind === 'started')?.description.step
    const step = events.findLast((event) => event.kind === 'step')?.step ?? started
    if (step !== undefined) await this.#goneTo(run, attempt, started ?? attempt.from_step, step)
  }

  async #goneTo(run: RunRow, attempt: AttemptRow, from: number | null, step: number): Promise<void> {
    const { db } = this.#context.store
    if (from !== attempt.from_step)
      await db.updateTable('attempt').set({ from_step: from }).where('id', '=', attempt.id).execute()
    attempt.from_step = from
    run.step = step
    await db.updateTable('run').set({ step, updated_at: Date.now() }).where('id', '=', run.id).execute()
    this.#context.changes.tell(run.id)
  }

  /** A state on the way, where it is news. */
  async #told(run: RunRow, attempt: AttemptRow, job: Pick<Job, 'state' | 'reason'> & Partial<Job>): Promise<void> {
    const startedAt = attempt.started_at ?? job.startedAt ?? null
    if (attempt.state === job.state && attempt.reason === job.reason && attempt.started_at === startedAt) return
    const raw_json = job.raw === undefined ? attempt.raw_json : JSON.stringify(job.raw)
    await this.#write(run, attempt, { state: job.state, reason: job.reason, started_at: startedAt, raw_json }, {})
  }

  async #end(engine: Engine, run: RunRow, attempt: AttemptRow, job: Job): Promise<void> {
    const { files } = this.#context
    await publish(this.#context, engine, run.id, attempt.number)
    const file = files.of(run.id)
    const { state: last } = await file.position(attempt.number)
    const again = job.state === 'node_lost' && run.cancel === null && (await this.#mayTryAgain(run, attempt))
    if (!['finished', 'stopped', 'failed'].includes(last ?? '')) {
      const state = (ENDS[job.state] ?? 'failed') as 'finished' | 'stopped' | 'failed'
      const reason = `${job.reason ?? 'The run ended.'}${again ? ' Another attempt goes on from the last save.' : ''}`
      const said = { kind: 'state' as const, state, reason, time: Date.now(), source: 'server' }
      await file.append(attempt.number, [said], null)
    }
    await recordMeasurement(this.#context, run, attempt)
    crashPoint('end:before-rows')
    const ended_at = job.endedAt ?? Date.now()
    const bytes = (await file.size()) + (await engine.size(run.id).catch(() => 0))
    const ended: Partial<AttemptRow> = {
      ...{ state: job.state, reason: job.reason, exit_code: job.exitCode, ended_at },
      ...{ started_at: attempt.started_at ?? job.startedAt, raw_json: JSON.stringify(job.raw) },
    }
    if (again) await this.#again(run, attempt, ended, bytes)
    else await this.#write(run, attempt, ended, { bytes, ended_at, cancel: null })
    crashPoint('end:after-rows')
    this.#checked.delete(attempt.id)
    this.#attempts.delete(`${engine.target} ${attempt.engine_id}`)
  }

  /** The attempt's row and its run's in one transaction. Only while this attempt is the run's newest. */
  async #write(run: RunRow, attempt: AttemptRow, change: Partial<AttemptRow>, more: Partial<RunRow>): Promise<void> {
    const { db } = this.#context.store
    await db.transaction().execute(async (transaction) => {
      await transaction.updateTable('attempt').set(change).where('id', '=', attempt.id).execute()
      await transaction
        .updateTable('run')
        .set({
          ...{ state: change.state, reason: change.reason, updated_at: Date.now() },
          started_at: run.started_at ?? change.started_at ?? null,
          ...more,
        })
        .where('id', '=', run.id)
        .where('attempt', '=', attempt.number)
        .execute()
    })
    Object.assign(attempt, change)
    this.#context.changes.tell(run.id)
  }

  async #again(run: RunRow, attempt: AttemptRow, ended: Partial<AttemptRow>, bytes: number): Promise<void> {
    const next = newAttempt(run.id, attempt.number + 1, attempt.engine)
    await this.#context.store.db.transaction().execute(async (transaction) => {
      await transaction.updateTable('attempt').set(ended).where('id', '=', attempt.id).execute()
      const moved = await transaction
        .updateTable('run')
        .set({ state: 'queued', reason: ended.reason, attempt: next.number, updated_at: Date.now(), bytes })
        .where('id', '=', run.id)
        .where('attempt', '=', attempt.number)
        .executeTakeFirst()
      if (moved.numUpdatedRows === 1n) await transaction.insertInto('attempt').values(next).execute()
    })
    this.#context.changes.tell(run.id)
    this.wake(next.id)
  }

  async #mayTryAgain(run: RunRow, attempt: AttemptRow): Promise<boolean> {
    const rows = await this.#context.store.db
      .selectFrom('attempt')
      .select(['number', 'state', 'from_step', 'raw_json'])
      .where('run_id', '=', run.id)
      .where('number', '<=', attempt.number)
      .orderBy('number', 'desc')
      .limit(MOST_LOST)
      .execute()
    if (rows.length < MOST_LOST) return true
    const earlier = rows.slice(1)
    return earlier.some(({ state, from_step }) => state !== 'node_lost' || (from_step ?? 0) < (rows[0].from_step ?? 0))
  }
}

export function newAttempt(run: string, number: number, engine: string): AttemptRow {
  return {
    id: newId(),
    run_id: run,
    number,
    engine,
    engine_id: null,
    state: 'queued',
    reason: null,
    exit_code: null,
    raw_json: null,
    from_step: null,
    created_at: Date.now(),
    started_at: null,
    ended_at: null,
  }
}

/** The event as part of this run: its description names the run and the attempt that the server knows. */
function fitted(event: GivenEvent, run: RunRow, attempt: AttemptRow): GivenEvent {
  if (event.kind !== 'started') return event
  const capabilities = { ...event.description.capabilities, pause: false, step: false, save: false }
  return { ...event, description: { ...event.description, run: run.id, attempt: attempt.number, capabilities } }
}
