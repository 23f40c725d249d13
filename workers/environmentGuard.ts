// The trainer's end of an environment worker. The environment side holds its own deadlines, but code that never yields,
// or a worker that dies, cannot answer at all: then the worker is ended, its open rollouts come back errored, and the
// next call opens a fresh one. Knows how to wait and to reconnect; not what an environment is.

import type { EnvironmentPort, OpenRequest, RespondResult, ScoreResult, SetupResult } from './protocol.ts'

/** A worker with an environment side in it. */
export interface EnvironmentConnection {
  port: EnvironmentPort
  /** Ends the worker, whatever it is doing. */
  close(): void
  /** Settles, in either way, when the worker dies by itself; says why. */
  died?: Promise<string>
}

export type Connect = () => EnvironmentConnection | Promise<EnvironmentConnection>

export interface EnvironmentGuard extends EnvironmentPort {
  close(): void
}

export interface GuardOptions {
  /** How much longer than its deadline a call is waited for: its way there and back. */
  graceMs?: number
  /** A worker was given up, and why. */
  onLost?: (reason: string) => void
}

export function guardEnvironmentPort(connect: Connect, options: GuardOptions = {}): EnvironmentGuard {
  return new Guard(connect, options)
}

/** One worker's life. */
interface Life {
  connection: EnvironmentConnection
  /** Rejects with a Lost when the worker is given up; never resolves. */
  ended: Promise<never>
  end(reason: string): void
}

const CLOSED = 'The environment worker was closed.'

class Lost extends Error {}

class Guard implements EnvironmentGuard {
  readonly #connect: Connect
  readonly #graceMs: number
  readonly #onLost: (reason: string) => void
  /** The open rollouts and the worker that holds each. */
  readonly #holders = new Map<string, Life>()
  readonly #lost = new Map<string, string>()
  #life: Promise<Life> | null = null
  #request: OpenRequest | null = null

  constructor(connect: Connect, { graceMs = 2000, onLost = () => {} }: GuardOptions) {
    this.#connect = connect
    this.#graceMs = graceMs
    this.#onLost = onLost
  }

  async open(request: OpenRequest) {
    this.#request = request
    this.#holders.clear()
    this.#lost.clear()
    const life = await this.#alive(false)
    return Promise.race([life.connection.port.open(request), life.ended])
  }

  /** Drawing is a pure function, so a worker that dies of something else is replaced and asked again, once. */
  async draw(...args: Parameters<EnvironmentPort['draw']>) {
    const ask = async () => this.#ask(await this.#alive(), args[2], 'draw tasks', ({ port }) => port.draw(...args))
    return ask().catch((cause) => {
      if (cause instanceof Lost) return ask()
      throw cause
    })
  }

  async setup(rollouts: Parameters<EnvironmentPort['setup']>[0], deadlineMs: number): Promise<SetupResult[]> {
    try {
      const life = await this.#alive()
      for (const { handle } of rollouts) this.#holders.set(handle, life)
      return await this.#ask(life, deadlineMs, 'set up rollouts', ({ port }) => port.setup(rollouts, deadlineMs))
    } catch (cause) {
      return rollouts.map(({ handle }) => ({ handle, prompt: [], error: this.#why(handle, cause) }))
    }
  }

  async respond(rollouts: Parameters<EnvironmentPort['respond']>[0], deadlineMs: number): Promise<RespondResult[]> {
    const failed = (handle: string, cause: unknown): RespondResult => ({
      handle,
      done: true,
      stop: 'has_error',
      messages: [],
      error: this.#why(handle, cause),
    })
    const open = rollouts.filter(({ handle }) => !this.#lost.has(handle))
    let answers: RespondResult[] = []
    let trouble: unknown = null
    if (open.length > 0)
      try {
        const life = await this.#alive()
        answers = await this.#ask(life, deadlineMs, 'answer messages', ({ port }) => port.respond(open, deadlineMs))
      } catch (cause) {
        trouble = cause
      }
    const byHandle = new Map(answers.map((answer) => [answer.handle, answer]))
    return rollouts.map(({ handle }) => byHandle.get(handle) ?? failed(handle, trouble))
  }

  async score(groups: { handles: string[] }[], deadlineMs: number): Promise<ScoreResult[][]> {
    const failed = (handle: string, cause: unknown): ScoreResult => ({
      handle,
      reward: null,
      metrics: {},
      error: this.#why(handle, cause),
    })
    try {
      const life = await this.#alive()
      const scores = await this.#ask(life, deadlineMs, 'score groups', ({ port }) => port.score(groups, deadlineMs))
      return scores.map((group) =>
        group.map((score) => (this.#lost.has(score.handle) ? failed(score.handle, null) : score)),
      )
    } catch (cause) {
      return groups.map(({ handles }) => handles.map((handle) => failed(handle, cause)))
    } finally {
      this.#forget(groups.flatMap(({ handles }) => handles))
    }
  }

  async release(handles: string[]): Promise<void> {
    this.#forget(handles)
    const life = await this.#life?.catch(() => null)
    if (life) await Promise.race([life.connection.port.release(handles), life.ended]).catch(() => {})
  }

  close(): void {
    const life = this.#life
    this.#life = null
    life?.then(({ end }) => end(CLOSED)).catch(() => {})
  }

  /** The worker that is there, or a fresh one; `reopen` unless the caller opens it itself. */
  #alive(reopen = true): Promise<Life> {
    if (this.#life !== null) return this.#life
    const starting = this.#start(reopen)
    this.#life = starting
    starting.catch(() => this.#leave(starting))
    return starting
  }

  #leave(life: Promise<Life>): void {
    if (this.#life === life) this.#life = null
  }

  async #start(reopen: boolean): Promise<Life> {
    const connection = await this.#connect()
    const starting = this.#life
    let reject: (reason: Lost) => void = () => {}
    const ended = new Promise<never>((_, rejectEnded) => {
      reject = rejectEnded
    })
    ended.catch(() => {}) // heard by whoever is waiting; nobody may be
    let over = false
    const life: Life = {
      connection,
      ended,
      end: (reason) => {
        if (over) return
        over = true
        if (starting) this.#leave(starting)
        for (const [handle, holder] of this.#holders) if (holder === life) this.#lost.set(handle, reason)
        connection.close()
        if (reason !== CLOSED) this.#onLost(reason)
        reject(new Lost(reason))
      },
    }
    const gone = (reason: unknown) => life.end(`The environment worker died: ${reason}`)
    connection.died?.then(gone, gone)
    if (reopen && this.#request !== null)
      try {
        await Promise.race([connection.port.open(this.#request), ended])
      } catch (cause) {
        life.end(cause instanceof Error ? cause.message : String(cause))
        throw cause
      }
    return life
  }

  async #ask<T>(
    life: Life,
    deadlineMs: number,
    doing: string,
    call: (connection: EnvironmentConnection) => Promise<T>,
  ): Promise<T> {
    const silent = () =>
      life.end(
        `The environment worker was asked to ${doing} within ${deadlineMs} ms and gave no answer; it was ended, and the next call starts a fresh one.`,
      )
    const timer = setTimeout(silent, deadlineMs + this.#graceMs)
    try {
      return await Promise.race([call(life.connection), life.ended])
    } finally {
      clearTimeout(timer)
    }
  }

  #why(handle: string, cause: unknown): string {
    return this.#lost.get(handle) ?? (cause instanceof Error ? cause.message : String(cause))
  }

  #forget(handles: string[]): void {
    for (const handle of handles) {
      this.#holders.delete(handle)
      this.#lost.delete(handle)
    }
  }
}
