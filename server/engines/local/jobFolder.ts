// The folder of one job: all that passes between the server and the process of a run, as files, so that either may die
// and the other goes on.
//
//   job.json       what is to be done                       server, before the job exists
//   secrets.env    variables, readable by this user alone   server; the process removes it as it begins
//   process.json   who does it                              the process, once: a second one finds it and leaves
//   stop.json      that it has to end, and why              server
//   spool/N.jsonl  its events, in files of a few megabytes  the process appends; the server removes what it has stored
//   out.log        what it prints
//   exit.json      how it ended                             the process, last; the server where that was killed

import { link, mkdir, open, readFile, rename, rm, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { RunConfig } from '../../../configs/schema.ts'
import type { JobState } from '../engine.ts'

export interface JobFile {
  run: string
  attempt: number
  name: string
  config: RunConfig
  submittedAt: number
  /** The folder of package.json, below which bundled models lie. */
  root: string
  /** Runs are folders below it. */
  runs: string
  /** A module that exports `openTrainer`; the learning library when null. */
  trainer: string | null
  limits: Limits
}

export interface Limits {
  seconds: number | null
  memoryBytes: number | null
  /** The run saves and ends when no server has been seen for so long. */
  orphanSeconds: number
  /** Touched by the server every few seconds. */
  alive: string
}

export interface ProcessFile {
  pid: number
  /** In the system's own ticks; tells a process from a later one with its id. */
  began: string | null
  startedAt: number
}

export interface StopFile {
  why: 'cancel' | 'shutdown'
  at: number
}

export interface ExitFile {
  state: Extract<JobState, 'succeeded' | 'failed' | 'cancelled' | 'timed_out' | 'node_lost'>
  reason: string | null
  code: number | null
  endedAt: number
}

const SPOOL = 'spool'
export const LOG = 'out.log'
const SECRETS = 'secrets.env'

export class JobFolder {
  readonly path: string

  constructor(path: string) {
    this.path = path
  }

  get spool(): string {
    return join(this.path, SPOOL)
  }

  get log(): string {
    return join(this.path, LOG)
  }

  readonly job = () => this.#read<JobFile>('job.json')
  readonly process = () => this.#read<ProcessFile>('process.json')
  readonly stop = () => this.#read<StopFile>('stop.json')
  readonly exit = () => this.#read<ExitFile>('exit.json')

  /** Makes the job; whoever finds job.json finds all of it. */
  async create(job: JobFile, secrets: Record<string, string>): Promise<void> {
    await mkdir(this.spool, { recursive: true, mode: 0o700 })
    if (Object.keys(secrets).length > 0)
      await writeFile(join(this.path, SECRETS), JSON.stringify(secrets), { mode: 0o600 })
    await this.#replace('job.json', job)
  }

  /** The variables, once: the file is gone afterwards. */
  async takeSecrets(): Promise<Record<string, string>> {
    const path = join(this.path, SECRETS)
    const text = await readFile(path, 'utf8').catch(() => null)
    await rm(path, { force: true })
    return text === null ? {} : (JSON.parse(text) as Record<string, string>)
  }

  /** False where another process does the job or has done it. */
  claim(process: ProcessFile): Promise<boolean> {
    return this.#create('process.json', process)
  }

  async askToStop(stop: StopFile): Promise<void> {
    await this.#replace('stop.json', stop)
  }

  /** The first word about the end is the last. False where there was one already. */
  end(exit: ExitFile): Promise<boolean> {
    return this.#create('exit.json', exit)
  }

  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
  }

  async #read<T>(name: string): Promise<T | null> {
    try {
      return JSON.parse(await readFile(join(this.path, name), 'utf8')) as T
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
      throw error
    }
  }

  async #replace(name: string, content: unknown): Promise<void> {
    await rename(await this.#written(name, content), join(this.path, name))
  }

  /** Whole or not at all, and by one writer only. */
  async #create(name: string, content: unknown): Promise<boolean> {
    const written = await this.#written(name, content)
    try {
      await link(written, join(this.path, name))
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
      throw error
    } finally {
      await unlink(written).catch(() => {})
    }
  }

  async #written(name: string, content: unknown): Promise<string> {
    const partial = join(this.path, `.${name}.${process.pid}.${Math.random().toString(36).slice(2)}`)
    const file = await open(partial, 'w', 0o600)
    try {
      await file.writeFile(JSON.stringify(content))
      await file.datasync()
    } finally {
      await file.close()
    }
    return partial
  }
}
