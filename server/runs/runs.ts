// What may be asked of runs: submit, look, cancel, resume, clone, change, delete. Writes down what is wanted; the driver
// does it.

import { createHash } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { getAt } from '../../configs/path.ts'
import type { RunConfig } from '../../configs/schema.ts'
import { isFinal } from '../engines/engine.ts'
import { crashPoint } from '../store/crashPoint.ts'
import { newId } from '../store/ids.ts'
import type { AttemptRow, RunRow } from '../store/tables/runs.ts'
import type { Caller } from './caller.ts'
import type { RunsContext } from './context.ts'
import { type Driver, newAttempt } from './driver.ts'
import { engineOf, loadConfig } from './preview.ts'
import { noRun, Refused } from './problem.ts'
import { type CloneRequest, REMEMBERED_MS, type SubmitRequest } from './requests.ts'
import { refuseWithoutRoom } from './room.ts'
import { type AttemptView, attemptView, type RunDetails, type RunView, viewOf } from './views.ts'

export interface Filter {
  states?: string[]
  label?: string
  /** Part of the name, in any case. */
  text?: string
  /** Runs older than this one. */
  before?: string
  limit: number
}

export class Runs {
  readonly context: RunsContext
  readonly #driver: Driver

  constructor(context: RunsContext, driver: Driver) {
    this.context = context
    this.#driver = driver
  }

