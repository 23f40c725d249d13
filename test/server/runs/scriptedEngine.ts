// An engine whose jobs do nothing but tell: so many events each, some at a time, as a cluster would at its own pace.

import type {
  Engine,
  EngineCapabilities,
  EngineCard,
  Job,
  JobFile,
  JobSpec,
  LogPart,
} from '../../../server/engines/engine.ts'
import type { GivenEvent } from '../../../server/store/events/eventFile.ts'

export interface Script {
  /** Of one job. */
  events: number
  /** Told at once. */
  batch: number
  everyMs: number
}

interface Scripted {
  begun: number
  cancelled: boolean
}

export class ScriptedEngine implements Engine {
  readonly target = 'scripted'
  readonly capabilities: EngineCapabilities = {
    ...{ gracefulCancel: true, resume: false, rollouts: true, tokens: false, logs: [] },
    ...{ checkpoints: false, adapter: false, measure: false },
  }
  readonly #script: Script
  readonly #jobs = new Map<string, Scripted>()
  readonly #listeners = new Set<(engineId: string) => void>()
  readonly #timer: NodeJS.Timeout

  constructor(script: Script) {
    this.#script = script
    this.#timer = setInterval(() => {
      for (const id of this.#jobs.keys()) for (const listener of this.#listeners) listener(id)
    }, script.everyMs)
  }

  async card(): Promise<EngineCard> {
    return { title: 'Scripted', privacy: '', problem: null, maxRuns: null, running: this.#jobs.size, queued: 0 }
  }

  refusals = () => []
  notes = () => []

  async submit(_spec: JobSpec, key: string): Promise<{ engineId: string }> {
    if (!this.#jobs.has(key)) this.#jobs.set(key, { begun: Date.now(), cancelled: false })
    return { engineId: key }
  }

  async get(engineId: string): Promise<Job | null> {
    const job = this.#jobs.get(engineId)
    if (!job) return null
    const state = job.cancelled ? 'cancelled' : this.#told(job) >= this.#script.events ? 'succeeded' : 'running'
    const endedAt = state === 'running' ? null : Date.now()
    return {
      engineId,
      state,
      reason: null,
      exitCode: 0,
      queuePosition: null,
      nodes: [],
      startedAt: job.begun,
      endedAt,
      raw: null,
    }
  }

  async list(): Promise<(Job & { key: string })[]> {
    const jobs = await Promise.all([...this.#jobs.keys()].map(async (key) => ({ key, job: await this.get(key) })))
    return jobs.flatMap(({ key, job }) => (job ? [{ ...job, key }] : []))
  }

  async cancel(engineId: string): Promise<void> {
    const job = this.#jobs.get(engineId)
    if (job) job.cancelled = true
  }

  async readLog(): Promise<LogPart> {
    return { bytes: new Uint8Array(), nextOffset: 0, eof: true }
  }

  async readEvents(engineId: string, cursor: string | null): Promise<{ events: GivenEvent[]; cursor: string | null }> {
    const job = this.#jobs.get(engineId)
    const from = Number(cursor ?? 0)
    const to = job ? Math.min(this.#told(job), this.#script.events) : from
    const events = Array.from({ length: to - from }, (_, i) => scripted(from + i, this.#when(job, from + i)))
    return { events, cursor: to === 0 ? null : String(to) }
  }

  async files(): Promise<JobFile[]> {
    return []
  }

  async size(): Promise<number> {
    return 0
  }

  async forget(): Promise<void> {}
  async remove(): Promise<void> {}

  onChange(listener: (engineId: string) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
  }

  /** The moment at which an event was there to be read. */
  #when(job: Scripted | undefined, index: number): number {
    return (job?.begun ?? 0) + (Math.floor(index / this.#script.batch) + 1) * this.#script.everyMs
  }

  #told({ begun }: Scripted): number {
    return Math.floor((Date.now() - begun) / this.#script.everyMs) * this.#script.batch
  }
}

/** Every tenth is a step with as many metrics as a real one has. */
function scripted(index: number, time: number): GivenEvent {
  const at = { time, source: 'scripted' }
  if (index % 10 < 9)
    return { kind: 'progress', step: Math.floor(index / 10), phase: 'answer', done: index % 10, total: 10, ...at }
  const metrics = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`metric/${i}`, Math.sin(index + i)]))
  const seconds = { ask: 0.1, answer: 1, judge: 0.1, learn: 1, total: 2.2 }
  return { kind: 'step', step: (index + 1) / 10, metrics, seconds, learned: true, ...at }
}
