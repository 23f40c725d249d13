// Hosted Training by its own API, as the client `prime` 0.9.0 speaks it. Unproved: no such platform has been asked; the
// shapes are those of that client. It takes no key against doubles, so a submit is never repeated by itself.

import { isTable, type Table } from '../../../configs/path.ts'
import type { JobState } from '../engine.ts'

export interface HostedOptions {
  /** `https://api.primeintellect.ai/api/v1`. */
  url: string
  key: string
  team?: string
  deadlineMs?: number
}

export interface HostedRun {
  id: string
  state: JobState
  reason: string | null
  runsAhead: number | null
  startedAt: number | null
  endedAt: number | null
  raw: Table
}

export class HostedError extends Error {
  override name = 'HostedError'
  constructor(
    /** `doubtful`: a submit whose answer never came; the run may be there. */
    readonly kind: 'unreachable' | 'refused' | 'doubtful',
    message: string,
  ) {
    super(message)
  }
}

const STATES: Record<string, JobState> = {
  QUEUED: 'queued',
  PENDING: 'starting',
  RUNNING: 'running',
  COMPLETED: 'succeeded',
  FAILED: 'failed',
  STOPPED: 'cancelled',
}

export class HostedClient {
  constructor(private readonly options: HostedOptions) {
    if (!/^https:\/\//.test(options.url) && !/^http:\/\/(localhost|127\.0\.0\.1)[:/]/.test(options.url))
      throw new Error(`hosted.url = "${options.url}" must begin with https://: the key and secrets go there.`)
  }

  /** `payload` as `hostedPayload` makes it. */
  async submit(payload: Table, secrets: Record<string, string>): Promise<HostedRun> {
    const list = Object.entries(secrets).map(([key, value]) => ({ key, value }))
    const team = this.options.team === undefined ? {} : { team_id: this.options.team }
    try {
      return runOf(await this.#ask('POST', '/rft/runs', { ...payload, ...team, secrets: list }))
    } catch (error) {
      if (!(error instanceof HostedError) || error.kind !== 'unreachable') throw error
      throw new HostedError(
        'doubtful',
        `${error.message} The run may have been made: look at the platform before submitting again.`,
      )
    }
  }

  /** Sentences for what the platform would refuse; nothing is made. */
  async preview(payload: Table): Promise<string[]> {
    try {
      await this.#ask('POST', '/rft/runs/preview', { ...payload, secrets: [] })
      return []
    } catch (error) {
      if (error instanceof HostedError && error.kind === 'refused') return [error.message]
      throw error
    }
  }

  async run(id: string): Promise<HostedRun> {
    return runOf(await this.#ask('GET', `/rft/runs/${encodeURIComponent(id)}`))
  }

  async stop(id: string): Promise<HostedRun> {
    return runOf(await this.#ask('PUT', `/rft/runs/${encodeURIComponent(id)}/stop`))
  }

  /** Only of a running run, from its last checkpoint. */
  async restart(id: string): Promise<HostedRun> {
    return runOf(await this.#ask('PUT', `/rft/runs/${encodeURIComponent(id)}/restart`))
  }

  async logs(id: string, lines = 1000): Promise<string> {
    const answer = await this.#ask('GET', `/rft/runs/${encodeURIComponent(id)}/logs?tail_lines=${lines}`)
    return typeof answer.logs === 'string' ? answer.logs : ''
  }

  /** Rows of metrics from a step on. */
  async metrics(id: string, from: number, limit = 500): Promise<Table[]> {
    const path = `/rft/runs/${encodeURIComponent(id)}/metrics?min_step=${from}&limit=${limit}`
    const { metrics } = await this.#ask('GET', path)
    return Array.isArray(metrics) ? metrics.filter(isTable) : []
  }

  async #ask(method: string, path: string, body?: unknown): Promise<Table> {
    const { url, key, deadlineMs = 30_000 } = this.options
    let response: Response
    let text: string
    try {
      response = await fetch(`${url.replace(/\/$/, '')}${path}`, {
        ...{ method, redirect: 'error' as const, signal: AbortSignal.timeout(deadlineMs) },
        headers: {
          authorization: `Bearer ${key}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      text = await response.text()
    } catch (error) {
      const why =
        error instanceof Error ? ((error.cause as Error | undefined)?.message ?? error.message) : String(error)
      throw new HostedError('unreachable', `Hosted Training at ${url} cannot be reached: ${why}.`)
    }
    const answer = parsed(text)
    if (response.status >= 500) throw new HostedError('unreachable', `Hosted Training answered ${response.status}.`)
    if (response.status === 401 || response.status === 403)
      throw new HostedError('refused', 'Hosted Training does not take the key of this server.')
    if (response.status >= 400) throw new HostedError('refused', `Hosted Training refused: ${detailOf(answer, text)}`)
    if (!answer) throw new HostedError('unreachable', `Hosted Training answered ${response.status} without JSON.`)
    return answer
  }
}

function runOf(answer: Table): HostedRun {
  const raw = isTable(answer.run) ? answer.run : answer
  const text = (key: string) => (typeof raw[key] === 'string' ? (raw[key] as string) : '')
  const time = (key: string) => (text(key) ? Date.parse(text(key)) : null)
  const ahead = typeof raw.runsAhead === 'number' ? raw.runsAhead : null
  const state = STATES[text('status')] ?? 'unknown'
  const cause = isTable(raw.failureAnalysis) ? raw.failureAnalysis.rootCause : undefined
  return {
    ...{ id: text('id'), state, runsAhead: ahead, startedAt: time('startedAt'), endedAt: time('completedAt'), raw },
    reason:
      text('errorMessage') || (typeof cause === 'string' ? cause : '') || text('queueReason') || text('notice') || null,
  }
}

/** FastAPI's `detail`: a text, or a list of places and messages. */
function detailOf(answer: Table | null, text: string): string {
  const detail = answer?.detail
  if (typeof detail === 'string') return detail
  if (Array.isArray(detail))
    return detail
      .filter(isTable)
      .map(({ loc, msg }) => `${Array.isArray(loc) ? loc.join('.') : ''}: ${msg}`)
      .join('; ')
  return text.slice(0, 300) || 'nothing more was said.'
}

function parsed(text: string): Table | null {
  try {
    const value: unknown = JSON.parse(text)
    return isTable(value) ? value : null
  } catch {
    return null
  }
}
