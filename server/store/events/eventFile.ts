// The events of one run: appended by the one who follows its engine, numbered here, read by any number of followers. The
// file is the truth and the database its index: what a crash left out of the index is read from the file again.

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Kysely, Transaction } from 'kysely'
import type { GroupRecord, RunEvent, RunEventBody } from '../../../workers/protocol.ts'
import { crashPoint } from '../crashPoint.ts'
import type { Database } from '../tables/index.ts'
import type { StepIndexRow } from '../tables/runs.ts'
import { appendAt, readAt, sizeOf } from './appendOnly.ts'
import { type BatchEnd, batchEndOf, batchLine, type EventHead, eventLine, headOf } from './lines.ts'

/** An event as it comes from an engine: the store gives it its run, attempt and counter. */
export type GivenEvent = RunEventBody & { time: number; source: string }

/** An event's line as it lies in the file: JSON without its line end. */
export interface StoredLine extends EventHead {
  json: string
}

const MARK_EVERY_BYTES = 65_536
const READ_BYTES = 262_144

interface End {
  seq: number
  cursor: string | null
  /** The attempt to which the cursor belongs. */
  attempt: number
  bytes: number
  samplesBytes: number
  state: string | null
}

export class EventFile {
  readonly run: string
  #db: Kysely<Database>
  #folder: string
  #end: Promise<End> | null = null
  #writing: Promise<unknown> = Promise.resolve()
  #listeners = new Set<() => void>()
  #markedAt = 0

  constructor(db: Kysely<Database>, folder: string, run: string) {
    this.#db = db
    this.#folder = folder
    this.run = run
  }

  get #events(): string {
    return join(this.#folder, 'events.jsonl')
  }

  get #samples(): string {
    return join(this.#folder, 'samples.jsonl')
  }

  /** The counter of the last event; how far the engine of `attempt` has been read, and what state it told last. */
  async position(attempt: number): Promise<{ seq: number; cursor: string | null; state: string | null }> {
    const { seq, ...end } = await this.#known()
    return end.attempt === attempt ? { seq, cursor: end.cursor, state: end.state } : { seq, cursor: null, state: null }
  }

  /** Bytes of events and samples. */
  async size(): Promise<number> {
    const { bytes, samplesBytes } = await this.#known()
    return bytes + samplesBytes
  }

  /**
   * Appends a batch, all of it or nothing, together with how far the engine has been read, and tells the followers. Throws
   * `DiskFull` when there is no room.
   */
  append(attempt: number, given: GivenEvent[], cursor: string | null): Promise<RunEvent[]> {
    const done = this.#writing.then(() => this.#append(attempt, given, cursor))
    this.#writing = done.catch(() => {})
    return done
  }

