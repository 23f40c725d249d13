// The events of a run on their way out: numbered, handed to whoever listens, and kept until they are stored.
//
// Counters increase by one. After a crash they go on above every one that may have been seen: a ceiling is stored ahead
// of them, and a new attempt begins there.

import type { RunEvent, RunEventBody } from '../protocol.ts'
import { isKept, type RunWriter } from '../storage/store.ts'

/** Counters set aside at a time. */
const RESERVE = 5_000
const PROGRESS_EVERY_MS = 100

export interface EventSource {
  run: string
  attempt: number
  source: string
}

export class EventLog {
  #source: EventSource
  #seq: number
  #ceiling: number
  #listeners: Iterable<(event: RunEvent) => void>
  #store: (ceiling: number) => Promise<void>
  #pending: RunEvent[] = []
  #reserving = false
  #lastProgress = 0
  /** One after the other: no event is stored twice. */
  #flushing: Promise<void> = Promise.resolve()

  /** The first event has counter `seq` + 1. `store` makes a ceiling durable. */
  constructor(
    source: EventSource,
    seq: number,
    listeners: Iterable<(event: RunEvent) => void>,
    store: (ceiling: number) => Promise<void>,
  ) {
    this.#source = source
    this.#seq = seq
    this.#ceiling = seq
    this.#listeners = listeners
    this.#store = store
  }

  get seq(): number {
    return this.#seq
  }

  get ceiling(): number {
    return this.#ceiling
  }

  /** Sets counters aside, now and from here on whenever they run low. */
  async reserve(): Promise<void> {
    this.#reserving = true
    this.#ceiling = this.#seq + RESERVE
    await this.#store(this.#ceiling)
  }

  emit(body: RunEventBody): void {
    this.announce(this.compose(body))
    // What fails here fails again, and is told, when the step is stored.
    if (this.#reserving && this.#ceiling - this.#seq < RESERVE / 2) this.reserve().catch(() => {})
  }

  /** An event that is stored with the others before anybody hears of it. */
  compose(body: RunEventBody): RunEvent {
    const event: RunEvent = { ...this.#source, seq: ++this.#seq, time: Date.now(), ...body }
    if (isKept(event)) this.#pending.push(event)
    return event
  }

  announce(event: RunEvent): void {
    for (const listener of this.#listeners) listener(event)
  }

  /** Progress may come at any rate; the world hears of it ten times a second. */
  progress(body: Extract<RunEventBody, { kind: 'progress' }>): void {
    const now = performance.now()
    if (now - this.#lastProgress < PROGRESS_EVERY_MS && body.done < body.total) return
    this.#lastProgress = now
    this.emit(body)
  }

  /** Hands the kept events to the store; those that it has no room for are tried again next time. */
  flush(writer: RunWriter): Promise<void> {
    this.#flushing = this.#flushing
      .catch(() => {})
      .then(async () => {
        // A copy: more come while these are stored.
        const events = [...this.#pending]
        if (events.length === 0) return
        await writer.append(events)
        this.#pending = this.#pending.slice(events.length)
      })
    return this.#flushing
  }

  /** Everything was taken down by a stop; the next attempt may count on without a gap. */
  async settle(): Promise<void> {
    this.#reserving = false
    this.#ceiling = this.#seq
    await this.#store(this.#ceiling)
  }
}
