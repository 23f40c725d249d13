// A server that is killed, again and again, and what is left of its runs.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { ROOT } from '../../../build/paths.ts'
import { isFinal } from '../../../server/engines/engine.ts'
import type { MetricsPage, RunDetails, RunView } from '../../../server/runs/views.ts'
import type { Programs } from '../engines/standInProgram.ts'
import { messagesOf } from './server.ts'

export class KillableServer {
  readonly data: string
  #programs: Programs
  #database: string | null
  #child: ChildProcess | null = null
  #gone: Promise<void> = Promise.resolve()
  #url = ''
  #maxRuns: number

  private constructor(data: string, programs: Programs, database: string | null, maxRuns: number) {
    this.data = data
    this.#programs = programs
    this.#database = database
    this.#maxRuns = maxRuns
  }

  static async create(programs: Programs, database: string | null = null, maxRuns = 1): Promise<KillableServer> {
    return new KillableServer(await mkdtemp(join(tmpdir(), 'rollout-lab-crash-')), programs, database, maxRuns)
  }

  /** `crashAt`: kills itself there. */
  async start(crashAt = ''): Promise<void> {
    const setup = {
      ...{ root: ROOT, data: this.data, database: this.#database },
      local: { models: ['table'], trainer: this.#programs.trainer, maxRuns: this.#maxRuns, orphanSeconds: 60 },
    }
    const child = spawn(process.execPath, [this.#programs.server, JSON.stringify(setup)], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ROLLOUT_LAB_CRASH_AT: crashAt },
    })
    this.#child = child
    this.#gone = new Promise((resolve) => child.once('exit', () => resolve()))
    const line = await Promise.race([
      new Promise<string>((resolve) => child.stdout?.once('data', (bytes: Buffer) => resolve(bytes.toString().trim()))),
      this.#gone.then(() => ''),
    ])
    if (line === '' && crashAt === '') throw new Error('The server ended before it began.')
    this.#url = line
  }

  get gone(): Promise<void> {
    return this.#gone
  }

  get alive(): boolean {
    return this.#child?.exitCode === null && this.#child.signalCode === null
  }

  async kill(): Promise<void> {
    this.#child?.kill('SIGKILL')
    await this.#gone
  }

  async remove(): Promise<void> {
    this.#child?.kill('SIGTERM')
    await this.#gone
    for (const { pid } of await this.processes()) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It has ended.
      }
    }
    await rm(this.data, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  }

  pace(milliseconds: number): Promise<void> {
    return writeFile(join(this.data, 'local/runs/pace'), String(milliseconds))
  }

  /** Resolves to null where the server dies over the request. */
  async fetch(path: string, init: RequestInit = {}): Promise<Response | null> {
    return fetch(`${this.#url}api${path}`, init).catch(() => null)
  }

  async get<T>(path: string): Promise<T | null> {
    const response = await this.fetch(path)
    const text = await response?.text().catch(() => null)
    return text && response?.ok ? (JSON.parse(text) as T) : null
  }

  async post<T>(path: string, body: unknown, key?: string): Promise<T | null> {
    const headers: Record<string, string> = key ? { 'idempotency-key': key } : {}
    const response = await this.fetch(path, { method: 'POST', body: JSON.stringify(body), headers })
    const text = await response?.text().catch(() => null)
    if (!text) return null
    if (!response?.ok) throw new Error(`${response?.status} ${text}`)
    return JSON.parse(text) as T
  }

  /** Follows until the connection breaks or the run has ended; adds what came to `shown` and says whether it has ended. */
  async follow(id: string, shown: Shown): Promise<boolean> {
    const last = shown.lines.at(-1)?.id
    const headers: Record<string, string> = last === undefined ? {} : { 'last-event-id': String(last) }
    const response = await this.fetch(`/runs/${id}/events`, { headers })
    if (!response?.ok || !response.body) return false
    try {
      for await (const { id: seq, event, data } of messagesOf(response.body)) {
        if (event === 'end') return true
        if (event === 'run' && seq !== null) shown.lines.push({ id: seq, data })
      }
    } catch {
      // The server is gone.
    }
    return false
  }

  async ended(id: string): Promise<RunDetails> {
    for (;;) {
      const run = await this.get<RunDetails>(`/runs/${id}`)
      if (run && isFinal(run.state)) return run
      if (!this.alive) throw new Error('The server died where nobody killed it.')
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  async list(): Promise<RunView[]> {
    return (await this.get<{ runs: RunView[] }>('/runs?limit=200'))?.runs ?? []
  }

  /** The processes of runs that are there now. */
  async processes(): Promise<{ job: string; pid: number }[]> {
    const jobs = await readdir(join(this.data, 'local/jobs')).catch(() => [])
    const found: { job: string; pid: number }[] = []
    for (const job of jobs) {
      const text = await readFile(join(this.data, 'local/jobs', job, 'process.json'), 'utf8').catch(() => null)
      if (!text) continue
      const { pid } = JSON.parse(text) as { pid: number }
      const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
      if (line.includes(job)) found.push({ job, pid })
    }
    return found
  }
}

/** What a follower has seen of a run, over all its connections. */
export interface Shown {
  lines: { id: number; data: string }[]
}

/** A run has ended as it should, and everything that was shown of it is still there. */
export async function expectWhole(server: KillableServer, run: RunDetails, steps: number, shown: Shown): Promise<void> {
  expect(run).toMatchObject({ state: 'succeeded', step: steps })
  expect(run.attempts.filter(({ endedAt }) => endedAt === null)).toEqual([])
  expect(run.attempts.map(({ number }) => number)).toEqual(run.attempts.map((_, i) => i + 1))
  expect(shown.lines.map(({ id }) => id)).toEqual(shown.lines.map((_, i) => i + 1))
  const all: Shown = { lines: [] }
  expect(await server.follow(run.id, all)).toBe(true)
  expect(all.lines.slice(0, shown.lines.length)).toEqual(shown.lines)
  const page = await server.get<MetricsPage>(`/runs/${run.id}/metrics?limit=1000`)
  const done = page?.rows.filter(({ kind }) => kind === 'step').map(({ step }) => step)
  expect(done).toEqual(Array.from({ length: steps }, (_, i) => i + 1))
  const rollouts = await server.get<{ steps: number[] }>(`/runs/${run.id}/rollouts`)
  expect(rollouts?.steps).toEqual(done)
  for (const step of done ?? []) expect(await server.get(`/runs/${run.id}/rollouts?step=${step}`)).not.toBeNull()
}
