// Ray's job API as a few calls. Errors are plain text there; a connection that fails says nothing about a job.

import { isTable } from '../../../configs/path.ts'

export interface RayClientOptions {
  /** `http://head:8265`. */
  url: string
  /** Since Ray 2.52, where the cluster asks for one. */
  token?: string
  /** Without a token anybody who reaches a Ray runs code on it: beyond this machine that has to be said. */
  allowWithoutToken?: boolean
  deadlineMs?: number
}

export interface RayJob {
  submissionId: string
  /** PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED. */
  status: string
  message: string
  exitCode: number | null
  startedAt: number | null
  endedAt: number | null
  node: string
  raw: Record<string, unknown>
}

export interface RaySubmit {
  entrypoint: string
  submission_id: string
  runtime_env: { env_vars: Record<string, string> }
  metadata: Record<string, string>
  entrypoint_num_gpus: number
  entrypoint_num_cpus: number
}

export class RayError extends Error {
  override name = 'RayError'
  constructor(
    readonly kind: 'unreachable' | 'refused',
    message: string,
  ) {
    super(message)
  }
}

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/

export class RayClient {
  constructor(readonly options: RayClientOptions) {
    const { hostname } = new URL(options.url)
    if (!options.token && !options.allowWithoutToken && !LOOPBACK.test(hostname))
      throw new Error(
        `ray.url = "${options.url}" is beyond this machine and has no token: whoever reaches such a Ray runs code on it. Give ray.token_file (Ray 2.52 or later with RAY_AUTH_MODE=token), or say ray.allow_without_token = true.`,
      )
  }

  async version(): Promise<string> {
    const answer = await this.#json('GET', '/api/version')
    return isTable(answer) ? String(answer.ray_version) : ''
  }

  /** False where a job of this id is there already. */
  async submit(job: RaySubmit): Promise<boolean> {
    const { status, text } = await this.#send('POST', '/api/jobs/', job)
    if (status === 200) return true
    if (/already exists|already been submitted|Please use a different submission_id/i.test(text)) return false
    throw new RayError('refused', `Ray refused: ${lastLine(text)}.`)
  }

  async job(id: string): Promise<RayJob | null> {
    const { status, text } = await this.#send('GET', `/api/jobs/${encodeURIComponent(id)}`)
    if (status === 404) return null
    const raw = parsed(text)
    if (status !== 200 || !raw) throw new RayError('unreachable', `Ray answered ${status}: ${lastLine(text)}.`)
    return jobOf(raw)
  }

  /** Asks for an end; of one that has ended, nothing. */
  async stop(id: string): Promise<void> {
    const { status, text } = await this.#send('POST', `/api/jobs/${encodeURIComponent(id)}/stop`)
    if (status !== 200 && status !== 404) throw new RayError('refused', `Ray did not stop the job: ${lastLine(text)}.`)
  }

  async #json(method: string, path: string): Promise<unknown> {
    const { status, text } = await this.#send(method, path)
    if (status !== 200) throw new RayError('unreachable', `Ray answered ${status}: ${lastLine(text)}.`)
    return parsed(text)
  }

  async #send(method: string, path: string, body?: unknown): Promise<{ status: number; text: string }> {
    const { url, token, deadlineMs = 20_000 } = this.options
    let response: Response
    let text: string
    try {
      response = await fetch(`${url}${path}`, {
        ...{ method, redirect: 'error' as const, signal: AbortSignal.timeout(deadlineMs) },
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(token ? { authorization: `Bearer ${token}` } : {}),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      text = await response.text()
    } catch (error) {
      const why =
        error instanceof Error ? ((error.cause as Error | undefined)?.message ?? error.message) : String(error)
      throw new RayError('unreachable', `Ray at ${url} cannot be reached: ${why}.`)
    }
    if (response.status === 401 || response.status === 403)
      throw new RayError(
        'unreachable',
        `Ray at ${url} does not take the token of this server: put a new one into ray.token_file.`,
      )
    return { status: response.status, text }
  }
}

function jobOf(raw: Record<string, unknown>): RayJob {
  const number = (value: unknown) => (typeof value === 'number' ? value : null)
  return {
    submissionId: String(raw.submission_id),
    status: String(raw.status),
    message: typeof raw.message === 'string' ? raw.message : '',
    exitCode: number(raw.driver_exit_code),
    startedAt: number(raw.start_time),
    endedAt: number(raw.end_time) || null,
    node: typeof raw.driver_agent_http_address === 'string' ? new URL(raw.driver_agent_http_address).hostname : '',
    raw,
  }
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return isTable(value) ? value : null
  } catch {
    return null
  }
}

/** Of a Python traceback, what it says. */
const lastLine = (text: string): string =>
  (text.trim().split('\n').at(-1) ?? '').slice(0, 300).replace(/[.\s]+$/, '') || 'nothing'
