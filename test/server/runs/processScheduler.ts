// A batch system of one node for the cluster's engine: it runs the job's own script as a process, and can begin it anew as
// Slurm does with a job whose node has died.

import { type ChildProcess, spawn } from 'node:child_process'
import { openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Launch, Scheduler, Sighting } from '../../../server/engines/primeRl/scheduler.ts'

interface Running {
  launch: Launch
  process: ChildProcess | null
  startedAt: number | null
  endedAt: number | null
  restarts: number
  cancelled: boolean
}

export class ProcessScheduler implements Scheduler {
  readonly target = 'slurm'
  readonly title = 'Slurm'
  readonly multiNode = false
  readonly tables = ['slurm', 'deployment']
  readonly #jobs = new Map<string, Running>()

  /** `waits`: jobs stay in the queue until they are begun. */
  constructor(readonly waits = false) {}

  async launch(launch: Launch, record: (id: string) => Promise<void>): Promise<void> {
    const id = String(this.#jobs.size + 1)
    await record(id)
    this.#jobs.set(id, { launch, process: null, startedAt: null, endedAt: null, restarts: 0, cancelled: false })
    if (!this.waits) this.begin(id)
  }

  begin(id: string): void {
    const job = this.#jobs.get(id)!
    const { folder, script, environment } = job.launch
    const file = join(folder, 'job.sh')
    writeFileSync(file, script)
    const log = openSync(join(folder, `job_${id}.log`), 'a')
    const env = { PATH: process.env.PATH, ...environment, SLURM_RESTART_COUNT: String(job.restarts) }
    job.process = spawn('bash', [file], { cwd: folder, env, stdio: ['ignore', log, log] })
    job.startedAt = Date.now()
    const begun = job.process
    begun.on('exit', () => {
      if (job.process === begun) job.endedAt = Date.now()
    })
  }

  /** The node of the job dies: it is back in the queue. */
  requeue(id: string): void {
    const job = this.#jobs.get(id)!
    const { process: dying } = job
    Object.assign(job, { process: null, startedAt: null, endedAt: null, restarts: job.restarts + 1 })
    dying?.kill('SIGKILL')
  }

  async look(id: string): Promise<Sighting | null> {
    const job = this.#jobs.get(id)
    if (!job) return null
    const { process: child, startedAt, endedAt, restarts, cancelled } = job
    const common = { startedAt, endedAt, restarts, raw: null, queuePosition: child ? null : 2 }
    if (!child) {
      const reason = 'It waits for nodes: other jobs have a higher priority.'
      return { ...common, state: 'queued', reason, exitCode: null, nodes: [] }
    }
    const nodes = [`n${restarts}`]
    if (endedAt === null) return { ...common, state: 'running', reason: null, exitCode: null, nodes }
    const state = cancelled ? 'cancelled' : child.exitCode === 0 ? 'succeeded' : 'failed'
    return { ...common, state, reason: null, exitCode: child.exitCode, nodes }
  }

  async cancel(id: string, how: 'graceful' | 'now'): Promise<void> {
    const job = this.#jobs.get(id)
    if (!job) return
    job.cancelled = true
    job.process?.kill(how === 'graceful' ? 'SIGTERM' : 'SIGKILL')
  }

  problem = async () => null

  async close(): Promise<void> {
    for (const { process: child } of this.#jobs.values()) child?.kill('SIGKILL')
  }
}
