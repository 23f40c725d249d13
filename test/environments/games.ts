// Small environments for the tests: a guessing game of many turns, sums by tools, and a safe whose tools work on state.

import { z } from 'zod'
import { rowsOf } from '../../environments/datasets.ts'
import { MultiTurnEnvironment } from '../../environments/environment.ts'
import type { Message } from '../../environments/messages.ts'
import { XMLParser } from '../../environments/parsers.ts'
import { RandomStream } from '../../environments/random.ts'
import { Rubric } from '../../environments/rubric.ts'
import type { State } from '../../environments/state.ts'
import { StatefulToolEnvironment, ToolEnvironment, type ToolOptions, tool } from '../../environments/tools.ts'

export const says = (content: string): Message => ({ role: 'assistant', content })

export interface Guessing {
  secret: number
  tries: number[]
}

/** Find a number from 1 to 15: the environment says «higher» or «lower». Reward 1 / guesses. */
export class GuessNumber extends MultiTurnEnvironment<Guessing> {
  readonly #parser: XMLParser

  constructor(maxTurns = 5) {
    const parser = new XMLParser(['guess'], { answerField: 'guess' })
    super({
      id: 'guess-number',
      title: 'Guess a number',
      summary: 'Find a number from 1 to 15.',
      train: rowsOf([{ question: 'Guess my number, 1 to 15.' }]),
      systemPrompt: 'Guess inside <guess> tags.',
      rubric: new Rubric<Guessing>({ parser }).addReward('found', ['state'], ({ state }) =>
        state.data.tries.at(-1) === state.data.secret ? 1 / state.data.tries.length : 0,
      ),
      rewardRange: { minimum: 0, maximum: 1 },
      maxTurns,
    })
    this.#parser = parser
  }

  override setupState(state: State<Guessing>): void {
    state.data = { secret: new RandomStream('secret', state.seed).between(1, 15), tries: [] }
  }

  override envResponse(messages: Message[], state: State<Guessing>): Message[] {
    const guess = Number(this.#parser.parseAnswer(messages.slice(-1)) ?? Number.NaN)
    if (Number.isNaN(guess)) return [{ role: 'user', content: 'Guess a number.' }]
    state.data.tries.push(guess)
    if (guess === state.data.secret) {
      state.finalEnvResponse = [{ role: 'user', content: 'Right.' }]
      return []
    }
    return [{ role: 'user', content: guess < state.data.secret ? 'higher' : 'lower' }]
  }

  override gold(state: State<Guessing>): Message {
    return says(`<guess>${state.data.secret}</guess>`)
  }
}

const numbers = z.strictObject({ a: z.number(), b: z.number() })

/** Sums by tools; `fail` throws, `sleep` waits for its signal. */
export class Calculator extends ToolEnvironment {
  constructor(options: Partial<ToolOptions> = {}) {
    super({
      id: 'calculator',
      title: 'Calculator',
      summary: 'Sums by tools.',
      train: rowsOf([{ question: 'What is 2 + 3, doubled?', answer: '10' }]),
      rubric: new Rubric().addReward('right', ['completion', 'answer'], ({ completion, answer }) =>
        completion.at(-1)?.content === answer ? 1 : 0,
      ),
      rewardRange: { minimum: 0, maximum: 1 },
      tools: [
        tool({ name: 'add', description: 'a + b', parameters: numbers, call: ({ a, b }) => a + b }),
        tool({
          name: 'multiply',
          description: 'a · b',
          parameters: numbers,
          call: async ({ a, b }) => ({ product: a * b }),
        }),
        tool({
          name: 'fail',
          description: 'Always fails.',
          parameters: z.object({ loudly: z.boolean().default(false) }),
          call: ({ loudly }) => {
            throw loudly ? new RangeError('It broke.') : new Error('Not today.')
          },
        }),
      ],
      ...options,
    })
  }
}

/** A drawer each rollout; the policy may put and take, but not say whose drawer. */
export class Safe extends StatefulToolEnvironment<{ drawers: Record<string, string[]>; mine: string }> {
  constructor() {
    super({
      id: 'safe',
      title: 'Safe',
      summary: 'Put things into a drawer.',
      train: rowsOf([{ question: 'Put a ring into the safe.', info: '{"owner":"ada"}' }]),
      rubric: new Rubric<{ drawers: Record<string, string[]>; mine: string }>().addReward(
        'kept',
        ['state'],
        ({ state }) => (state.data.drawers[state.data.mine].includes('ring') ? 1 : 0),
      ),
      rewardRange: { minimum: 0, maximum: 1 },
      tools: [
        tool({
          name: 'put',
          description: 'Puts a thing into your drawer.',
          parameters: z.object({ thing: z.string(), drawer: z.array(z.string()) }),
          hidden: ['drawer'],
          call: ({ thing, drawer }) => {
            drawer.push(thing)
            return `${drawer.length} in the drawer`
          },
        }),
      ],
    })
  }

  override setupState(state: State<{ drawers: Record<string, string[]>; mine: string }>): void {
    state.data = { mine: String(state.info.owner), drawers: { ada: [], bob: ['ring'] } }
  }

  override updateToolArgs(
    _name: string,
    args: Record<string, unknown>,
    _messages: Message[],
    state: State<{ drawers: Record<string, string[]>; mine: string }>,
  ): Record<string, unknown> {
    const { drawers, mine } = state.data
    return { ...args, drawer: drawers[mine] }
  }
}
