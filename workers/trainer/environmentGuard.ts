// The environment side as the trainer sees it: it always answers. A side that dies or hangs turns its open rollouts into
// errored ones and is replaced by a fresh one. How a side is started is the host's business.

import type {
  DrawnTask,
  EnvironmentDescription,
  EnvironmentPort,
  OpenRequest,
  RespondResult,
  ScoreResult,
  SetupResult,
} from '../protocol.ts'

/** One living environment side. */
export interface EnvironmentLink {
  port: EnvironmentPort
  /** Resolves with a sentence when the side is gone; never otherwise. */
  gone: Promise<string>
  /** Ends the side, however busy it is. */
  close(): void
}

export type ConnectEnvironment = () => Promise<EnvironmentLink>

/** Beyond the deadline that the side itself keeps; only a side that cannot run its own clock needs it. */
const GRACE_MS = 2_000
/** Datasets may have to be made or read. */
const OPEN_DEADLINE_MS = 60_000
const MOST_LOSSES_IN_A_ROW = 3

class Lost extends Error {}

interface Side {
  link: EnvironmentLink
  lost: string | null
  /** Calls under way, to be told when the side is lost. */
  waiting: Set<(loss: Lost) => void>
}

export class EnvironmentGuard implements EnvironmentPort {
  #connect: ConnectEnvironment
  #onLoss: (sentence: string) => void
  #request: OpenRequest | null = null
  #side: Side | null = null
  /** Where each open rollout lives. */
  #home = new Map<string, Side>()
  #lossesInARow = 0

  /** `onLoss` hears a sentence each time that a side is lost. */
  constructor(connect: ConnectEnvironment, onLoss: (sentence: string) => void) {
    this.#connect = connect
    this.#onLoss = onLoss
  }

  async open(request: OpenRequest): Promise<EnvironmentDescription[]> {
    this.close()
    this.#request = request
    return this.#begin(request)
  }

  /** A task does not depend on the side that draws it, so a lost draw is simply repeated. */
  async draw(...[split, positions, deadlineMs]: Parameters<EnvironmentPort['draw']>): Promise<DrawnTask[]> {
    for (;;) {
      const side = await this.#living()
      try {
        return await this.#ask(side, deadlineMs, (port) => port.draw(split, positions, deadlineMs))
      } catch (error) {
        if (!(error instanceof Lost)) throw error
      }
    }
  }

