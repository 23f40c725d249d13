// This machine as an engine: one process per run, so many at a time, first in, first out. A job is a folder, and the
// processes stand on their own: a server that is killed finds them again when it is back.

import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { RunConfig } from '../../../configs/schema.ts'
import { environments } from '../../../environments/index.ts'
import type { RunEvent } from '../../../workers/protocol.ts'
import { crashPoint } from '../../store/crashPoint.ts'
import { readAt, sizeOf } from '../../store/events/appendOnly.ts'
import type { GivenEvent } from '../../store/events/eventFile.ts'
import { newId, ULID } from '../../store/ids.ts'
import {
  type Engine,
  type EngineCapabilities,
  type EngineCard,
  isFinal,
  type Job,
  type JobFile,
  type JobSpec,
  type LogPart,
  type Measurement,
} from '../engine.ts'
import { LOG } from './jobFolder.ts'
import { measuredConfig, measurementOf } from './measurement.ts'
import { modelRefusals } from './models.ts'
import { isRunning, signalGroup } from './processes.ts'
import { JobQueue } from './queue.ts'
import { runFiles, sizeOfFolder } from './runFiles.ts'
import { salvage } from './salvage.ts'
import { readSpool, type SpoolPlace } from './spool.ts'

export interface LocalOptions {
  /** The folder of package.json. */
  root: string
  /** Jobs and run folders lie below it. */
  folder: string
  /** At the same time. */
  maxRuns: number
  /** Whether this server is reached from this machine alone. */
  loopback: boolean
  /** Longest time of a run; null for any. */
  maxSeconds?: number | null
  /** Most memory of a run's process; null for any. */
  memoryBytes?: number | null
  /** A run that cannot find a server for so long saves and ends. */
  orphanSeconds?: number
  /** How long a run may take to save when it is asked to end, before it is killed. */
  graceSeconds?: number
  /** Folders of models beyond the bundled ones that a config may name. */
  models?: string[]
  /** Shutting the server down also ends its runs, saved; otherwise they go on. */
  stopOnClose?: boolean
  /** The built program of a run's process, and a module in the place of the learning library. */
  program?: string
  trainer?: string | null
}

export class LocalEngine implements Engine {
  readonly target = 'local'
  readonly redacts = true
  readonly capabilities: EngineCapabilities = {
    gracefulCancel: true,
    resume: true,
    rollouts: true,
    tokens: true,
    logs: ['out'],
    checkpoints: true,
    adapter: true,
    measure: true,
  }
  #options: Required<LocalOptions>
  readonly #queue: JobQueue

