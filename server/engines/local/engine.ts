// This machine as an engine: one process per run, so many at a time, first in, first out. A job is a folder, and the
// processes stand on their own: a server that is killed finds them again when it is back.

import { spawn } from 'node:child_process'
import { closeSync, existsSync, type FSWatcher, mkdirSync, openSync, readdirSync, watch } from 'node:fs'
import { mkdir, readdir, rm, utimes, writeFile } from 'node:fs/promises'
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
import { tooMuchMemory } from './attempt.ts'
import { JobFolder, LOG } from './jobFolder.ts'
import { measuredConfig, measurementOf } from './measurement.ts'
import { isRunning, memoryOf, signalGroup } from './processes.ts'
import { runFiles, sizeOfFolder } from './runFiles.ts'
import { salvage } from './salvage.ts'
import { scrubbedEnvironment } from './scrubbed.ts'
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

const LOOK_EVERY_MS = 1000
const ALIVE_EVERY_MS = 5000
const STARTED_WITHIN_MS = 30_000
const KILLED = 'The process of the run ended without a last word: it was killed, or ran out of memory.'

export class LocalEngine implements Engine {
  readonly target = 'local'
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
  #listeners = new Set<(engineId: string) => void>()
  #timers: NodeJS.Timeout[] = []
  #watchers = new Map<string, FSWatcher>()
  /** Started by this server and not yet heard of. */
  #starting = new Map<string, number>()
  #scheduling: Promise<void> = Promise.resolve()
  #closed = false

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
    for (const folder of [this.#jobs, this.#runs]) mkdirSync(folder, { recursive: true, mode: 0o700 })
  }

  get #jobs(): string {
    return join(this.#options.folder, 'jobs')
  }

  get #runs(): string {
    return join(this.#options.folder, 'runs')
  }

  get #alive(): string {
    return join(this.#options.folder, 'alive')
  }

  /** Finds the jobs of an earlier server again and begins to start those that wait. */
  async open(): Promise<this> {
    await this.#beat()
    this.#timers = [
      setInterval(() => this.#beat().catch(() => {}), ALIVE_EVERY_MS),
      setInterval(() => this.#look().catch(() => {}), LOOK_EVERY_MS),
    ]
    await this.#look()
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
    const problems: string[] = []
    const models = [...bundledModels(this.#options.root), ...this.#options.models]
    if (!models.includes(config.model))
      problems.push(`model = "${config.model}": this server computes ${models.join(', ')} itself; choose one of them.`)
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
    const folder = this.#folder(key)
    if (await folder.job()) return { engineId: key }
    const { root, maxSeconds, memoryBytes, orphanSeconds, trainer } = this.#options
    const { run, attempt, name, config } = spec
    const limits = { seconds: maxSeconds, memoryBytes, orphanSeconds, alive: this.#alive }
    crashPoint('local:before-job')
    await folder.create(
      { run, attempt, name, config, submittedAt: Date.now(), root, runs: this.#runs, trainer, limits },
      spec.secrets,
    )
    crashPoint('local:after-job')
    this.#schedule().catch(() => {})
    return { engineId: key }
  }

  async get(engineId: string): Promise<Job | null> {
    if (!ULID.test(engineId)) return null
    const folder = this.#folder(engineId)
    if (!(await folder.job())) return null
    const job = { engineId, queuePosition: null, nodes: ['this server'], exitCode: null, endedAt: null }
    const begun = await folder.process()
    const exit = await folder.exit()
    const raw = { process: begun, exit, stop: await folder.stop() }
    const startedAt = begun?.startedAt ?? null
    if (exit) {
      const { state, reason, code, endedAt } = exit
      return { ...job, state, reason, exitCode: code, startedAt, endedAt, raw }
    }
    if (begun) return { ...job, state: 'running', reason: null, startedAt, raw }
    if (this.#starting.has(engineId)) return { ...job, state: 'starting', reason: null, startedAt, raw }
    const queuePosition = (await this.#waiting()).indexOf(engineId)
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
    const folder = this.#folder(engineId)
    if (!(await folder.job()) || (await folder.exit())) return
    if (!(await folder.stop())) await folder.askToStop({ why: 'cancel', at: Date.now() })
    // A job that waits is taken out of the queue between two starts.
    await this.#alone(async () => {
      const process = await folder.process()
      if (!process && !this.#starting.has(engineId)) {
        const reason = 'Cancelled before it began.'
        await folder.end({ state: 'cancelled', reason, code: null, endedAt: Date.now() })
      } else if (process && how === 'now') {
        signalGroup(process.pid, 'SIGKILL')
        await folder.end({ state: 'cancelled', reason: 'Ended at once.', code: null, endedAt: Date.now() })
      } else if (process) signalGroup(process.pid, 'SIGTERM')
    })
    this.#changed(engineId)
  }

  async readLog(engineId: string, stream: string, offset: number, most: number): Promise<LogPart> {
    if (!ULID.test(engineId) || stream !== 'out') return { bytes: new Uint8Array(), nextOffset: offset, eof: true }
    const folder = this.#folder(engineId)
    const ended = (await folder.exit()) !== null || !existsSync(folder.path)
    const bytes = await readAt(join(folder.path, LOG), offset, most)
    const nextOffset = offset + bytes.length
    return { bytes, nextOffset, eof: ended && nextOffset >= (await sizeOf(join(folder.path, LOG))) }
  }

  async readEvents(engineId: string, cursor: string | null): Promise<{ events: GivenEvent[]; cursor: string | null }> {
    const folder = this.#folder(engineId)
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
    if (ULID.test(engineId)) await this.#folder(engineId).remove()
  }

  async remove(run: string): Promise<void> {
    if (ULID.test(run)) await rm(join(this.#runs, run), { recursive: true, force: true })
  }

  onChange(listener: (engineId: string) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
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
      await this.#gone(key)
      await Promise.all([this.remove(key), this.forget(key)])
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const timer of this.#timers) clearInterval(timer)
    await this.#scheduling
    if (this.#options.stopOnClose) await this.#stopAll()
    for (const watcher of this.#watchers.values()) watcher.close()
  }

  // ── Jobs and their processes ───────────────────────────────────────────────────────────────────────────────────

  #folder(engineId: string): JobFolder {
    return new JobFolder(join(this.#jobs, engineId))
  }

  /** Jobs without an end, in the order of their submission. */
  async #open(): Promise<{ id: string; folder: JobFolder }[]> {
    const ids = (await readdir(this.#jobs)).filter((name) => ULID.test(name)).sort()
    const open: { id: string; folder: JobFolder }[] = []
    for (const id of ids) {
      const folder = this.#folder(id)
      if (!existsSync(join(folder.path, 'exit.json')) && existsSync(join(folder.path, 'job.json')))
        open.push({ id, folder })
    }
    return open
  }

  async #waiting(): Promise<string[]> {
    const open = await this.#open()
    return open
      .filter(({ id, folder }) => !existsSync(join(folder.path, 'process.json')) && !this.#starting.has(id))
      .map(({ id }) => id)
  }

  /** What has become of every job: a process that is gone without a word, one that takes too much, one that is overdue. */
  async #look(): Promise<void> {
    for (const { id, folder } of await this.#open()) {
      const process = await folder.process()
      if (!process) {
        const since = this.#starting.get(id)
        if (since !== undefined && Date.now() - since > STARTED_WITHIN_MS) {
          await folder.end({
            state: 'failed',
            reason: 'The process of the run did not start.',
            code: null,
            endedAt: Date.now(),
          })
          this.#starting.delete(id)
          this.#changed(id)
        }
        continue
      }
      this.#starting.delete(id)
      this.#watch(id, folder)
      if (await isRunning(process)) await this.#judge(id, folder, process.pid)
      else await this.#lost(id, folder)
    }
    await this.#schedule()
  }

  async #lost(id: string, folder: JobFolder): Promise<void> {
    // It may have left its last word a moment ago.
    const ended = await folder.end({ state: 'node_lost', reason: KILLED, code: null, endedAt: Date.now() })
    if (ended) await this.#freeRun(folder)
    this.#unwatch(id)
    this.#changed(id)
  }

  async #judge(id: string, folder: JobFolder, pid: number): Promise<void> {
    const { memoryBytes, graceSeconds } = this.#options
    const stop = await folder.stop()
    const bytes = memoryBytes === null ? null : await memoryOf(pid)
    // The process watches itself; this is for one that has no time to.
    const far = memoryBytes !== null && bytes !== null && bytes > memoryBytes * 1.25
    const late = stop !== null && Date.now() - stop.at > graceSeconds * 1000
    if (!far && !late) return
    signalGroup(pid, 'SIGKILL')
    const reason = far
      ? tooMuchMemory(bytes as number, memoryBytes as number)
      : `It was asked to end, did not within ${graceSeconds} s, and was killed.`
    const state = far ? 'failed' : stop?.why === 'cancel' ? 'cancelled' : 'node_lost'
    await folder.end({ state, reason, code: null, endedAt: Date.now() })
    this.#unwatch(id)
    this.#changed(id)
  }

  /** A killed process could not let go of its run folder; its lock holds its id, and that may be given away again. */
  async #freeRun(folder: JobFolder): Promise<void> {
    const job = await folder.job()
    if (job) await rm(join(this.#runs, job.run, 'writer.lock'), { force: true })
  }

  /** One change of the queue at a time. */
  #alone<T>(act: () => Promise<T>): Promise<T> {
    const done = this.#scheduling.then(act)
    this.#scheduling = done.then(
      () => {},
      () => {},
    )
    return done
  }

  #schedule(): Promise<void> {
    return this.#alone(async () => {
      if (this.#closed) return
      const open = await this.#open()
      const waiting = await this.#waiting()
      let free = this.#options.maxRuns - (open.length - waiting.length)
      for (const id of waiting) {
        if (free-- <= 0) break
        await this.#start(id)
      }
    })
  }

  async #start(id: string): Promise<void> {
    const folder = this.#folder(id)
    crashPoint('local:before-spawn')
    const log = openSync(folder.log, 'a', 0o600)
    const heap = this.#options.memoryBytes ? Math.ceil(this.#options.memoryBytes / 1024 / 1024) : null
    const child = spawn(
      process.execPath,
      [...(heap ? [`--max-old-space-size=${heap}`] : []), this.#options.program, folder.path],
      { cwd: folder.path, env: scrubbedEnvironment(folder.path), detached: true, stdio: ['ignore', log, log] },
    )
    closeSync(log)
    child.unref()
    this.#starting.set(id, Date.now())
    this.#watch(id, folder)
    const gone = (reason: string) => this.#childGone(id, folder, reason).catch(() => {})
    child.once('error', (error) => gone(`The process of the run could not be started: ${error.message}.`))
    child.once('exit', () => gone(KILLED))
    crashPoint('local:after-spawn')
  }

  /** A process that this server has started is told at once when it ends. */
  async #childGone(id: string, folder: JobFolder, reason: string): Promise<void> {
    this.#starting.delete(id)
    if (existsSync(join(folder.path, 'job.json'))) {
      // Ended before it took the job: the program is broken, and another try would be too.
      if (!(await folder.process()))
        await folder.end({
          state: 'failed',
          reason: `${reason} It had not begun; its log may say why.`,
          code: null,
          endedAt: Date.now(),
        })
      else await this.#lost(id, folder)
    }
    this.#unwatch(id)
    this.#changed(id)
    await this.#schedule()
  }

  async #gone(id: string): Promise<void> {
    const process = await this.#folder(id).process()
    while (process && (await isRunning(process))) await new Promise((resolve) => setTimeout(resolve, 50))
  }

  async #stopAll(): Promise<void> {
    const open = (await this.#open()).filter(({ folder }) => existsSync(join(folder.path, 'process.json')))
    const began = Date.now()
    await Promise.all(
      open.map(async ({ id, folder }) => {
        const process = await folder.process()
        if (!process) return
        if (!(await folder.stop())) await folder.askToStop({ why: 'shutdown', at: Date.now() })
        if (await isRunning(process)) signalGroup(process.pid, 'SIGTERM')
        while ((await isRunning(process)) && Date.now() - began < this.#options.graceSeconds * 1000)
          await new Promise((resolve) => setTimeout(resolve, 50))
        if (!(await isRunning(process))) return
        signalGroup(process.pid, 'SIGKILL')
        await this.#lost(id, folder)
      }),
    )
  }

  // ── Signs of life ──────────────────────────────────────────────────────────────────────────────────────────────

  async #beat(): Promise<void> {
    const now = new Date()
    await utimes(this.#alive, now, now).catch(async () => {
      await mkdir(this.#options.folder, { recursive: true })
      await writeFile(this.#alive, '')
    })
  }

  /** Tells of new events and of the end as soon as the file system does; `#look` is there where it does not. */
  #watch(id: string, folder: JobFolder): void {
    if (this.#watchers.has(id) || this.#closed) return
    try {
      const watcher = watch(folder.spool, () => this.#changed(id))
      watcher.on('error', () => this.#unwatch(id))
      this.#watchers.set(id, watcher)
    } catch {
      // Too many watches, or a file system without them.
    }
  }

  #unwatch(id: string): void {
    this.#watchers.get(id)?.close()
    this.#watchers.delete(id)
  }

  #changed(id: string): void {
    for (const listener of this.#listeners) listener(id)
  }
}

function bundledModels(root: string): string[] {
  return readdirSync(join(root, 'models')).filter((name) => existsSync(join(root, 'models', name, 'config.json')))
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
