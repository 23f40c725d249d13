// A small real environment and its script for the trainer's tests: the answer is worth the share of its letters that are
// «a», and a conversation may have several turns. It counts its open rollouts, and fails where a test asks it to.

import type { Message, Split } from '../../environments/messages.ts'
import type {
  DrawnTask,
  EnvironmentDescription,
  EnvironmentPort,
  RespondResult,
  ScoreResult,
  SetupResult,
} from '../../workers/protocol.ts'
import type { Script } from '../../workers/step/run.ts'

/** Token 0 ends a turn, token 1 opens one. */
const ALPHABET = '.>abcdefgh'

export const VOCABULARY = ALPHABET.length

export const SCRIPT: Script = {
  renderPrompt: (messages) => encode(`${messages.map(({ content }) => content).join('')}>`),
  renderSuffix: (messages, closed) => encode(`${closed ? '' : '.'}${messages.map(({ content }) => content).join('')}>`),
  decode: (ids) => text(ids).replaceAll('.', ''),
  tokens: (ids) => Array.from(ids, (id) => ALPHABET[id]),
  stopTokens: [0],
  maxLength: 64,
}

function encode(characters: string): number[] {
  return [...characters].map((character) => ALPHABET.indexOf(character))
}

function text(ids: ArrayLike<number>): string {
  return Array.from(ids, (id) => ALPHABET[id]).join('')
}

export interface LettersOptions {
  turns?: number
  trainSize?: number | null
  /** What to do instead of answering; throws or returns a sentence for an errored rollout. */
  fail?: (call: 'setup' | 'respond' | 'score', position: number, attempt: number) => string | null
  /** Worth of an answer instead of the share of its «a». */
  worth?: (answer: string, position: number) => number
}

interface Rollout {
  position: number
  attempt: number
  said: string[]
}

export class LettersPort implements EnvironmentPort {
  readonly open_ = new Map<string, Rollout>()
  readonly asked: { split: Split; position: number }[] = []
  #options: LettersOptions

  constructor(options: LettersOptions = {}) {
    this.#options = options
  }

  async open(): Promise<EnvironmentDescription[]> {
    const { trainSize = null, turns = 1 } = this.#options
    return [
      { id: 'letters', name: 'letters', title: 'Letters', summary: '', trainSize, evalSize: null, maxTurns: turns },
    ]
  }

  async draw(split: Split, positions: number[]): Promise<DrawnTask[]> {
    return positions.map((position) => ({
      position,
      exampleId: this.#options.trainSize ? position % this.#options.trainSize : position,
      environment: 'letters',
      prompt: promptOf(split, position),
      answer: 'aaaa',
    }))
  }

  async setup(rollouts: { handle: string; split: Split; position: number }[]): Promise<SetupResult[]> {
    return rollouts.map(({ handle, split, position }) => {
      const attempt = Number(handle.split('/')[2])
      this.open_.set(handle, { position, attempt, said: [] })
      if (attempt === 0) this.asked.push({ split, position })
      return {
        handle,
        prompt: promptOf(split, position),
        error: this.#options.fail?.('setup', position, attempt) ?? null,
      }
    })
  }

  async respond(rollouts: { handle: string; message: Message }[]): Promise<RespondResult[]> {
    return rollouts.map(({ handle, message }) => {
      const rollout = this.open_.get(handle)
      if (!rollout) throw new Error(`internal: ${handle} is not open`)
      rollout.said.push(message.content)
      const error = this.#options.fail?.('respond', rollout.position, rollout.attempt) ?? null
      const done = rollout.said.length >= (this.#options.turns ?? 1)
      const messages: Message[] = done ? [] : [{ role: 'user', content: 'bb' }]
      return { handle, done, stop: done ? 'all_said' : null, messages, error }
    })
  }

  async score(groups: { handles: string[] }[]): Promise<ScoreResult[][]> {
    return groups.map(({ handles }) =>
      handles.map((handle): ScoreResult => {
        const rollout = this.open_.get(handle)
        this.open_.delete(handle)
        if (!rollout) return { handle, reward: null, metrics: {}, error: 'internal: not open' }
        const error = this.#options.fail?.('score', rollout.position, rollout.attempt) ?? null
        const answer = rollout.said.join('')
        const reward = this.#options.worth?.(answer, rollout.position) ?? shareOfA(answer)
        return { handle, reward: error === null ? reward : null, metrics: { length: answer.length }, error }
      }),
    )
  }

  async release(handles: string[]): Promise<void> {
    for (const handle of handles) this.open_.delete(handle)
  }
}

function shareOfA(answer: string): number {
  return answer === '' ? 0 : [...answer].filter((letter) => letter === 'a').length / answer.length
}

function promptOf(split: Split, position: number): Message[] {
  const letters = split === 'train' ? 'cdefgh' : 'hgfedc'
  return [{ role: 'user', content: letters[position % 6] + letters[(position * 5 + 1) % 6] }]
}