  async #append(attempt: number, given: GivenEvent[], cursor: string | null): Promise<RunEvent[]> {
    const before = await this.#known()
    const events = given.map((event, i) => ({ ...event, run: this.run, attempt, seq: before.seq + 1 + i }) as RunEvent)
    const groups = groupLines(events, before.samplesBytes)
    const end: BatchEnd = {
      end: before.seq + events.length,
      attempt,
      cursor: cursor ?? (before.attempt === attempt ? before.cursor : null),
      samples: groups.index,
      samplesBytes: before.samplesBytes + groups.bytes.length,
      state: lastState(events) ?? (before.attempt === attempt ? before.state : null),
    }
    const durable = events.some(isMilestone)
    if (before.bytes === 0) await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    crashPoint('events:before-samples')
    if (groups.bytes.length > 0) await appendAt(this.#samples, before.samplesBytes, groups.bytes, durable)
    crashPoint('events:before-append')
    const text = events.map(eventLine).join('') + batchLine(end)
    const bytes = Buffer.from(text)
    await appendAt(this.#events, before.bytes, bytes, durable)
    crashPoint('events:before-index')
    const after: End = { ...endOf(end), bytes: before.bytes + bytes.length }
    this.#end = Promise.resolve(after)
    try {
      await this.#db.transaction().execute((db) => this.#index(db, text, before.bytes, after))
    } catch (error) {
      // The events are in the file: whoever asks next finds them there and brings the index up to them.
      this.#end = null
      throw error
    }
    crashPoint('events:after-index')
    for (const listener of [...this.#listeners]) listener()
    return events
  }

  /** Called after each batch; returns the way to be called no more. */
  onAppend(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Events after counter `seq`, some at a time: an empty array once there are no more of them at the moment. */
  async *read(seq: number): AsyncGenerator<StoredLine[]> {
    let at = await this.#before(seq)
    for (;;) {
      const { bytes: end } = await this.#known()
      let chunk = await readAt(this.#events, at, Math.min(READ_BYTES, end - at))
      // A line longer than the chunk is read whole.
      while (chunk.length > 0 && !chunk.includes(10) && at + chunk.length < end)
        chunk = await readAt(this.#events, at, Math.min(chunk.length * 4, end - at))
      const whole = chunk.subarray(0, chunk.lastIndexOf(10) + 1)
      at += whole.length
      const lines: StoredLine[] = []
      for (const json of whole.toString('utf8').split('\n')) {
        const head = headOf(json)
        if (head && head.seq > seq) lines.push({ ...head, json })
      }
      if (whole.length === 0 || lines.length > 0) yield lines
    }
  }

  /** The lines of the index's rows, in their order. */
  async lines(rows: Pick<StepIndexRow, 'byte_offset' | 'byte_length'>[]): Promise<string[]> {
    return Promise.all(
      rows.map(async (row) => (await readAt(this.#events, row.byte_offset, row.byte_length)).toString('utf8')),
    )
  }

  /** The groups of a `samples` event. */
  async groups(row: Pick<StepIndexRow, 'byte_offset' | 'byte_length'>): Promise<GroupRecord[]> {
    const text = (await readAt(this.#samples, row.byte_offset, row.byte_length)).toString('utf8')
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as GroupRecord)
  }

  /** Finds the last whole batch, and brings the index up to it. */
  #known(): Promise<End> {
    this.#end ??= this.#recover().catch((error) => {
      this.#end = null
      throw error
    })
    return this.#end
  }

  async #recover(): Promise<End> {
    const row = await this.#db.selectFrom('event_file').selectAll().where('run_id', '=', this.run).executeTakeFirst()
    const mark = await this.#db
      .selectFrom('event_mark')
      .select((eb) => eb.fn.max('byte_offset').as('at'))
      .where('run_id', '=', this.run)
      .executeTakeFirst()
    this.#markedAt = Number(mark?.at ?? 0)
    const from = row?.indexed_bytes ?? 0
    let end: End = { seq: 0, cursor: null, attempt: 0, bytes: 0, samplesBytes: 0, state: null }
    // The line that ends the last indexed batch says the cursor: it is read again.
    const size = await sizeOf(this.#events)
    const back = Math.min(from, READ_BYTES)
    const read = await readAt(this.#events, from - back, Math.max(0, size - from) + back)
    const start = back < from ? read.indexOf(10) + 1 : 0
    const text = read.subarray(start, read.lastIndexOf(10) + 1).toString('utf8')
    let at = from - back + start
    let pending = { text: '', at }
    const unindexed: { text: string; at: number; end: End }[] = []
    for (const line of text.split(/(?<=\n)/)) {
      if (pending.text === '') pending.at = at
      pending.text += line
      at += Buffer.byteLength(line)
      const batch = batchEndOf(line)
      if (!batch) continue
      end = { ...endOf(batch), bytes: at }
      if (at > from) unindexed.push({ ...pending, end })
      pending = { text: '', at }
    }
    if (end.bytes < from) {
      throw new Error(
        `The event file of run ${this.run} is shorter than the database knows it (${end.bytes} of ${from} bytes): it was ` +
          'cut or replaced from outside. Restore the data folder and the database from the same backup.',
      )
    }
    for (const batch of unindexed)
      await this.#db.transaction().execute((db) => this.#index(db, batch.text, batch.at, batch.end))
    return end
  }

  async #index(db: Transaction<Database>, text: string, offset: number, end: End): Promise<void> {
    let at = offset
    const steps: StepIndexRow[] = []
    for (const line of text.split('\n')) {
      const length = Buffer.byteLength(line)
      const head = headOf(line)
      if (head && at - this.#markedAt >= MARK_EVERY_BYTES) {
        this.#markedAt = at
        await db
          .insertInto('event_mark')
          .values({ run_id: this.run, seq: head.seq, byte_offset: at })
          .onConflict((conflict) => conflict.doNothing())
          .execute()
      }
      if (head?.kind === 'started') {
        const { attempt, description } = JSON.parse(line) as Extract<RunEvent, { kind: 'started' }>
        await this.#supersede(db, attempt, description.step)
        const place = { byte_offset: at, byte_length: length, items: 1, superseded: 0 }
        const { step } = description
        steps.push({ run_id: this.run, seq: head.seq, attempt, step, kind: 'started', ...place })
      }
      if (head?.kind === 'step' || head?.kind === 'evaluation') {
        const { attempt, step } = JSON.parse(line) as Extract<RunEvent, { kind: 'step' }>
        const place = { byte_offset: at, byte_length: length, items: 1, superseded: 0 }
        steps.push({ run_id: this.run, seq: head.seq, attempt, step, kind: head.kind, ...place })
      }
      if (head?.kind === 'samples') {
        const { attempt, step, split } = JSON.parse(line) as Extract<RunEvent, { kind: 'samples' }>
        const batch = batchEndOf(text.slice(text.lastIndexOf('\n', text.length - 2) + 1))
        const place = batch?.samples.find(({ seq }) => seq === head.seq)
        steps.push({
          ...{ run_id: this.run, seq: head.seq, attempt, step, kind: `samples/${split}`, superseded: 0 },
          ...{ byte_offset: place?.offset ?? 0, byte_length: place?.length ?? 0, items: place?.items ?? 0 },
        })
      }
      at += length + 1
    }
    for (const row of steps) {
      // An evaluation at the step of the save itself is made again as well.
      if (row.attempt > 1 && row.kind !== 'started')
        await db
          .updateTable('step_index')
          .set({ superseded: 1 })
          .where('run_id', '=', this.run)
          .where('kind', '=', row.kind)
          .where('step', '=', row.step)
          .where('attempt', '<', row.attempt)
          .execute()
      await db
        .insertInto('step_index')
        .values(row)
        .onConflict((conflict) => conflict.doNothing())
        .execute()
    }
    const row = { seq: end.seq, indexed_bytes: end.bytes, samples_bytes: end.samplesBytes }
    await db
      .insertInto('event_file')
      .values({ run_id: this.run, ...row })
      .onConflict((conflict) => conflict.column('run_id').doUpdateSet(row))
      .execute()
  }

  /** Steps that an attempt does again are no longer the run's. */
  async #supersede(db: Transaction<Database>, attempt: number, step: number): Promise<void> {
    await db
      .updateTable('step_index')
      .set({ superseded: 1 })
      .where('run_id', '=', this.run)
      .where('attempt', '<', attempt)
      .where('step', '>', step)
      .where('kind', '!=', 'started')
      .execute()
  }

  /** A place in the file at or before the event that follows counter `seq`. */
  async #before(seq: number): Promise<number> {
    await this.#known()
    const mark = await this.#db
      .selectFrom('event_mark')
      .select('byte_offset')
      .where('run_id', '=', this.run)
      .where('seq', '<=', seq + 1)
      .orderBy('seq', 'desc')
      .limit(1)
      .executeTakeFirst()
    return mark?.byte_offset ?? 0
  }
}

function endOf({ end, cursor, attempt, samplesBytes, state }: BatchEnd): Omit<End, 'bytes'> {
  return { seq: end, cursor, attempt, samplesBytes, state }
}

function lastState(events: RunEvent[]): string | null {
  const event = events.findLast(({ kind }) => kind === 'state')
  return event?.kind === 'state' ? event.state : null
}

/** What has been shown as lasting has to last, also through a power cut. */
function isMilestone(event: RunEvent): boolean {
  return event.kind === 'saved' || event.kind === 'state'
}

function groupLines(events: RunEvent[], offset: number): { bytes: Buffer; index: BatchEnd['samples'] } {
  const parts: Buffer[] = []
  const index: BatchEnd['samples'] = []
  let at = offset
  for (const event of events) {
    if (event.kind !== 'samples') continue
    const bytes = Buffer.from(event.groups.map((group) => `${JSON.stringify(group)}\n`).join(''))
    const items = event.groups.reduce((sum, { rollouts }) => sum + rollouts.length, 0)
    index.push({ seq: event.seq, offset: at, length: bytes.length, items })
    parts.push(bytes)
    at += bytes.length
  }
  return { bytes: Buffer.concat(parts), index }
}
