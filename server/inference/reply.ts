// What both routes that complete answer with: the choices of a whole answer, their ends, and what was used.

import type { Context } from 'hono'
import type { SampledToken } from '../../workers/completions/protocol.ts'
import type { Answer } from '../../workers/host.node.ts'
import { Refused } from './errors.ts'
import { eventStream } from './stream.ts'

export interface Choice {
  text: string
  tokens: SampledToken[]
  end: Answer | null
}

/** The parts of `count` answers put together, by their index, and the tokens of them all. */
export async function gather(
  answers: AsyncGenerator<Answer>,
  count: number,
): Promise<{ choices: Choice[]; sampled: number }> {
  const choices = Array.from({ length: count }, (): Choice => ({ text: '', tokens: [], end: null }))
  for await (const event of answers) {
    const choice = choices[event.index]
    if (event.kind === 'part') {
      choice.text += event.text
      choice.tokens.push(...event.tokens)
    } else choice.end = event
  }
  return { choices, sampled: choices.reduce((sum, { tokens }) => sum + tokens.length, 0) }
}

export interface Reply {
  whole(answers: AsyncGenerator<Answer>): Promise<object>
  chunks(answers: AsyncGenerator<Answer>): AsyncGenerator<object>
}

/**
 * Whole, or chunk by chunk where `stream` was asked for.
 * @param ask asks the thread, until the signal
 * @param leave called once, when all is said or the asker has left
 */
export async function send(
  c: Context,
  {
    stream,
    reply,
    ask,
    leave,
  }: {
    stream: boolean
    reply: Reply
    ask: (signal: AbortSignal) => AsyncGenerator<Answer>
    leave: () => void
  },
): Promise<Response> {
  const abort = new AbortController()
  const answers = ask(AbortSignal.any([c.req.raw.signal, abort.signal]))
  if (stream) return eventStream(c, reply.chunks(answers), { leave, abort })
  try {
    return c.json(await reply.whole(answers))
  } finally {
    leave()
  }
}

export function usage(prompt: number, sampled: number) {
  return { prompt_tokens: prompt, completion_tokens: sampled, total_tokens: prompt + sampled }
}

/** `stop_reason` as in vLLM: the text that ended it, null for an end token. */
export function finish(end: Answer | null) {
  return end?.kind === 'end'
    ? { finish_reason: end.reason, stop_reason: end.stop }
    : { finish_reason: null, stop_reason: null }
}

export function refuseMorePromptLogprobs(count: number): void {
  if (count > 1)
    throw new Refused(400, `prompt_logprobs names the prompt's own tokens here, and no others: ask for 0 or 1.`, {
      param: 'prompt_logprobs',
    })
}
