// Ray Jobs as a scheduler of full-size runs: for one node, without a queue, and gone when its cluster goes. Ray keeps ids
// of jobs unique, so that a submit may be repeated.

import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { JobState } from '../engine.ts'
import { type Launch, type Scheduler, type Sighting, Unreachable } from '../primeRl/scheduler.ts'
import { RayClient, type RayClientOptions, RayError } from './client.ts'

export interface RayOptions extends RayClientOptions {
  /** Processors that Ray sets aside for a job. */
  cpus?: number
  /** Seconds that a job may take to save when it is asked to end, before Ray kills it. */
  graceSeconds?: number
  /** What jobs find their programs by. */
  path?: string
}

/** A line of shell to Ray, and always the same one. */
const ENTRYPOINT = 'exec bash -- "$ROLLOUT_LAB_SCRIPT" >> "$ROLLOUT_LAB_LOG" 2>&1'

const STATES: Record<string, JobState> = {
  PENDING: 'queued',
  RUNNING: 'running',
  STOPPED: 'cancelled',
  SUCCEEDED: 'succeeded',
  FAILED: 'failed',
}

export class RayScheduler implements Scheduler {
  readonly target = 'ray'
  readonly title = 'Ray'
  readonly multiNode = false
  readonly tables = ['slurm', 'deployment']
  readonly client: RayClient
  #options: RayOptions

  constructor(options: RayOptions) {
    this.#options = options
    this.client = new RayClient(options)
  }

  async launch({ mark, name, script, environment, folder, gpus }: Launch, record: (id: string) => Promise<void>) {
    const { cpus = 1, graceSeconds = 300, path } = this.#options
    const id = mark.replace(/[^A-Za-z0-9-]/g, '-')
    const file = join(folder, 'job.sh')
    await writeFile(file, script)
    await chmod(file, 0o755)
    await record(id)
    const variables = {
      ...(path ? { PATH: path } : {}),
      ...environment,
      ROLLOUT_LAB_SCRIPT: file,
      ROLLOUT_LAB_LOG: join(folder, 'job_ray.log'),
      RAY_JOB_STOP_WAIT_TIME_S: String(graceSeconds),
    }
    await reached(() =>
      this.client.submit({
        ...{
          entrypoint: ENTRYPOINT,
          submission_id: id,
          runtime_env: { env_vars: variables },
          metadata: { mark, name },
        },
        ...{ entrypoint_num_gpus: gpus, entrypoint_num_cpus: cpus },
      }),
    )
  }

  async look(id: string, begun: boolean): Promise<Sighting | null> {
    const job = await reached(() => this.client.job(id))
    if (!job) return null
    const state = STATES[job.status] ?? 'unknown'
    const over = ['cancelled', 'succeeded', 'failed'].includes(state)
    return {
      state: state === 'running' && !begun ? 'starting' : state,
      reason: state === 'succeeded' || state === 'running' ? null : job.message.trim().split('\n')[0] || null,
      ...{ exitCode: job.exitCode, nodes: job.node ? [job.node] : [], queuePosition: null, restarts: 0 },
      ...{ startedAt: begun || over ? job.startedAt : null, endedAt: over ? job.endedAt : null },
      raw: { status: job.status, message: job.message, submission_id: job.submissionId },
    }
  }

  /** Ray sends a job SIGTERM and kills it later: there is one way to end it. */
  async cancel(id: string): Promise<void> {
    await reached(() => this.client.stop(id))
  }

  async problem(): Promise<string | null> {
    try {
      await this.client.version()
      return null
    } catch (error) {
      return (error as Error).message
    }
  }

  async close(): Promise<void> {}
}

async function reached<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof RayError && error.kind === 'unreachable') throw new Unreachable(error.message)
    throw error
  }
}
