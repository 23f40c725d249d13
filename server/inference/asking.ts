// From a request's sampling fields to what the thread is asked, and a bound on how many answers are open.

import { randomInt } from 'node:crypto'
import type { CompletionRequest, OpenedModel } from '../../workers/completions/protocol.ts'
import type { SamplingBody } from './body.ts'
import { Refused } from './errors.ts'

export function completionRequest(
  body: SamplingBody,
  model: OpenedModel,
  prompt: number[],
  { maxTokens, alternatives }: { maxTokens: number | null | undefined; alternatives: number },
): Omit<CompletionRequest, 'id'> {
  const room = model.maxLength - prompt.length
  if (room < 1)
    throw new Refused(
      400,
      `The prompt has ${prompt.length} tokens, and ${model.key} takes ${model.maxLength} with the answer: shorten it.`,
      { param: 'messages', code: 'context_length_exceeded' },
    )
  return {
    key: model.key,
    prompt,
    n: body.n ?? 1,
    seed: typeof body.seed === 'number' ? word(body.seed) : randomInt(2 ** 32),
    maxTokens: Math.min(maxTokens ?? room, room),
    rule: {
      temperature: body.temperature ?? 1,
      topP: body.top_p ?? 1,
      topK: body.top_k === 0 ? -1 : (body.top_k ?? -1),
      minP: body.min_p ?? 0,
      repetitionPenalty: body.repetition_penalty ?? 1,
      ignoreEnd: body.ignore_eos ?? false,
    },
    stop: typeof body.stop === 'string' ? [body.stop] : (body.stop ?? []),
    keepStop: body.include_stop_str_in_output ?? false,
    alternatives,
    eager: body.stream ?? false,
  }
}

/** Any whole number as 32 bits, both halves of a larger one counting. */
function word(seed: number): number {
  return (Math.floor(seed / 2 ** 32) ^ seed) >>> 0
}

/** Answers that are open at once; one more is told to come back. */
export class Admission {
  #open = 0
  readonly #limit: number

  constructor(limit: number) {
    this.#limit = limit
  }

  get open(): number {
    return this.#open
  }

  /** Takes places for n answers; the returned function gives them back, once. */
  enter(n: number): () => void {
    if (this.#open + n > this.#limit)
      throw new Refused(
        429,
        `${this.#open} answers are open here, and at most ${this.#limit} may be: ask again in a moment.`,
        {
          code: 'rate_limit_exceeded',
        },
      )
    this.#open += n
    let inside = true
    return () => {
      if (inside) this.#open -= n
      inside = false
    }
  }
}
