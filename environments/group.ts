// Several environments as one, as in verifiers' EnvGroup: their tasks are mixed, and everything about a rollout goes to
// the environment that asked, found by the example's task.

import type { Dataset } from './datasets.ts'
import { placeAt } from './datasets.ts'
import { type Context, Environment, type Turn } from './environment.ts'
import type { Example, Message, Split, ToolDefinition } from './messages.ts'
import { Mixture } from './mixture.ts'
import type { Judge, Score } from './rubric.ts'
import type { State } from './state.ts'

export interface Member {
  /** Stands in `task`. */
  name: string
  environment: Environment
  /** Relative weight in training; by default its number of rows, so that an epoch holds each row once. */
  ratio?: number
}

export interface GroupOptions {
  id: string
  title: string
  summary: string
  members: readonly Member[]
}

export class EnvironmentGroup extends Environment {
  override readonly maxTurns: number
  readonly #members: ReadonlyMap<string, Environment>

  constructor({ id, title, summary, members }: GroupOptions) {
    if (members.length === 0) throw new Error(`${id}: a group needs at least one environment, got none.`)
    if (members.some(({ environment }) => environment instanceof EnvironmentGroup))
      throw new Error(`${id}: a group cannot hold a group; list its members instead.`)
    const byName = new Map(members.map(({ name, environment }) => [name, environment]))
    if (byName.size < members.length) throw new Error(`${id}: two members share a name; give each its own.`)
    const all = [...byName.values()]
    super({
      id,
      title,
      summary,
      train: mixed(members, 'train'),
      evaluation: mixed(members, 'eval'),
      rubric: routed(byName),
      rewardRange: {
        minimum: Math.min(...all.map(({ rewardRange }) => rewardRange.minimum)),
        maximum: Math.max(...all.map(({ rewardRange }) => rewardRange.maximum)),
      },
    })
    this.#members = byName
    this.maxTurns = all.some(({ maxTurns }) => maxTurns < 0) ? -1 : Math.max(...all.map(({ maxTurns }) => maxTurns))
  }

  override begin(example: Example, seed: number, context?: Context): Promise<State> {
    return this.#of(example).begin(example, seed, context)
  }

  override respond(state: State, message: Message, truncated: boolean, context?: Context): Promise<Turn> {
    return this.#of(state).respond(state, message, truncated, context)
  }

  override tools(state: State): ToolDefinition[] {
    return this.#of(state).tools(state)
  }

  override gold(state: State): Message | null {
    return this.#of(state).gold(state)
  }

  override cleanup(state: State): void | Promise<void> {
    return this.#of(state).cleanup(state)
  }

  override async teardown(): Promise<void> {
    for (const environment of this.#members.values()) await environment.teardown()
  }

  #of({ task }: { task: string }): Environment {
    return memberOf(this.#members, task)
  }
}

function memberOf(members: ReadonlyMap<string, Environment>, task: string): Environment {
  const found = members.get(task)
  if (!found) throw new Error(`No member of the group is called "${task}"; members: ${[...members.keys()].join(', ')}.`)
  return found
}

/** Rows of all members. With ratios in proportion to sizes, the first Σ size slots hold each row exactly once. */
function mixed(members: readonly Member[], split: Split): Dataset {
  const sources = members.map(({ environment }) => (split === 'eval' ? environment.evaluation : environment.train))
  const sizes = sources.map(({ size }) => size)
  const whole =
    sizes.every((size) => size !== null) && (split === 'eval' || members.every(({ ratio }) => ratio === undefined))
  const size = whole ? sizes.reduce<number>((sum, each) => sum + (each ?? 0), 0) : null
  const mixture = new Mixture(
    whole ? sizes.map((each) => each ?? 1) : members.map(({ ratio = 1 }) => (split === 'eval' ? 1 : ratio)),
  )
  return {
    size,
    row(index, seed) {
      const slot = mixture.at(index)
      const source = sources[slot.source]
      const at = whole ? slot.position : placeAt(source.size, seed, split, slot.position).index
      const { name, environment } = members[slot.source]
      const { prompt, answer, info } = environment.example(source.row(at, seed), at)
      return { prompt, answer, info, task: name }
    },
  }
}

/** Hands each rollout to its own environment's rubric, together with those of its siblings that are there. */
function routed(members: ReadonlyMap<string, Environment>): Judge {
  return {
    names: () => [...new Set([...members.values()].flatMap((environment) => environment.rewardNames()))],
    async score(states, signal = new AbortController().signal) {
      const scores: Score[] = Array(states.length)
      for (const [task, environment] of members) {
        const indices = states.flatMap((state, index) => (state.task === task ? [index] : []))
        const given = await environment.score(
          indices.map((index) => states[index]),
          { signal },
        )
        indices.forEach((index, at) => {
          scores[index] = given[at]
        })
      }
      return scores
    },
  }
}
