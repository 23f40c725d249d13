// Jobs waiting for their turn, and the processes of those that have it: so many at a time, first in, first out. Processes
// stand on their own, and a server that was killed finds them again in their folders.

import { spawn } from 'node:child_process'
import { closeSync, existsSync, type FSWatcher, mkdirSync, openSync, watch } from 'node:fs'
import { mkdir, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { crashPoint } from '../../store/crashPoint.ts'
import { ULID } from '../../store/ids.ts'
import { tooMuchMemory } from './attempt.ts'
import { type ExitFile, JobFolder } from './jobFolder.ts'
import { isRunning, memoryOf, signalGroup } from './processes.ts'
import { scrubbedEnvironment } from './scrubbed.ts'

export interface QueueOptions {
  jobs: string
  runs: string
  maxRuns: number
  memoryBytes: number | null
  graceSeconds: number
  stopOnClose: boolean
  /** Of a run's process. */
  program: string
}

const LOOK_EVERY_MS = 1000
const ALIVE_EVERY_MS = 5000
const STARTED_WITHIN_MS = 30_000
const KILLED = 'The process of the run ended without a last word: it was killed, or ran out of memory.'

export class JobQueue {
  readonly #options: QueueOptions
  readonly #listeners = new Set<(id: string) => void>()
  #timers: NodeJS.Timeout[] = []
  readonly #watchers = new Map<string, FSWatcher>()
  /** Started by this server and not yet heard of. */
  readonly #starting = new Map<string, number>()
  #scheduling: Promise<void> = Promise.resolve()
  #closed = false

  constructor(options: QueueOptions) {
    this.#options = options
    for (const folder of [this.#jobs, this.#runs]) mkdirSync(folder, { recursive: true, mode: 0o700 })
  }

  get #jobs(): string {
    return this.#options.jobs
  }

  get #runs(): string {
    return this.#options.runs
  }

  /** Touched now and then, so that processes know that there is a server. */
  get alive(): string {
    return join(dirname(this.#jobs), 'alive')
  }

  /** Finds the jobs of an earlier server again and begins to start those that wait. */
  async open(): Promise<void> {
    await this.#beat()
    this.#timers = [
      setInterval(() => this.#beat().catch(() => {}), ALIVE_EVERY_MS),
      setInterval(() => this.#look().catch(() => {}), LOOK_EVERY_MS),
    ]
    await this.#look()
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const timer of this.#timers) clearInterval(timer)
    await this.#scheduling
    if (this.#options.stopOnClose) await this.#stopAll()
    for (const watcher of this.#watchers.values()) watcher.close()
  }

  onChange(listener: (id: string) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  isStarting(id: string): boolean {
    return this.#starting.has(id)
  }

  folder(engineId: string): JobFolder {
    return new JobFolder(join(this.#jobs, engineId))
  }

  /** Jobs without an end, in the order of their submission. */
  async openJobs(): Promise<{ id: string; folder: JobFolder }[]> {
    const ids = (await readdir(this.#jobs)).filter((name) => ULID.test(name)).sort()
    const open: { id: string; folder: JobFolder }[] = []
    for (const id of ids) {
      const folder = this.folder(id)
      if (!existsSync(join(folder.path, 'exit.json')) && existsSync(join(folder.path, 'job.json')))
        open.push({ id, folder })
    }
    return open
  }

  async waiting(): Promise<string[]> {
    const open = await this.openJobs()
    return open
      .filter(({ id, folder }) => !existsSync(join(folder.path, 'process.json')) && !this.#starting.has(id))
      .map(({ id }) => id)
  }

  /** What has become of every job: a process that is gone without a word, one that takes too much, one that is overdue. */
  async #look(): Promise<void> {
    for (const { id, folder } of await this.openJobs()) {
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
          this.changed(id)
        }
        continue
      }
      this.#starting.delete(id)
      this.#watch(id, folder)
      if (await isRunning(process)) await this.#judge(id, folder, process.pid)
      else await this.#lost(id, folder)
    }
    await this.schedule()
  }

  async #lost(id: string, folder: JobFolder): Promise<void> {
    // It may have left its last word a moment ago.
    const ended = await folder.end({ state: 'node_lost', reason: KILLED, code: null, endedAt: Date.now() })
    if (ended) await this.#freeRun(folder)
    this.#unwatch(id)
    this.changed(id)
  }

  async #judge(id: string, folder: JobFolder, pid: number): Promise<void> {
    const { memoryBytes, graceSeconds } = this.#options
    const stop = await folder.stop()
    const bytes = memoryBytes === null ? null : await memoryOf(pid)
    // The process watches itself; this is for one that has no time to.
    const far = memoryBytes !== null && bytes !== null && bytes > memoryBytes * 1.25
    const late = stop !== null && Date.now() - stop.at > graceSeconds * 1000
    if (!far && !late) return
    const reason = far
      ? tooMuchMemory(bytes as number, memoryBytes as number)
      : `It was asked to end, did not within ${graceSeconds} s, and was killed.`
    const state = far ? 'failed' : stop?.why === 'cancel' ? 'cancelled' : 'node_lost'
    await this.kill(id, folder, pid, { state, reason, code: null, endedAt: Date.now() })
  }

  /** Ends a process that has to go. Its last word is written before, so that nobody takes its end for a loss. */
  async kill(id: string, folder: JobFolder, pid: number, exit: ExitFile): Promise<void> {
    await folder.end(exit)
    signalGroup(pid, 'SIGKILL')
    await this.gone(id)
    await this.#freeRun(folder)
    this.#unwatch(id)
    this.changed(id)
  }

  /** A killed process could not let go of its run folder; its lock holds its id, and that may be given away again. */
  async #freeRun(folder: JobFolder): Promise<void> {
    const job = await folder.job()
    if (job) await rm(join(this.#runs, job.run, 'writer.lock'), { force: true })
  }

  /** One change of the queue at a time. */
  alone<T>(act: () => Promise<T>): Promise<T> {
    const done = this.#scheduling.then(act)
    this.#scheduling = done.then(
      () => {},
      () => {},
    )
    return done
  }

  schedule(): Promise<void> {
    return this.alone(async () => {
      if (this.#closed) return
      const open = await this.openJobs()
      const waiting = await this.waiting()
      let free = this.#options.maxRuns - (open.length - waiting.length)
      for (const id of waiting) {
        if (free-- <= 0) break
        await this.#start(id)
      }
    })
  }

  async #start(id: string): Promise<void> {
    const folder = this.folder(id)
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
    const gone = (reason: string) => this.#childGone(id, folder, child.pid, reason).catch(() => {})
    child.once('error', (error) => gone(`The process of the run could not be started: ${error.message}.`))
    child.once('exit', () => gone(KILLED))
    crashPoint('local:after-spawn')
  }

  /** A process that this server has started is told at once when it ends. */
  async #childGone(id: string, folder: JobFolder, pid: number | undefined, reason: string): Promise<void> {
    this.#starting.delete(id)
    if (existsSync(join(folder.path, 'job.json'))) {
      const process = await folder.process()
      if (!process) {
        // Ended before it took the job: the program is broken, and another try would be too.
        const said = `${reason} It had not begun; its log may say why.`
        await folder.end({ state: 'failed', reason: said, code: null, endedAt: Date.now() })
        // Another may have been quicker: one that a server started just before it was killed.
      } else if (process.pid === pid || !(await isRunning(process))) await this.#lost(id, folder)
      else return
    }
    this.#unwatch(id)
    this.changed(id)
    await this.schedule()
  }

  async gone(id: string): Promise<void> {
    const process = await this.folder(id).process()
    while (process && (await isRunning(process))) await new Promise((resolve) => setTimeout(resolve, 50))
  }

  async #stopAll(): Promise<void> {
    const open = (await this.openJobs()).filter(({ folder }) => existsSync(join(folder.path, 'process.json')))
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
    await utimes(this.alive, now, now).catch(async () => {
      await mkdir(dirname(this.alive), { recursive: true })
      await writeFile(this.alive, '')
    })
  }

  /** Tells of new events and of the end as soon as the file system does; `#look` is there where it does not. */
  #watch(id: string, folder: JobFolder): void {
    if (this.#watchers.has(id) || this.#closed) return
    try {
      const watcher = watch(folder.spool, () => this.changed(id))
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

  changed(id: string): void {
    for (const listener of this.#listeners) listener(id)
  }
}