  async setup(...[rollouts, deadlineMs]: Parameters<EnvironmentPort['setup']>): Promise<SetupResult[]> {
    const side = await this.#living()
    for (const { handle } of rollouts) this.#home.set(handle, side)
    return this.#each(
      rollouts,
      (part) => this.#ask(side, deadlineMs, (port) => port.setup(part, deadlineMs)),
      ({ handle }, error): SetupResult => ({ handle, prompt: [], error }),
    )
  }

  async respond(...[rollouts, deadlineMs]: Parameters<EnvironmentPort['respond']>): Promise<RespondResult[]> {
    const side = await this.#living()
    return this.#each(
      rollouts,
      (part) => this.#ask(side, deadlineMs, (port) => port.respond(part, deadlineMs)),
      ({ handle }, error): RespondResult => ({ handle, done: true, stop: 'has_error', messages: [], error }),
    )
  }

  async score(...[groups, deadlineMs]: Parameters<EnvironmentPort['score']>): Promise<ScoreResult[][]> {
    const side = await this.#living()
    const failed = (handle: string, error: string): ScoreResult => ({ handle, reward: null, metrics: {}, error })
    // Within a group some rollouts may have been lost with an earlier side; the others are still judged together.
    const alive = groups.map(({ handles }) => ({ handles: handles.filter((handle) => this.#lossOf(handle) === null) }))
    let scored: ScoreResult[][]
    try {
      scored = await this.#ask(side, deadlineMs, (port) => port.score(alive, deadlineMs))
    } catch (error) {
      if (!(error instanceof Lost)) throw error
      scored = alive.map(({ handles }) => handles.map((handle) => failed(handle, error.message)))
    }
    const results = groups.map(({ handles }, g) => {
      const byHandle = new Map(scored[g].map((result) => [result.handle, result]))
      return handles.map(
        (handle) => byHandle.get(handle) ?? failed(handle, this.#lossOf(handle) ?? 'It was not scored.'),
      )
    })
    for (const { handles } of groups) for (const handle of handles) this.#home.delete(handle)
    return results
  }

  async release(handles: string[]): Promise<void> {
    const here = handles.filter((handle) => this.#home.get(handle) === this.#side)
    for (const handle of handles) this.#home.delete(handle)
    if (!this.#side || this.#side.lost !== null || here.length === 0) return
    await this.#ask(this.#side, GRACE_MS, (port) => port.release(here)).catch(() => {})
  }

  close(): void {
    this.#side?.link.close()
    this.#side = null
    this.#home.clear()
  }

  async #begin(request: OpenRequest): Promise<EnvironmentDescription[]> {
    const side: Side = { link: await this.#connect(), lost: null, waiting: new Set() }
    side.link.gone.then((sentence) => this.#lose(side, sentence))
    this.#side = side
    return this.#hold(side, OPEN_DEADLINE_MS, (port) => port.open(request))
  }

  /** The present side, or a fresh one in its place. */
  async #living(): Promise<Side> {
    if (!this.#request) throw new Error('internal: the environment side is used before it is opened')
    if (this.#side && this.#side.lost === null) return this.#side
    if (this.#lossesInARow >= MOST_LOSSES_IN_A_ROW) {
      throw new Error(
        `The environment's worker was lost ${this.#lossesInARow} times in a row: ${this.#side?.lost ?? 'it did not come back.'}`,
      )
    }
    await this.#begin(this.#request)
    return this.#side as Side
  }

  #lose(side: Side, sentence: string): void {
    if (side.lost !== null || side !== this.#side) return
    side.lost = sentence
    this.#lossesInARow++
    side.link.close()
    for (const tell of side.waiting) tell(new Lost(sentence))
    this.#onLoss(sentence)
  }

  /** Why a rollout can no longer be reached; null while it can. */
  #lossOf(handle: string): string | null {
    const home = this.#home.get(handle)
    return home ? home.lost : 'Its rollout is not open.'
  }

  async #ask<T>(side: Side, deadlineMs: number, call: (port: EnvironmentPort) => Promise<T>): Promise<T> {
    const result = await this.#hold(side, deadlineMs, call)
    this.#lossesInARow = 0
    return result
  }

  /** Settles with the call, or throws `Lost` when the side dies or is silent for too long. */
  async #hold<T>(side: Side, deadlineMs: number, call: (port: EnvironmentPort) => Promise<T>): Promise<T> {
    let tell: (loss: Lost) => void = () => {}
    const lost = new Promise<never>((_, reject) => {
      tell = reject
    })
    side.waiting.add(tell)
    const timer = setTimeout(
      () => this.#lose(side, `The environment's worker did not answer within ${deadlineMs} ms and was restarted.`),
      deadlineMs + GRACE_MS,
    )
    try {
      if (side.lost !== null) throw new Lost(side.lost)
      return await Promise.race([call(side.link.port), lost])
    } finally {
      clearTimeout(timer)
      side.waiting.delete(tell)
    }
  }

  /** Asks for the rollouts that can be reached and answers for the others; in the order of `rollouts`. */
  async #each<I extends { handle: string }, R extends { handle: string }>(
    rollouts: I[],
    ask: (part: I[]) => Promise<R[]>,
    failed: (rollout: I, error: string) => R,
  ): Promise<R[]> {
    const reachable = rollouts.filter(({ handle }) => this.#lossOf(handle) === null)
    let answered: R[] = []
    try {
      if (reachable.length > 0) answered = await ask(reachable)
    } catch (error) {
      if (!(error instanceof Lost)) throw error
    }
    const byHandle = new Map(answered.map((result) => [result.handle, result]))
    return rollouts.map(
      (rollout) =>
        byHandle.get(rollout.handle) ?? failed(rollout, this.#lossOf(rollout.handle) ?? 'It was not answered.'),
    )
  }
}