  /** `replayed`: the key has been seen with the same request, and this is its run. */
  async submit(caller: Caller, request: SubmitRequest, key: string | null, clonedFrom: string | null = null) {
    const { db } = this.context.store
    const digest = createHash('sha256')
      .update(canonical({ ...request, clonedFrom }))
      .digest('hex')
    if (key !== null) {
      const before = await this.#remembered(caller, key, digest)
      if (before) return { run: before, replayed: true }
    }
    const engine = engineOf(this.context, request.target)
    const loaded = loadConfig(request)
    if (loaded.problems)
      throw new Refused(422, loaded.problems.map(({ sentence }) => sentence).join(' '), loaded.problems)
    const { config } = loaded
    const refusals = engine.refusals(config)
    if (refusals.length > 0) throw new Refused(422, refusals.join(' '))
    await this.context.secrets(caller.project, request.secrets).catch((error: Error) => {
      throw new Refused(422, error.message)
    })
    await refuseWithoutRoom(this.context, caller.project)

    const run = newRun(caller, request, config, clonedFrom)
    const attempt = newAttempt(run.id, 1, request.target)
    crashPoint('submit:before-rows')
    const inserted = await db.transaction().execute(async (transaction) => {
      if (key !== null) {
        const row = { caller: caller.id, key, digest, run_id: run.id, created_at: Date.now() }
        const { numInsertedOrUpdatedRows } = await transaction
          .insertInto('idempotency')
          .values(row)
          .onConflict((conflict) => conflict.doNothing())
          .executeTakeFirstOrThrow()
        if (numInsertedOrUpdatedRows === 0n) return false
      }
      await transaction.insertInto('run').values(run).execute()
      await transaction.insertInto('attempt').values(attempt).execute()
      return true
    })
    crashPoint('submit:after-rows')
    if (!inserted) return { run: (await this.#remembered(caller, key as string, digest)) as RunView, replayed: true }
    this.#driver.wake(attempt.id)
    return { run: viewOf(run), replayed: false }
  }

  async list(caller: Caller, { states, label, text, before, limit }: Filter): Promise<RunView[]> {
    let query = this.context.store.db.selectFrom('run').selectAll().where('deleted_at', 'is', null)
    if (!caller.operator) query = query.where('project', '=', caller.project)
    if (states) query = query.where('state', 'in', states)
    if (before) query = query.where('id', '<', before)
    if (text) query = query.where((eb) => eb(eb.fn('lower', ['name']), 'like', `%${escaped(text.toLowerCase())}%`))
    if (label) query = query.where('labels_json', 'like', `%${escaped(JSON.stringify(label))}%`)
    const rows = await query.orderBy('id', 'desc').limit(limit).execute()
    return rows.map(viewOf)
  }

  async get(caller: Caller, id: string): Promise<RunDetails> {
    const row = await this.row(caller, id)
    const attempts = await this.attempts(id)
    const newest = attempts.at(-1)
    const engine = this.context.engines.get(row.target)
    const job =
      row.state === 'queued' && newest?.engine_id ? await engine?.get(newest.engine_id).catch(() => null) : null
    return {
      ...viewOf(row),
      config: JSON.parse(row.config_json),
      attempts: await Promise.all(attempts.map((row) => this.#attemptView(row))),
      capabilities: engine?.capabilities ?? NOTHING,
      queuePosition: job?.queuePosition ?? null,
      pricePerGpuHour: engine?.pricePerGpuHour ?? null,
      at: Date.now(),
    }
  }

  async #attemptView(row: AttemptRow): Promise<AttemptView> {
    const engine = this.context.engines.get(row.engine)
    const starts =
      engine?.starts && (row.engine_id === null ? [] : await engine.starts(row.engine_id).catch(() => null))
    return attemptView(row, starts ?? null)
  }

  /** The row of a run that the caller may see. */
  async row(caller: Caller, id: string): Promise<RunRow> {
    const row = await this.context.store.db.selectFrom('run').selectAll().where('id', '=', id).executeTakeFirst()
    if (!row || row.deleted_at !== null || !(caller.operator || row.project === caller.project)) throw noRun(id)
    return row
  }

  attempts(id: string): Promise<AttemptRow[]> {
    return this.context.store.db.selectFrom('attempt').selectAll().where('run_id', '=', id).orderBy('number').execute()
  }

  async change(caller: Caller, id: string, { name, labels }: { name?: string; labels?: string[] }): Promise<RunView> {
    await this.row(caller, id)
    const set = {
      ...(name !== undefined && { name }),
      ...(labels !== undefined && { labels_json: JSON.stringify([...new Set(labels)]) }),
      updated_at: Date.now(),
    }
    await this.context.store.db.updateTable('run').set(set).where('id', '=', id).execute()
    this.context.changes.tell(id)
    return viewOf(await this.row(caller, id))
  }

  /** Asks for an end. A run that has ended stays as it is. */
  async cancel(caller: Caller, id: string, graceful: boolean): Promise<RunView> {
    const row = await this.row(caller, id)
    if (!isFinal(row.state)) {
      await this.context.store.db
        .updateTable('run')
        .set({ cancel: graceful ? 'graceful' : 'now', updated_at: Date.now() })
        .where('id', '=', id)
        .where('ended_at', 'is', null)
        .execute()
      crashPoint('cancel:after-row')
      await this.#wakeNewest(id)
      this.context.changes.tell(id)
    }
    return viewOf(await this.row(caller, id))
  }

  /** A new attempt of an ended run, from its newest save. */
  async resume(caller: Caller, id: string, maxSteps?: number): Promise<RunView> {
    const row = await this.row(caller, id)
    if (!isFinal(row.state)) throw new Refused(409, `Run ${id} is ${row.state}: only a run that has ended is resumed.`)
    const engine = engineOf(this.context, row.target)
    if (!engine.capabilities.resume) throw new Refused(422, `${row.target} cannot resume a run: clone it.`)
    const given = JSON.parse(row.config_json) as RunConfig
    const loaded = loadConfig({ config: { ...given, max_steps: maxSteps ?? given.max_steps } })
    if (loaded.problems) throw new Refused(422, loaded.problems[0].sentence, loaded.problems)
    const { config } = loaded
    if (row.step >= config.max_steps && row.state === 'succeeded')
      throw new Refused(422, `Run ${id} has taken all of its ${row.step} steps: give a larger maxSteps to go further.`)
    await refuseWithoutRoom(this.context, row.project)
    const attempt = newAttempt(id, row.attempt + 1, row.target)
    await this.context.store.db.transaction().execute(async (transaction) => {
      const { numUpdatedRows } = await transaction
        .updateTable('run')
        .set({
          ...{ state: 'queued', reason: null, attempt: attempt.number, cancel: null, ended_at: null },
          ...{ config_json: JSON.stringify(config), max_steps: config.max_steps, updated_at: Date.now() },
        })
        .where('id', '=', id)
        .where('state', '=', row.state)
        .where('attempt', '=', row.attempt)
        .where('deleted_at', 'is', null)
        .executeTakeFirst()
      if (numUpdatedRows === 0n) throw new Refused(409, `Run ${id} has changed meanwhile: look at it again.`)
      await transaction.insertInto('attempt').values(attempt).execute()
    })
    crashPoint('resume:after-rows')
    this.#driver.wake(attempt.id)
    this.context.changes.tell(id)
    return viewOf(await this.row(caller, id))
  }

  /** A new run with the config of this one, but for what is put over it. */
  async clone(caller: Caller, id: string, request: CloneRequest, key: string | null) {
    const row = await this.row(caller, id)
    const { set, name, labels, target } = request
    const submit: SubmitRequest = {
      config: JSON.parse(row.config_json),
      set,
      target: target ?? row.target,
      name: name ?? row.name,
      labels: labels ?? JSON.parse(row.labels_json),
      secrets: JSON.parse(row.secrets_json),
    }
    return this.submit(caller, submit, key, id)
  }

  async delete(caller: Caller, id: string): Promise<void> {
    const row = await this.row(caller, id)
    if (!isFinal(row.state)) throw new Refused(409, `Run ${id} is ${row.state}: cancel it before it is deleted.`)
    const { numUpdatedRows } = await this.context.store.db
      .updateTable('run')
      .set({ deleted_at: Date.now() })
      .where('id', '=', id)
      .where('state', '=', row.state)
      .executeTakeFirst()
    if (numUpdatedRows === 0n) throw new Refused(409, `Run ${id} has changed meanwhile: look at it again.`)
    crashPoint('delete:after-mark')
    await this.erase(id)
  }

  /** Removes what is left of a run that is marked as deleted; may be repeated. The rows go last. */
  async erase(id: string): Promise<void> {
    const { store, artifacts, engines, files, redaction } = this.context
    const artifactRows = await store.db.selectFrom('artifact').select('place').where('run_id', '=', id).execute()
    for (const { place } of artifactRows) await artifacts.remove(place)
    for (const { engine, engine_id } of await this.attempts(id)) {
      const computes = engines.get(engine)
      if (engine_id) await computes?.forget(engine_id)
      await computes?.remove(id)
    }
    await rm(files.folder(id), { recursive: true, force: true })
    files.forget(id)
    redaction.forget(id)
    crashPoint('delete:before-rows')
    await store.db.transaction().execute(async (db) => {
      for (const table of ['artifact', 'step_index', 'event_mark', 'event_file', 'attempt', 'idempotency'] as const)
        await db.deleteFrom(table).where('run_id', '=', id).execute()
      await db.updateTable('measurement').set({ run_id: null }).where('run_id', '=', id).execute()
      await db.deleteFrom('run').where('id', '=', id).execute()
    })
    this.context.changes.tell(id)
  }

  async #wakeNewest(id: string): Promise<void> {
    const newest = (await this.attempts(id)).at(-1)
    if (newest) this.#driver.wake(newest.id)
  }

  /** The run of a key; null where the key is new. Another request under it is refused. */
  async #remembered(caller: Caller, key: string, digest: string): Promise<RunView | null> {
    const { db } = this.context.store
    const row = await db
      .selectFrom('idempotency')
      .selectAll()
      .where('caller', '=', caller.id)
      .where('key', '=', key)
      .executeTakeFirst()
    if (!row) return null
    if (row.created_at < Date.now() - REMEMBERED_MS) {
      await db.deleteFrom('idempotency').where('caller', '=', caller.id).where('key', '=', key).execute()
      return null
    }
    if (row.digest !== digest)
      throw new Refused(422, 'This Idempotency-Key was used for another request: take a new key for a new run.')
    const run = await db.selectFrom('run').selectAll().where('id', '=', row.run_id).executeTakeFirst()
    if (!run || run.deleted_at !== null) throw new Refused(410, 'The run of this Idempotency-Key has been deleted.')
    return viewOf(run)
  }
}

const NOTHING: RunDetails['capabilities'] = {
  gracefulCancel: false,
  resume: false,
  rollouts: true,
  tokens: true,
  logs: [],
  checkpoints: true,
  adapter: true,
  measure: false,
}

function newRun(caller: Caller, request: SubmitRequest, config: RunConfig, clonedFrom: string | null): RunRow {
  const id = newId()
  const now = Date.now()
  return {
    id,
    project: caller.project,
    owner: caller.id,
    name: request.name ?? config.name ?? `${config.env[0] ? getAt(config.env[0], ['id']) : 'run'} ${config.model}`,
    target: request.target,
    config_json: JSON.stringify(config),
    labels_json: JSON.stringify([...new Set(request.labels)]),
    secrets_json: JSON.stringify(request.secrets),
    state: 'queued',
    reason: null,
    attempt: 1,
    step: 0,
    max_steps: config.max_steps,
    cancel: null,
    cloned_from: clonedFrom,
    created_at: now,
    updated_at: now,
    started_at: null,
    ended_at: null,
    deleted_at: null,
    bytes: 0,
  }
}

/** The same text for the same value, in whatever order its keys came. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const entries = Object.entries(value).filter(([, inner]) => inner !== undefined)
  entries.sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([key, inner]) => `${JSON.stringify(key)}:${canonical(inner)}`).join(',')}}`
}

// `%` and `_` of a text that is looked for; SQLite and Postgres both know no escape by default, so they match anything.
function escaped(text: string): string {
  return text.replaceAll('%', '_')
}
