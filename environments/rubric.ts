// How an answer is judged: weighted reward functions that declare what they need, over one rollout or over its whole
// group. reward = Σ weight · value; a weight of 0 makes a metric. Unlike verifiers, a function that throws makes its
// rollout errored: its reward is null, never a silent zero.

import type { Message } from './messages.ts'
import { type AnswerParser, Parser } from './parsers.ts'
import type { State } from './state.ts'

/** What a reward function over one rollout may ask for. */
export interface RolloutInputs<Data extends object = object> {
  prompt: Message[]
  completion: Message[]
  answer: string
  state: State<Data>
  task: string
  info: Record<string, unknown>
  parser: AnswerParser
  /** Aborted at the deadline; for functions that ask a network. */
  signal: AbortSignal
}

/** What a reward function over a group may ask for; arrays have one entry per rollout, in the group's order. */
export interface GroupInputs<Data extends object = object> {
  prompts: Message[][]
  completions: Message[][]
  answers: string[]
  states: State<Data>[]
  tasks: string[]
  infos: Record<string, unknown>[]
  parser: AnswerParser
  signal: AbortSignal
}

export interface Score {
  /** null where the rollout could not be scored. */
  reward: number | null
  /** Every function's value by its name, unweighted. */
  metrics: Record<string, number>
  error: string | null
}

/** Judges the rollouts of one group; a Rubric or several of them. */
export interface Judge<Data extends object = object> {
  names(): string[]
  score(states: State<Data>[], signal?: AbortSignal): Promise<Score[]>
}

type Awaitable<T> = T | Promise<T>

interface Named {
  name: string
  weight: number
}

/** Failures come back as Errors: they are data. */
interface RewardFunction<Data extends object> extends Named {
  value(state: State<Data>, signal: AbortSignal): Promise<number | Error>
}

interface GroupRewardFunction<Data extends object> extends Named {
  values(states: State<Data>[], signal: AbortSignal): Promise<(number | Error)[]>
}

export class Rubric<Data extends object = object> implements Judge<Data> {
  readonly parser: AnswerParser
  readonly #functions: RewardFunction<Data>[] = []
  readonly #groupFunctions: GroupRewardFunction<Data>[] = []

  constructor({ parser = new Parser() }: { parser?: AnswerParser } = {}) {
    this.parser = parser
  }

  /** A function of one rollout; it is handed exactly the inputs that it names. */
  addReward<Need extends keyof RolloutInputs<Data>>(
    name: string,
    needs: readonly Need[],
    value: (inputs: Pick<RolloutInputs<Data>, Need>) => Awaitable<number>,
    weight = 1,
  ): this {
    this.#check(name, weight)
    this.#functions.push({
      name,
      weight,
      value: async (state, signal) => {
        try {
          const given = await unlessAborted(signal, () => value(pick(this.#rolloutInputs(state, signal), needs)))
          return checked(name, given)
        } catch (cause) {
          return failure(name, cause)
        }
      },
    })
    return this
  }

  /** A function of all rollouts of a group, giving one value each; its failure is the failure of all of them. */
  addGroupReward<Need extends keyof GroupInputs<Data>>(
    name: string,
    needs: readonly Need[],
    values: (inputs: Pick<GroupInputs<Data>, Need>) => Awaitable<number[]>,
    weight = 1,
  ): this {
    this.#check(name, weight)
    this.#groupFunctions.push({
      name,
      weight,
      values: async (states, signal) => {
        try {
          const given = await unlessAborted(signal, () => values(pick(this.#groupInputs(states, signal), needs)))
          if (!Array.isArray(given) || given.length !== states.length)
            throw new Error(`one number for each of ${states.length} rollouts was expected, got ${describe(given)}`)
          return given.map((each) => checked(name, each))
        } catch (cause) {
          return states.map(() => failure(name, cause))
        }
      },
    })
    return this
  }

  addMetric<Need extends keyof RolloutInputs<Data>>(
    name: string,
    needs: readonly Need[],
    value: (inputs: Pick<RolloutInputs<Data>, Need>) => Awaitable<number>,
  ): this {
    return this.addReward(name, needs, value, 0)
  }

  names(): string[] {
    return [...this.#functions, ...this.#groupFunctions].map(({ name }) => name)
  }

  /**
   * Each rollout's functions run in their order, rollouts side by side; then the group's, over those that came through.
   * A rollout that is already errored is not judged. When the signal is aborted, what is unfinished has failed.
   */
  async score(states: State<Data>[], signal: AbortSignal = new AbortController().signal): Promise<Score[]> {
    const scores: Score[] = states.map(({ error }) => ({ reward: error === null ? 0 : null, metrics: {}, error }))
    const sound = () => states.flatMap((_, index) => (scores[index].error === null ? [index] : []))
    await Promise.all(
      sound().map(async (index) => {
        for (const one of this.#functions) record(scores[index], one, await one.value(states[index], signal))
      }),
    )
    for (const one of this.#groupFunctions) {
      const judged = sound()
      if (judged.length === 0) break
      const given = await one.values(
        judged.map((index) => states[index]),
        signal,
      )
      judged.forEach((index, at) => {
        record(scores[index], one, given[at])
      })
    }
    return scores
  }

  #check(name: string, weight: number): void {
    if (this.names().includes(name))
      throw new Error(`Rubric: two functions are named "${name}"; a metric needs a name of its own.`)
    if (!Number.isFinite(weight))
      throw new Error(`Rubric: the weight of "${name}" must be a finite number, got ${weight}.`)
  }

  #rolloutInputs(state: State<Data>, signal: AbortSignal): RolloutInputs<Data> {
    const { prompt, completion, answer, task, info } = state
    return { prompt, completion, answer, state, task, info, parser: this.parser, signal }
  }

  #groupInputs(states: State<Data>[], signal: AbortSignal): GroupInputs<Data> {
    return {
      prompts: states.map((state) => state.prompt),
      completions: states.map((state) => state.completion),
      answers: states.map((state) => state.answer),
      states,
      tasks: states.map((state) => state.task),
      infos: states.map((state) => state.info),
      parser: this.parser,
      signal,
    }
  }
}

/** Several rubrics as one: rewards add up, metrics of one name add up, the first error stands. */
export class RubricGroup<Data extends object = object> implements Judge<Data> {
  readonly #judges: readonly Judge<Data>[]