  constructor(options: LocalOptions) {
    this.#options = {
      maxSeconds: null,
      memoryBytes: null,
      orphanSeconds: 600,
      graceSeconds: 60,
      models: [],
      stopOnClose: true,
      program: join(options.root, 'dist/node/server/attempt.js'),
      trainer: null,
      ...options,
    }
    this.#queue = new JobQueue({ ...this.#options, jobs: this.#jobs, runs: this.#runs })
  }

  get #jobs(): string {
    return join(this.#options.folder, 'jobs')
  }

  get #runs(): string {
    return join(this.#options.folder, 'runs')
  }

  /** Finds the jobs of an earlier server again and begins to start those that wait. */
  async open(): Promise<this> {
    await this.#queue.open()
    return this
  }

  async card(): Promise<EngineCard> {
    const jobs = await this.list()
    return {
      title: 'This server',
      privacy:
        'The config and the prompts of its environments go to this server, which computes the whole run and keeps its rollouts, metrics and weights.',
      problem: existsSync(this.#options.program)
        ? null
        : `The program of a run is not built: ${this.#options.program}.`,
      maxRuns: this.#options.maxRuns,
      running: jobs.filter(({ state }) => state === 'running' || state === 'starting').length,
      queued: jobs.filter(({ state }) => state === 'queued').length,
    }
  }

  refusals(config: RunConfig): string[] {
    const problems = modelRefusals(config, this.#options)
    const bundled = new Set(environments.map(({ id }) => id))
    const others = [...config.env, ...config.eval.env].map(({ id }) => id).filter((id) => !bundled.has(id))
    if (others.length > 0 && !this.#options.loopback)
      problems.push(
        `${[...new Set(others)].join(', ')}: a server that others can reach runs bundled environments only, because any other is code.`,
      )
    return problems
  }

  notes(config: RunConfig): string[] {
    const notes: string[] = []
    if (config.browser.backend === 'webgl') notes.push('browser.backend = "webgl" needs a browser: there is none here.')
    if (config.browser.backend === 'auto')
      notes.push('Computes on a graphics card where the server has one, else on its processor.')
    return notes
  }

  async submit(spec: JobSpec, key: string): Promise<{ engineId: string }> {
    if (!ULID.test(key)) throw new Error(`internal: "${key}" is no key of a job`)
    const folder = this.#queue.folder(key)
    if (await folder.job()) return { engineId: key }
    const { root, maxSeconds, memoryBytes, orphanSeconds, trainer } = this.#options
    const { run, attempt, name, config } = spec
    const limits = { seconds: maxSeconds, memoryBytes, orphanSeconds, alive: this.#queue.alive }
    crashPoint('local:before-job')
    await folder.create(
      { run, attempt, name, config, submittedAt: Date.now(), root, runs: this.#runs, trainer, limits },
      spec.secrets,
    )
    crashPoint('local:after-job')
    this.#queue.schedule().catch(() => {})
    return { engineId: key }
  }

  async get(engineId: string): Promise<Job | null> {
    if (!ULID.test(engineId)) return null
    const folder = this.#queue.folder(engineId)
    if (!(await folder.job())) return null
    const job = { engineId, queuePosition: null, nodes: ['this server'], exitCode: null, endedAt: null }
    const begun = await folder.process()
    const exit = await folder.exit()
    const raw = { process: begun, exit, stop: await folder.stop() }
    const startedAt = begun?.startedAt ?? null
    // A process that has said its last word may take a moment to be gone, and its run folder with it.
    if (exit && !(begun && (await isRunning(begun)))) {
      const { state, reason, code, endedAt } = exit
      return { ...job, state, reason, exitCode: code, startedAt, endedAt, raw }
    }
    if (begun) return { ...job, state: 'running', reason: null, startedAt, raw }
    if (this.#queue.isStarting(engineId)) return { ...job, state: 'starting', reason: null, startedAt, raw }
    const queuePosition = (await this.#queue.waiting()).indexOf(engineId)
    const reason =
      queuePosition > 0
        ? `${queuePosition} other ${queuePosition === 1 ? 'run is' : 'runs are'} before it.`
        : 'It is the next to start.'
    return { ...job, state: 'queued', reason, queuePosition, startedAt, raw }
  }

  async list(): Promise<(Job & { key: string })[]> {
    const ids = (await readdir(this.#jobs)).filter((name) => ULID.test(name)).sort()
    const jobs = await Promise.all(ids.map((id) => this.get(id)))
    return jobs.filter((job) => job !== null).map((job) => ({ ...job, key: job.engineId }))
  }

  async cancel(engineId: string, how: 'graceful' | 'now'): Promise<void> {
    const folder = this.#queue.folder(engineId)
    if (!(await folder.job()) || (await folder.exit())) return
    if (!(await folder.stop())) await folder.askToStop({ why: 'cancel', at: Date.now() })
    // A job that waits is taken out of the queue between two starts.
    await this.#queue.alone(async () => {
      const process = await folder.process()
      if (!process && !this.#queue.isStarting(engineId)) {
        const reason = 'Cancelled before it began.'
        await folder.end({ state: 'cancelled', reason, code: null, endedAt: Date.now() })
      } else if (process && how === 'now') {
        const exit = { state: 'cancelled' as const, reason: 'Ended at once.', code: null, endedAt: Date.now() }
        await this.#queue.kill(engineId, folder, process.pid, exit)
      } else if (process) signalGroup(process.pid, 'SIGTERM')
    })
    this.#queue.changed(engineId)
  }

  async readLog(engineId: string, stream: string, offset: number, most: number): Promise<LogPart> {
    if (!ULID.test(engineId) || stream !== 'out') return { bytes: new Uint8Array(), nextOffset: offset, eof: true }
    const folder = this.#queue.folder(engineId)
    const ended = (await folder.exit()) !== null || !existsSync(folder.path)
    const bytes = await readAt(join(folder.path, LOG), offset, most)
    const nextOffset = offset + bytes.length
    return { bytes, nextOffset, eof: ended && nextOffset >= (await sizeOf(join(folder.path, LOG))) }
  }

  async readEvents(engineId: string, cursor: string | null): Promise<{ events: GivenEvent[]; cursor: string | null }> {
    const folder = this.#queue.folder(engineId)
    const job = await folder.job()
    if (!job) return { events: [], cursor }
    const from = placeOf(cursor)
    const exit = await folder.exit()
    const { events, place } = await readSpool(folder.spool, from)
    if (events.length > 0) return { events: events.map(given), cursor: cursorOf(place, from.salvaged) }
    if (exit?.state !== 'node_lost' || from.salvaged) return { events: [], cursor }
    const found = await salvage(this.#runs, job.run, place.seq)
    return { events: found.map(given), cursor: cursorOf(place, true) }
  }

  files(run: string): Promise<JobFile[]> {
    return runFiles(this.#runs, run)
  }

  size(run: string): Promise<number> {
    return sizeOfFolder(join(this.#runs, run))
  }

  async forget(engineId: string): Promise<void> {
    if (ULID.test(engineId)) await this.#queue.folder(engineId).remove()
  }

  async remove(run: string): Promise<void> {
    if (ULID.test(run))
      await rm(join(this.#runs, run), { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
  }

  onChange(listener: (engineId: string) => void): () => void {
    return this.#queue.onChange(listener)
  }

  /** Two steps of a small run of this model, in the queue like any other. */
  async measure(model: string, signal: AbortSignal): Promise<Measurement> {
    const key = newId()
    const config = measuredConfig(model)
    const problem = this.refusals(config)[0]
    if (problem) throw new Error(problem)
    await this.submit({ run: key, attempt: 1, name: 'measurement', project: '', config, secrets: {} }, key)
    try {
      const events: GivenEvent[] = []
      for (let cursor: string | null = null; ; ) {
        const state = (await this.get(key))?.state ?? 'node_lost'
        const read: Awaited<ReturnType<Engine['readEvents']>> = await this.readEvents(key, cursor)
        events.push(...read.events)
        cursor = read.cursor
        if (isFinal(state) && read.events.length === 0) break
        if (read.events.length === 0) await new Promise((resolve) => setTimeout(resolve, 200))
        signal.throwIfAborted()
      }
      return measurementOf(events)
    } finally {
      await this.cancel(key, 'now')
      await this.#queue.gone(key)
      await Promise.all([this.remove(key), this.forget(key)])
    }
  }

  close(): Promise<void> {
    return this.#queue.close()
  }
}

function given({ run: _run, attempt: _attempt, seq: _seq, ...event }: RunEvent): GivenEvent {
  return event
}

function placeOf(cursor: string | null): SpoolPlace & { salvaged: boolean } {
  if (cursor === null) return { segment: 0, offset: 0, seq: 0, salvaged: false }
  const [segment, offset, seq, salvaged] = cursor.split(':').map(Number)
  return { segment, offset, seq, salvaged: salvaged === 1 }
}

function cursorOf({ segment, offset, seq }: SpoolPlace, salvaged: boolean): string {
  return `${segment}:${offset}:${seq}:${salvaged ? 1 : 0}`
}
