// The environment side of a run, in a worker or in Node: EnvironmentPort over the environments of a config. Keeps every
// rollout's state under its handle, holds each call to its deadline, and turns whatever an environment throws or fails
// to finish into an errored rollout with a sentence. Knows messages and handles; no ids, tensors or policies.

import type { Context, Environment } from '../environments/environment.ts'
import { environments as bundled, openEnvironment } from '../environments/index.ts'
import type { EnvironmentLoader } from '../environments/loader.ts'
import type { Example, Message, Split } from '../environments/messages.ts'
import { Mixture } from '../environments/mixture.ts'
import { deserialiseState, type State, serialiseState } from '../environments/state.ts'
import type {
  DrawnTask,
  EnvironmentDescription,
  EnvironmentPort,
  OpenRequest,
  RespondResult,
  ScoreResult,
  SetupResult,
} from './protocol.ts'

/** An open rollout as text: what another port, opened with the same request, needs to carry it on. */
export interface SavedRollout {
  handle: string
  environment: string
  /** null where the rollout was errored before it had a state. */
  state: string | null
  error: string | null
}

/** A port whose open rollouts can be moved to another. */
export interface LocalEnvironmentPort extends EnvironmentPort {
  /** Throws, naming the place, where a state holds what JSON would lose. */
  save(handles?: string[]): Promise<SavedRollout[]>
  restore(rollouts: SavedRollout[]): Promise<void>
}

export function createEnvironmentPort(loaders: readonly EnvironmentLoader[] = bundled): LocalEnvironmentPort {
  return new Port(loaders)
}

interface Opened {
  id: string
  name: string
  environment: Environment
}

interface Rollout {
  opened: Opened
  /** null until setup is done. */
  state: State | null
  error: string | null
  abort: AbortController
}

class Port implements LocalEnvironmentPort {
  readonly #loaders: readonly EnvironmentLoader[]
  readonly #rollouts = new Map<string, Rollout>()
  #opened: Opened[] = []
  #mixtures: Record<Split, Mixture> | null = null
  #seed = 0

  constructor(loaders: readonly EnvironmentLoader[]) {
    this.#loaders = loaders
  }

