// Slurm as a scheduler of full-size runs.

import { isFinal } from '../engine.ts'
import { type Launch, type Scheduler, type Sighting, Unreachable } from '../primeRl/scheduler.ts'
import { numberOf } from './answer.ts'
import { SlurmClient, SlurmError } from './client.ts'
import { directivesOf } from './directives.ts'
import type { SlurmJob, SlurmJobSpec } from './job.ts'
import { reasonText, stateOf } from './states.ts'
import { submitOnce } from './submit.ts'
import { tokenSource } from './token.ts'

export interface SlurmOptions {
  url: string
  user: string
  keyFile: string
  /** Where a config names none. */
  partition?: string
  account?: string
  /** Minutes, where a config says none. */
  timeLimit?: number
  /** Whole nodes: prime-rl's ports are fixed, so two runs on one node would meet. */
  exclusive?: boolean
  /** `engine`: Slurm itself starts a job again whose node has died. Otherwise the server makes a new attempt. */
  restart?: 'never' | 'engine' | 'server'
  /** What jobs find their programs by. */
  path?: string
  deadlineMs?: number
}

export class SlurmScheduler implements Scheduler {
  readonly target = 'slurm'
  readonly title = 'Slurm'
  readonly multiNode = true
  readonly tables = ['slurm', 'deployment']
  readonly client: SlurmClient
  #options: SlurmOptions
  #queue: { at: number; jobs: Promise<SlurmJob[]> } | null = null

  constructor(options: SlurmOptions) {
    this.#options = options
    const { url, user, keyFile, deadlineMs } = options
    this.client = new SlurmClient({ url, user, token: tokenSource({ keyFile, user }), deadlineMs })
  }

