// What is asked and how it is judged, turn by turn. An environment draws examples, opens a rollout's state, answers the
// policy's messages until a stop condition fires, and scores groups. It sees messages only: no ids, tensors or models.

import { type Dataset, placeAt, type Row } from './datasets.ts'
import type { Example, Message, Split, ToolDefinition } from './messages.ts'
import { hash32 } from './random.ts'
import { type Judge, Rubric, RubricGroup, type Score } from './rubric.ts'
import { newState, type State } from './state.ts'

/** Handed to everything that may take long. */
export interface Context {
  /** Aborted at the deadline. */
  signal: AbortSignal
}

/** The environment's answer to one message of the policy. */
export interface Turn {
  done: boolean
  /** The stop condition that fired, null where the rollout goes on. */
  stop: string | null
  messages: Message[]
}

export interface EnvironmentOptions<Data extends object = object> {
  id: string
  title: string
  summary: string
  train: Dataset
  /** Held-out tasks; falls back to `train`. */
  evaluation?: Dataset
  rubric: Judge<Data>
  /** Put in front of a prompt that has no system message. */
  systemPrompt?: string | null
  /** Put between the system prompt and a row's question. */
  fewShot?: Message[]
  /** The rewards of a gold and of an empty answer. */
  rewardRange: { minimum: number; maximum: number }
}

const NEVER = new AbortController().signal

/** What the trainer's side may do with any environment, one or many turns, alone or in a group. */
export abstract class Environment<Data extends object = object> {
  readonly id: string
  readonly title: string
  readonly summary: string
  readonly train: Dataset
  readonly evaluation: Dataset
  readonly rewardRange: { minimum: number; maximum: number }
  /** Longest rollout in messages of the policy; −1 where there is no limit. */
  abstract readonly maxTurns: number
  protected readonly rubric: Judge<Data>
  readonly #systemPrompt: string | null
  readonly #fewShot: Message[]

  constructor(options: EnvironmentOptions<Data>) {
    this.id = options.id
    this.title = options.title
    this.summary = options.summary
    this.train = options.train
    this.evaluation = options.evaluation ?? options.train
    this.rewardRange = options.rewardRange
    this.rubric = options.rubric
    this.#systemPrompt = options.systemPrompt ?? null
    this.#fewShot = options.fewShot ?? []
  }

  /** The example at a position of the split's endless order. */
  draw(seed: number, split: Split, position: number): Example {
    const dataset = split === 'eval' ? this.evaluation : this.train
    const { index } = placeAt(dataset.size, seed, split, position)
    return this.example(dataset.row(index, seed), index)
  }

  /** A row as an example: system prompt, few-shot messages and question in their places. */
  example(row: Row, index: number): Example {
    const { answer = '', info = {}, task = this.id } = row
    return {
      exampleId: index,
      prompt: this.#prompt(row, index),
      answer,
      info: typeof info === 'string' ? (JSON.parse(info) as Record<string, unknown>) : info,
      task,
    }
  }

  #prompt(row: Row, index: number): Message[] {
    const system: Message[] = this.#systemPrompt === null ? [] : [{ role: 'system', content: this.#systemPrompt }]
    if (row.prompt)
      return row.prompt.some((message) => message.role === 'system') ? row.prompt : [...system, ...row.prompt]
    if (row.question === undefined)
      throw new Error(`${this.id}: row ${index} needs a prompt (messages) or a question (text), it has neither.`)
    return [...system, ...this.#fewShot, { role: 'user', content: row.question }]
  }

  /** Opens a rollout; `seed` names its dice. */
  abstract begin(example: Example, seed: number, context?: Context): Promise<State<Data>>

  /** Takes the policy's newest message into the state, and answers it. */
  abstract respond(state: State<Data>, message: Message, truncated: boolean, context?: Context): Promise<Turn>

  /** Scores the rollouts of one group. */
  score(states: State<Data>[], { signal }: Context = { signal: NEVER }): Promise<Score[]> {
    return this.rubric.score(states, signal)
  }

  /** Names of all rewards and metrics. */
  rewardNames(): string[] {
    return this.rubric.names()
  }

  /** The functions that the policy may call in this rollout. */
  tools(_state: State<Data>): ToolDefinition[] {
    return []
  }

  /** What a perfect policy would write next; null where the environment does not know. */
  gold(_state: State<Data>): Message | null {
    return null
  }

  /** Called once when a rollout is over, scored or not. */
  cleanup(_state: State<Data>): void | Promise<void> {}

  /** Called once when the environment is closed. */
  teardown(): void | Promise<void> {}
}

export interface StopCondition<Data extends object = object> {
  /** Stands in the rollout's record. */
  name: string
  /** Higher ones are asked first; of equals, the name that sorts first. Most have 0. */
  priority: number
  when(state: State<Data>): boolean | Promise<boolean>
}

