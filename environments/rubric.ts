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

interface RewardFunction<Data extends object> {
  name: string
  weight: number
  /** One value per state; a rollout that fails alone gives an Error in its place. */
  values(states: State<Data>[], signal: AbortSignal): Promise<(number | Error)[]>
}

export class Rubric<Data extends object = object> implements Judge<Data> {
  readonly parser: AnswerParser
  readonly #functions: RewardFunction<Data>[] = []

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
    const one = async (state: State<Data>, signal: AbortSignal): Promise<number | Error> => {
      try {
        return checked(name, await value(pick(this.#rolloutInputs(state, signal), needs)))
      } catch (cause) {
        return failure(name, cause)
      }
    }
    return this.#add({
      name,
      weight,
      values: (states, signal) => Promise.all(states.map((state) => one(state, signal))),
    })
  }

  /** A function of all rollouts of a group, giving one value each; its failure is the failure of all of them. */
  addGroupReward<Need extends keyof GroupInputs<Data>>(
    name: string,
    needs: readonly Need[],
    values: (inputs: Pick<GroupInputs<Data>, Need>) => Awaitable<number[]>,
    weight = 1,
  ): this {
    return this.#add({
      name,
      weight,
      values: async (states, signal) => {
        try {
          const given = await values(pick(this.#groupInputs(states, signal), needs))
          if (!Array.isArray(given) || given.length !== states.length)
            throw new Error(`one number for each of ${states.length} rollouts was expected, got ${describe(given)}`)
          return given.map((each) => checked(name, each))
        } catch (cause) {
          return states.map(() => failure(name, cause))
        }
      },
    })
  }

  addMetric<Need extends keyof RolloutInputs<Data>>(
    name: string,
    needs: readonly Need[],
    value: (inputs: Pick<RolloutInputs<Data>, Need>) => Awaitable<number>,
  ): this {
    return this.addReward(name, needs, value, 0)
  }

  names(): string[] {
    return this.#functions.map((each) => each.name)
  }

  /** Functions run in their order, rollouts side by side. A rollout that is already errored is not judged. */
  async score(states: State<Data>[], signal: AbortSignal = new AbortController().signal): Promise<Score[]> {
    const scores: Score[] = states.map((state) => ({
      reward: state.error === null ? 0 : null,
      metrics: {},
      error: state.error,
    }))
    const judged = states.flatMap((state, index) => (state.error === null ? [index] : []))
    if (judged.length === 0) return scores
    for (const { name, weight, values } of this.#functions) {
      const given = await values(
        judged.map((index) => states[index]),
        signal,
      )
      given.forEach((value, at) => {
        const score = scores[judged[at]]
        if (value instanceof Error) {
          score.error ??= value.message
          score.reward = null
        } else {
          score.metrics[name] = value
          if (score.reward !== null && weight !== 0) score.reward += weight * value
        }
      })
    }
    return scores
  }

  #add(added: RewardFunction<Data>): this {
    if (this.names().includes(added.name))
      throw new Error(`Rubric: two functions are named "${added.name}"; a metric needs a name of its own.`)
    if (!Number.isFinite(added.weight))
      throw new Error(`Rubric: the weight of "${added.name}" must be a finite number, got ${added.weight}.`)
    this.#functions.push(added)
    return this
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
    for (const judge of this.#judges) {
      const scores = await judge.score(states, signal)
      scores.forEach(({ reward, metrics, error }, index) => {
        const total = totals[index]
        total.reward = total.reward === null || reward === null ? null : total.reward + reward
        total.error ??= error
        for (const [name, value] of Object.entries(metrics)) total.metrics[name] = (total.metrics[name] ?? 0) + value
      })
    }
    return totals
  }
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