  async launch(launch: Launch, record: (id: string) => Promise<void>): Promise<void> {
    await reached(() => submitOnce(this.client, this.#spec(launch), { record: (id) => record(String(id)) }))
  }

  async look(id: string, begun: boolean): Promise<Sighting | null> {
    const job = await reached(() => this.client.job(Number(id)))
    if (!job) return null
    const { restart = 'server' } = this.#options
    if (restart !== 'engine' && job.restarts > 0) {
      // Slurm may start a job again that asked it not to; a new attempt goes on in its place.
      await reached(() => this.client.cancel(Number(id)))
      const reason = 'Its node died.'
      return { ...ENDED, state: 'node_lost', reason, startedAt: null, endedAt: Date.now(), raw: shortened(job.raw) }
    }
    if (job.state === 'PENDING' && job.reason === 'BadConstraints') {
      // Of a job that was made held Slurm finds this out as it is released, and lets it wait for good.
      await reached(() => this.client.cancel(Number(id)))
      const reason = reasonText(job)
      return { ...ENDED, state: 'failed', reason, startedAt: null, endedAt: Date.now(), raw: shortened(job.raw) }
    }
    const state = stateOf(job, begun)
    return {
      ...{ state, reason: endText(job) || null, exitCode: job.exitCode, nodes: hostsOf(job.nodes) },
      ...{ startedAt: job.startedAt !== null && job.state !== 'PENDING' ? job.startedAt : null, endedAt: job.endedAt },
      ...{ queuePosition: state === 'queued' ? await this.#position(job) : null, restarts: job.restarts },
      raw: shortened(job.raw),
    }
  }

  /** Jobs of the partition that wait with a priority above this one's; null where it cannot be said. */
  async #position(job: SlurmJob): Promise<number | null> {
    const priority = numberOf(job.raw.priority)
    if (priority === null || job.held) return null
    // All jobs of a cluster are a long answer, and places in a queue change slowly.
    if (!this.#queue || Date.now() - this.#queue.at > QUEUE_EVERY_MS)
      this.#queue = { at: Date.now(), jobs: this.client.jobs().catch(() => []) }
    const { jobs } = this.#queue
    const waiting = (await jobs).filter(
      (each) => each.state === 'PENDING' && each.partition === job.partition && !each.held && each.id !== job.id,
    )
    return waiting.filter(({ raw }) => (numberOf(raw.priority) ?? 0) > priority).length
  }

  async cancel(id: string, how: 'graceful' | 'now'): Promise<void> {
    const job = await reached(() => this.client.job(Number(id)))
    if (!job || isFinal(stateOf(job, true))) return
    // What has not begun has nothing to save.
    const running = job.state === 'RUNNING'
    await reached(() => this.client.cancel(Number(id), how === 'graceful' && running ? 'TERM' : undefined))
  }

  /** A sentence for each partition: nodes, those that are idle or away, and GPUs in use. */
  async details(): Promise<string[]> {
    const [partitions, nodes] = await reached(() => Promise.all([this.client.partitions(), this.client.nodes()]))
    return partitions.map(({ name, isDefault }) => {
      const own = nodes.filter((node) => node.partitions.includes(name))
      const count = (what: RegExp) => own.filter(({ state }) => what.test(state)).length
      const away = count(/down|drain|fail|not_responding|unknown/)
      const all = own.reduce((sum, { gres }) => sum + gpusIn(gres), 0)
      const used = own.reduce((sum, { gresUsed }) => sum + gpusIn(gresUsed), 0)
      const gone = away > 0 ? `, ${away} away` : ''
      return `Partition ${name}${isDefault ? ' (the default)' : ''}: ${own.length} nodes, ${count(/^idle/)} idle${gone}; ${used} of ${all} GPUs in use.`
    })
  }

  async problem(): Promise<string | null> {
    try {
      await this.client.ping()
      return null
    } catch (error) {
      return (error as Error).message
    }
  }

  async close(): Promise<void> {}

  #spec({ mark, name, script, environment, folder, gpus, nodes, tables, rendered }: Launch): SlurmJobSpec {
    const asked = rendered === undefined ? {} : directivesOf(rendered)
    const { partition, account, timeLimit, exclusive = true, restart = 'server', path } = this.#options
    const { slurm = {} } = tables
    const word = (key: string) => (typeof slurm[key] === 'string' ? (slurm[key] as string) : undefined)
    return {
      ...{ name, script, comment: mark, workingDirectory: folder },
      ...{ nodes: asked.nodes ?? nodes, tasksPerNode: asked.tasksPerNode ?? 1, signal: asked.signal },
      ...{ partition: word('partition') ?? partition, account: word('account') ?? account },
      ...{ nodelist: word('nodelist'), exclude: word('exclude'), timeLimit: minutesOf(word('time')) ?? timeLimit },
      gres: asked.gres ?? (gpus > 0 ? `gpu:${gpus}` : undefined),
      exclusive: gpus > 0 && exclusive,
      output: `${folder}/job_%j.log`,
      environment: { PATH: path ?? '/usr/local/bin:/usr/bin:/bin', ...environment },
      requeue: restart === 'engine',
      hold: true,
    }
  }
}

const QUEUE_EVERY_MS = 20_000

const ENDED = { exitCode: null, nodes: [], queuePosition: null, restarts: 0 }

/** `gpu:fake:2(IDX:0-1),gpu:a100:4` holds 6. */
export function gpusIn(gres: string): number {
  return [...gres.matchAll(/(?:^|,)gpu(?::[^:,()]+)?:(\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0)
}

async function reached<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof SlurmError && error.kind === 'unreachable') throw new Unreachable(error.message)
    throw error
  }
}

/** `24:00:00`, `7-00:00:00`, `90`: Slurm's ways to write a time, in minutes. */
export function minutesOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const match = /^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$/.exec(text.trim())
  if (!match) throw new Error(`slurm.time = ${JSON.stringify(text)} is no time: write "24:00:00" or "7-00:00:00".`)
  const [, days, ...rest] = match
  const parts = rest.filter((part) => part !== undefined).map(Number)
  // Minutes alone; minutes and seconds; hours, minutes and seconds. After days: hours, minutes, seconds.
  const [hours, minutes, seconds] =
    days !== undefined
      ? [parts[0] ?? 0, parts[1] ?? 0, parts[2] ?? 0]
      : parts.length === 3
        ? parts
        : [0, parts[0], parts[1] ?? 0]
  return Math.ceil(Number(days ?? 0) * 1440 + hours * 60 + minutes + seconds / 60)
}

/** `n[0-1],m3` by name, as far as it is short; the text itself otherwise. */
export function hostsOf(nodes: string): string[] {
  if (nodes === '') return []
  const hosts: string[] = []
  for (const part of nodes.match(/[^,[]+(\[[^\]]*\])?/g) ?? []) {
    const [, name, list] = /^([^[]*)(?:\[([^\]]*)\])?$/.exec(part) ?? []
    if (list === undefined) hosts.push(part)
    else
      for (const range of list.split(',')) {
        const [from, to = from] = range.split('-')
        for (let i = Number(from); i <= Number(to) && hosts.length < 64; i++)
          hosts.push(`${name}${String(i).padStart(from.length, '0')}`)
      }
  }
  return hosts
}

function endText(job: SlurmJob): string {
  const said = reasonText(job)
  if (job.exitCode !== null && job.exitCode !== 0) return `It ended with code ${job.exitCode}. ${said}`.trim()
  return said
}

/** Slurm's answer without the environment, which repeats the script's data. */
function shortened(raw: Record<string, unknown>): Record<string, unknown> {
  const keys = [
    'job_id',
    'job_state',
    'state_reason',
    'state_description',
    'exit_code',
    'restart_cnt',
    'nodes',
    'partition',
  ]
  return Object.fromEntries([...keys, 'start_time', 'end_time', 'priority'].map((key) => [key, raw[key]]))
}