export interface MultiTurnOptions<Data extends object = object> extends EnvironmentOptions<Data> {
  /** Messages of the policy per rollout; −1 for no limit. */
  maxTurns?: number
  /** Wall clock of a whole rollout; null for no limit. With a limit, runs are not reproducible to the token. */
  timeoutMs?: number | null
}

/**
 * Policy and environment take turns until a stop condition fires. Subclasses say what the environment answers. A state
 * that grows too long for the policy is the trainer's to end (`prompt_too_long`): only it counts tokens.
 */
export abstract class MultiTurnEnvironment<Data extends object = object> extends Environment<Data> {
  readonly maxTurns: number
  readonly timeoutMs: number | null
  #sorted: StopCondition<Data>[] | null = null

  constructor(options: MultiTurnOptions<Data>) {
    const turns = new Rubric<Data>().addMetric('num_turns', ['state'], ({ state }) => state.turn)
    super({ ...options, rubric: new RubricGroup<Data>([options.rubric, turns]) })
    this.maxTurns = options.maxTurns ?? -1
    this.timeoutMs = options.timeoutMs ?? null
  }

  /** Fills `state.data`, and may change the prompt. */
  setupState(_state: State<Data>, _context: Context): void | Promise<void> {}

  /**
   * The environment's messages after the policy's newest one. `messages` is prompt and completion. Setting
   * `state.finalEnvResponse` ends the rollout with those messages instead.
   */
  abstract envResponse(messages: Message[], state: State<Data>, context: Context): Message[] | Promise<Message[]>

  /** Override and add; asked after each message of the policy, and after last words of the environment. */
  stopConditions(): StopCondition<Data>[] {
    return [
      { name: 'has_error', priority: 100, when: (state) => state.error !== null },
      { name: 'max_turns_reached', priority: 0, when: (state) => this.maxTurns > 0 && state.turn >= this.maxTurns },
      { name: 'has_final_env_response', priority: 0, when: (state) => state.finalEnvResponse !== null },
      {
        name: 'timeout_reached',
        priority: 0,
        when: (state) => this.timeoutMs !== null && Date.now() - state.startedMs >= this.timeoutMs,
      },
    ]
  }

  override async begin(example: Example, seed: number, context: Context = { signal: NEVER }): Promise<State<Data>> {
    const state = newState(example, hash32(`${this.id}/${example.exampleId}`, seed)) as State<Data>
    await this.setupState(state, context)
    return state
  }

  override async respond(
    state: State<Data>,
    message: Message,
    truncated: boolean,
    context: Context = { signal: NEVER },
  ): Promise<Turn> {
    state.completion.push(...state.pending, message)
    state.pending = []
    state.turn += 1
    state.truncated ||= truncated
    try {
      if (await this.#stops(state)) return { done: true, stop: state.stop, messages: [] }
      const answer = await this.envResponse([...state.prompt, ...state.completion], state, context)
      if (state.finalEnvResponse !== null) {
        state.completion.push(...state.finalEnvResponse)
        await this.#stops(state)
        return { done: true, stop: state.stop, messages: state.finalEnvResponse }
      }
      if (state.error !== null) return this.#failed(state, state.error)
      if (answer.length === 0)
        throw new Error('envResponse gave no message and set no finalEnvResponse, so the policy has nothing to answer')
      state.pending = answer
      return { done: false, stop: null, messages: answer }
    } catch (cause) {
      const said = cause instanceof Error ? cause.message : String(cause)
      return this.#failed(state, `${this.id} failed to answer turn ${state.turn}: ${said.replace(/\.$/, '')}.`)
    }
  }

  #failed(state: State<Data>, error: string): Turn {
    state.error = error
    state.stop = 'has_error'
    return { done: true, stop: state.stop, messages: [] }
  }

  async #stops(state: State<Data>): Promise<boolean> {
    this.#sorted ??= this.stopConditions().sort(
      (one, other) => other.priority - one.priority || (one.name < other.name ? -1 : 1),
    )
    for (const condition of this.#sorted) {
      if (!(await condition.when(state))) continue
      state.stop = condition.name
      return true
    }
    return false
  }
}

/** One question, one answer. */
export class SingleTurnEnvironment<Data extends object = object> extends MultiTurnEnvironment<Data> {
  readonly #gold: ((state: State<Data>) => string) | null

  constructor(options: EnvironmentOptions<Data> & { gold?: (state: State<Data>) => string }) {
    super({ ...options, maxTurns: 1 })
    this.#gold = options.gold ?? null
  }

  override envResponse(): Message[] {
    throw new Error(`internal: ${this.id} has a single turn, so its environment never answers`)
  }

  override gold(state: State<Data>): Message | null {
    return this.#gold === null ? null : { role: 'assistant', content: this.#gold(state) }
  }
}
