// An answer while it is being written: text and tokens side by side. Token ids only ever grow, and are kept from
// sampling to loss; nothing is rendered or tokenised a second time.

import type { Message } from '../../environments/messages.ts'
import type { Completion } from '../policy/policy.ts'
import type { DrawnTask } from '../protocol.ts'
import type { Rollout } from '../rl/rollouts.ts'

/** One question and the G answers to it. */
export interface Question {
  /** In the order of asking; with the seed it names the noise of its answers. */
  number: number
  task: DrawnTask
  answers: Answer[]
}

export class Answer {
  readonly handle: string
  readonly number: number
  readonly attempt: number
  readonly task: DrawnTask
  /** As the environment gave it. */
  prompt: Message[]
  /** Everything after the prompt: the policy's messages and the environment's. */
  messages: Message[] = []
  promptTokens = 0
  turns = 0
  /** Name of what ended it; null while it is open. */
  stop: string | null = null
  truncated = false
  error: string | null = null
  reward: number | null = null
  metrics: Record<string, number> = {}

  #ids: number[] = []
  #sampled: number[] = []
  #logMu: number[] = []
  #entropy: number[] = []
  #version: number[] = []

  constructor(handle: string, number: number, attempt: number, task: DrawnTask) {
    this.handle = handle
    this.number = number
    this.attempt = attempt
    this.task = task
    this.prompt = task.prompt
  }

  get open(): boolean {
    return this.stop === null && this.error === null
  }

  /** A copy of all its tokens so far. */
  get tokens(): Int32Array {
    return Int32Array.from(this.#ids)
  }

  get length(): number {
    return this.#ids.length
  }

  /** Tokens that the policy did not write: the prompt, or what the environment said. */
  read(ids: number[]): void {
    for (const id of ids) this.#append(id, 0, 0, 0, 0)
  }

  /** Tokens that the policy sampled. */
  wrote({ ids, logp, entropy, versions }: Completion): void {
    ids.forEach((id, i) => {
      this.#append(id, 1, logp[i], entropy[i], versions[i])
    })
    this.turns++
  }

  fail(error: string): void {
    this.error = error
    this.stop = 'has_error'
  }

  end(stop: string, truncated: boolean): void {
    this.stop = stop
    this.truncated = truncated
  }

  toRollout(): Rollout {
    return {
      task: this.number,
      attempt: this.attempt,
      reward: this.reward,
      error: this.error,
      ids: Int32Array.from(this.#ids),
      sampled: Uint8Array.from(this.#sampled),
      logMu: Float32Array.from(this.#logMu),
      entropy: Float32Array.from(this.#entropy),
      version: Int32Array.from(this.#version),
      turns: this.turns,
      truncated: this.truncated,
      environment: this.task.environment,
      example: this.task.exampleId,
      stop: this.stop ?? undefined,
      metrics: this.metrics,
    }
  }

  #append(id: number, sampled: 0 | 1, logMu: number, entropy: number, version: number): void {
    this.#ids.push(id)
    this.#sampled.push(sampled)
    this.#logMu.push(logMu)
    this.#entropy.push(entropy)
    this.#version.push(version)
  }
}