  async open({ environments, seed }: OpenRequest): Promise<EnvironmentDescription[]> {
    if (environments.length === 0) throw new Error('A run needs at least one [[env]], got none.')
    const names = environments.map(({ name }) => name)
    const twice = names.find((name, index) => names.indexOf(name) !== index)
    if (twice !== undefined) throw new Error(`Two [[env]] are called "${twice}"; give one of them another name.`)
    const opened: Opened[] = []
    for (const { id, name, args } of environments)
      opened.push({ id, name, environment: await openEnvironment(id, args, this.#loaders) })
    await this.release([...this.#rollouts.keys()])
    for (const { environment } of this.#opened) await environment.teardown()
    this.#opened = opened
    this.#seed = seed
    // Ratios are for training; evaluation takes as many tasks from each environment.
    this.#mixtures = {
      train: new Mixture(environments.map(({ ratio }) => ratio)),
      eval: new Mixture(environments.map(() => 1)),
    }
    return opened.map(({ id, name, environment }) => ({
      id,
      name,
      title: environment.title,
      summary: environment.summary,
      trainSize: environment.train.size,
      evalSize: environment.evaluation.size,
      maxTurns: environment.maxTurns,
    }))
  }

  async draw(split: Split, positions: number[], deadlineMs: number): Promise<DrawnTask[]> {
    const end = performance.now() + deadlineMs
    return positions.map((position) => {
      if (performance.now() >= end)
        throw new Error(`Drawing ${positions.length} tasks took longer than the ${deadlineMs} ms it was given.`)
      const { opened, example } = this.#example(split, position)
      const { exampleId, prompt, answer } = example
      return { position, exampleId, environment: opened.name, prompt, answer }
    })
  }

  async setup(
    rollouts: { handle: string; split: Split; position: number }[],
    deadlineMs: number,
  ): Promise<SetupResult[]> {
    const deadline = new Deadline(deadlineMs)
    return Promise.all(
      rollouts.map(async ({ handle, split, position }): Promise<SetupResult> => {
        if (this.#rollouts.has(handle))
          return { handle, prompt: [], error: `The handle ${handle} belongs to an open rollout; each needs its own.` }
        let rollout: Rollout | null = null
        try {
          const { opened, example } = this.#example(split, position)
          rollout = { opened, state: null, error: null, abort: new AbortController() }
          this.#rollouts.set(handle, rollout)
          const { environment } = opened
          const state = await deadline.hold(rollout.abort, (context) => environment.begin(example, this.#seed, context))
          rollout.state = state
          return { handle, prompt: state.prompt, tools: environment.tools(state), error: null }
        } catch (cause) {
          const error = sentence(cause, `${rollout?.opened.name ?? 'An environment'} could not set up a rollout`)
          if (rollout) rollout.error = error
          return { handle, prompt: [], error }
        }
      }),
    ).finally(() => deadline.clear())
  }

  async respond(
    rollouts: { handle: string; message: Message; truncated: boolean }[],
    deadlineMs: number,
  ): Promise<RespondResult[]> {
    const deadline = new Deadline(deadlineMs)
    return Promise.all(
      rollouts.map(async ({ handle, message, truncated }): Promise<RespondResult> => {
        const rollout = this.#rollouts.get(handle)
        if (!rollout) return failed(handle, unknown(handle))
        const { state, opened } = rollout
        if (rollout.error !== null || state === null) return failed(handle, rollout.error ?? unknown(handle))
        const turn = state.turn + 1
        try {
          const answer = await deadline.hold(rollout.abort, (context) =>
            opened.environment.respond(state, message, truncated, context),
          )
          rollout.error = state.error
          return { handle, ...answer, error: state.error }
        } catch (cause) {
          rollout.error = sentence(cause, `${opened.name} could not answer turn ${turn}`)
          return failed(handle, rollout.error)
        }
      }),
    ).finally(() => deadline.clear())
  }

  async score(groups: { handles: string[] }[], deadlineMs: number): Promise<ScoreResult[][]> {
    const deadline = new Deadline(deadlineMs)
    return Promise.all(groups.map(({ handles }) => this.#scoreGroup(handles, deadline))).finally(async () => {
      deadline.clear()
      await this.release(groups.flatMap(({ handles }) => handles))
    })
  }

  /** Errored rollouts are not judged, so a group reward compares only those that came through. */
  async #scoreGroup(handles: string[], deadline: Deadline): Promise<ScoreResult[]> {
    const results = handles.map((handle): ScoreResult => {
      const rollout = this.#rollouts.get(handle)
      const error = rollout ? (rollout.error ?? (rollout.state ? null : unknown(handle))) : unknown(handle)
      return { handle, reward: null, metrics: {}, error }
    })
    const judged = results.filter(({ error }) => error === null)
    if (judged.length === 0) return results
    const { opened } = this.#rollouts.get(judged[0].handle)!
    try {
      const states = judged.map(({ handle }) => this.#rollouts.get(handle)!.state!)
      const scores = await deadline.hold(
        new AbortController(),
        (context) => opened.environment.score(states, context),
        { settleMs: 50 },
      )
      judged.forEach((result, index) => {
        Object.assign(result, scores[index])
      })
    } catch (cause) {
      const error = sentence(cause, `${opened.name} could not score a group`)
      for (const result of judged) result.error = error
    }
    return results
  }

  async release(handles: string[]): Promise<void> {
    for (const handle of handles) {
      const rollout = this.#rollouts.get(handle)
      if (!rollout) continue
      this.#rollouts.delete(handle)
      rollout.abort.abort(new Error(`The rollout ${handle} was released.`))
      // What is cleaned up here no longer counts; a failure of it must not fail other rollouts.
      try {
        if (rollout.state) await rollout.opened.environment.cleanup(rollout.state)
      } catch (cause) {
        console.warn(sentence(cause, `${rollout.opened.name} could not clean up after a rollout`))
      }
    }
  }

  async save(handles: string[] = [...this.#rollouts.keys()]): Promise<SavedRollout[]> {
    return handles.map((handle) => {
      const rollout = this.#rollouts.get(handle)
      if (!rollout) throw new Error(unknown(handle))
      const { opened, state, error } = rollout
      return { handle, environment: opened.name, state: state && serialiseState(state), error }
    })
  }

  async restore(rollouts: SavedRollout[]): Promise<void> {
    for (const { handle, environment, state, error } of rollouts) {
      const opened = this.#opened.find(({ name }) => name === environment)
      if (!opened)
        throw new Error(
          `The rollout ${handle} belongs to "${environment}", which is not open here; open the same [[env]] first.`,
        )
      const lost = state === null ? `The rollout ${handle} was saved before it was set up.` : null
      this.#rollouts.set(handle, {
        opened,
        state: state === null ? null : deserialiseState(state),
        error: error ?? lost,
        abort: new AbortController(),
      })
    }
  }

  #example(split: Split, position: number): { opened: Opened; example: Example } {
    if (this.#mixtures === null) throw new Error('No environment is open: call open before anything else.')
    const slot = this.#mixtures[split].at(position)
    const opened = this.#opened[slot.source]
    return { opened, example: opened.environment.draw(this.#seed, split, slot.position) }
  }
}

/** The time that one call has for all its rollouts. */
class Deadline {
  readonly #ms: number
  readonly #end: number
  readonly #waiting = new Set<() => void>()
  readonly #timer: ReturnType<typeof setTimeout>

  constructor(ms: number) {
    this.#ms = ms
    this.#end = performance.now() + ms
    this.#timer = setTimeout(() => {
      for (const expire of this.#waiting) expire()
    }, ms)
  }

  private get passed(): boolean {
    return performance.now() >= this.#end
  }

  clear(): void {
    clearTimeout(this.#timer)
  }

  /**
   * Settles with the work, or aborts it at the deadline and throws. With `settleMs`, work that heeds the abort has so
   * long to bring home what it has. Work that never yields cannot be interrupted from its own thread: it is found out
   * here when it returns, and by the guard on the other side before that.
   */
  async hold<T>(
    abort: AbortController,
    work: (context: Context) => Promise<T>,
    { settleMs = 0 }: { settleMs?: number } = {},
  ): Promise<T> {
    const late = () => new Error(`it did not finish within ${this.#ms} ms; give it more time or less to do`)
    if (this.passed) throw late()
    let settling: ReturnType<typeof setTimeout> | undefined
    let reject: (reason: unknown) => void = () => {}
    const expired = new Promise<never>((_, rejectExpired) => {
      reject = rejectExpired
    })
    const onAbort = () => {
      if (settleMs === 0) reject(abort.signal.reason)
      else settling = setTimeout(reject, settleMs, abort.signal.reason)
    }
    const expire = () => abort.abort(late())
    abort.signal.addEventListener('abort', onAbort)
    this.#waiting.add(expire)
    try {
      const done = await Promise.race([work({ signal: abort.signal }), expired])
      if (settleMs === 0 && this.passed) throw late()
      return done
    } finally {
      clearTimeout(settling)
      abort.signal.removeEventListener('abort', onAbort)
      this.#waiting.delete(expire)
    }
  }
}

function failed(handle: string, error: string): RespondResult {
  return { handle, done: true, stop: 'has_error', messages: [], error }
}

function unknown(handle: string): string {
  return `No rollout is open under the handle ${handle}; it was never set up, or it was scored or released.`
}

/** What was thrown, as a sentence; where it says little, what was being done stands before it. */
function sentence(cause: unknown, doing: string): string {
  const said = cause instanceof Error ? cause.message : String(cause)
  return `${doing}: ${said.replace(/\.$/, '')}.`
}