  constructor(judges: readonly Judge<Data>[]) {
    if (judges.length === 0) throw new Error('RubricGroup: at least one rubric is needed, none was given.')
    this.#judges = judges
  }

  names(): string[] {
    return [...new Set(this.#judges.flatMap((judge) => judge.names()))]
  }

  async score(states: State<Data>[], signal?: AbortSignal): Promise<Score[]> {
    const totals: Score[] = states.map(() => ({ reward: 0, metrics: {}, error: null }))
    const given = await Promise.all(this.#judges.map((judge) => judge.score(states, signal)))
    for (const scores of given)
      scores.forEach(({ reward, metrics, error }, index) => {
        const total = totals[index]
        total.reward = total.reward === null || reward === null ? null : total.reward + reward
        total.error ??= error
        for (const [name, value] of Object.entries(metrics)) total.metrics[name] = (total.metrics[name] ?? 0) + value
      })
    return totals
  }
}

function record(score: Score, { name, weight }: Named, value: number | Error): void {
  if (value instanceof Error) {
    score.error ??= value.message
    score.reward = null
    return
  }
  score.metrics[name] = value
  if (score.reward !== null && weight !== 0) score.reward += weight * value
}

/** The work's outcome, or the signal's reason as soon as it is aborted. */
function unlessAborted<T>(signal: AbortSignal, work: () => Awaitable<T>): Promise<T> {
  signal.throwIfAborted()
  return Promise.race([Promise.resolve().then(work), abortOf(signal)])
}

const aborts = new WeakMap<AbortSignal, Promise<never>>()

/** Rejects when the signal is aborted. One listener a signal: a group's rollouts and functions all wait for the same. */
function abortOf(signal: AbortSignal): Promise<never> {
  let aborted = aborts.get(signal)
  if (!aborted) {
    aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
    aborted.catch(() => {})
    aborts.set(signal, aborted)
  }
  return aborted
}

function pick<T extends object, Key extends keyof T>(from: T, keys: readonly Key[]): Pick<T, Key> {
  return Object.fromEntries(keys.map((key) => [key, from[key]])) as Pick<T, Key>
}

function checked(name: string, value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value
  throw new Error(`a finite number was expected from "${name}", got ${describe(value)}`)
}

function failure(name: string, cause: unknown): Error {
  const message = cause instanceof Error ? cause.message : String(cause)
  return new Error(`The reward function "${name}" failed: ${message.replace(/\.$/, '')}.`, { cause })
}

function describe(value: unknown): string {
  return Array.isArray(value) ? `${value.length} values` : `${typeof value} ${String(value)}`
}
