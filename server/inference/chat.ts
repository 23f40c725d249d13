// POST /v1/chat/completions.

import { randomUUID } from 'node:crypto'
import type { Context } from 'hono'
import type { OpenedModel, SampledToken } from '../../workers/completions/protocol.ts'
import type { Answer, Prompter } from '../../workers/host.node.ts'
import { completionRequest } from './asking.ts'
import { type ChatBody, chatBody, plainMessages, readBody } from './body.ts'
import type { Desk } from './desk.ts'
import { Refused } from './errors.ts'
import { chatLogprobs, promptLogprobs, spelling } from './logprobs.ts'
import { eventStream } from './stream.ts'

export async function chat(c: Context, desk: Desk): Promise<Response> {
  const body = await readBody(c, chatBody)
  const { prompter, model } = await desk.engine.ready(body.model)
  refuseTools(body, model)
  if ((body.top_logprobs ?? 0) > 0 && body.logprobs !== true)
    throw new Refused(400, 'top_logprobs asks for logprobs: true beside it.', { param: 'top_logprobs' })
  const prompt = await prompter.renderChat(model.key, plainMessages(body.messages))
  const request = completionRequest(body, model, prompt, {
    maxTokens: body.max_completion_tokens ?? body.max_tokens,
    alternatives: body.logprobs ? (body.top_logprobs ?? 0) : 0,
  })
  const leave = desk.admission.enter(request.n)
  desk.count.prompt(body.model, prompt.length)
  const reply = new ChatReply(body, prompt)
  const abort = new AbortController()
  const signal = AbortSignal.any([c.req.raw.signal, abort.signal])
  const answers = desk.answers(prompter, body.model, request, signal)
  if (body.stream) return eventStream(c, reply.chunks(answers), { leave, abort })
  try {
    return c.json({
      ...(await reply.whole(answers, request.n)),
      ...(await promptScores(body, prompter, model, prompt)),
    })
  } finally {
    leave()
  }
}

function refuseTools({ tools, functions, tool_choice }: ChatBody, { key }: OpenedModel): void {
  const asked = [tools, functions].some((list) => Array.isArray(list) && list.length > 0)
  if (!asked || tool_choice === 'none') return
  throw new Refused(400, `The chat template of ${key} has no place for tools, so it was never taught to call one.`, {
    param: 'tools',
  })
}

async function promptScores(body: ChatBody, prompter: Prompter, model: OpenedModel, prompt: number[]) {
  if (typeof body.prompt_logprobs !== 'number') return {}
  refuseMorePromptLogprobs(body.prompt_logprobs)
  return { prompt_logprobs: promptLogprobs(await prompter.score(model.key, prompt)) }
}

export function refuseMorePromptLogprobs(count: number): void {
  if (count > 1)
    throw new Refused(400, `prompt_logprobs names the prompt's own tokens here, and no others: ask for 0 or 1.`, {
      param: 'prompt_logprobs',
    })
}

class ChatReply {
  readonly #body: ChatBody
  readonly #prompt: number[]
  readonly #head: { id: string; created: number; model: string }

  constructor(body: ChatBody, prompt: number[]) {
    this.#body = body
    this.#prompt = prompt
    this.#head = { id: `chatcmpl-${randomUUID()}`, created: Math.floor(Date.now() / 1000), model: body.model }
  }

  async whole(answers: AsyncGenerator<Answer>, n: number) {
    const choices = Array.from({ length: n }, () => ({
      text: '',
      tokens: [] as SampledToken[],
      end: null as Answer | null,
    }))
    for await (const event of answers) {
      const choice = choices[event.index]
      if (event.kind === 'part') {
        choice.text += event.text
        choice.tokens.push(...event.tokens)
      } else choice.end = event
    }
    return {
      ...this.#head,
      object: 'chat.completion',
      choices: choices.map(({ text, tokens, end }, index) => ({
        index,
        message: { role: 'assistant', content: text, refusal: null },
        logprobs: this.#logprobs(tokens),
        ...finish(end),
        ...this.#ids(tokens),
      })),
      usage: this.#usage(choices.reduce((sum, { tokens }) => sum + tokens.length, 0)),
      ...(this.#body.return_token_ids && { prompt_token_ids: this.#prompt }),
    }
  }

  async *chunks(answers: AsyncGenerator<Answer>) {
    const head = { ...this.#head, object: 'chat.completion.chunk' }
    const spoken = new Set<number>()
    let sampled = 0
    const withUsage = this.#body.stream_options?.include_usage
    const usage = withUsage ? { usage: null } : {}
    for await (const event of answers) {
      const { index } = event
      if (!spoken.has(index)) {
        const ids = this.#body.return_token_ids && spoken.size === 0 ? { prompt_token_ids: this.#prompt } : {}
        const delta = { role: 'assistant', content: '' }
        yield { ...head, ...ids, choices: [{ index, delta, logprobs: null, finish_reason: null }], ...usage }
        spoken.add(index)
      }
      if (event.kind === 'part') {
        sampled += event.tokens.length
        const { text, tokens } = event
        const choice = { index, delta: { content: text }, logprobs: this.#logprobs(tokens), finish_reason: null }
        yield { ...head, choices: [{ ...choice, ...this.#ids(tokens) }], ...usage }
      } else yield { ...head, choices: [{ index, delta: {}, logprobs: null, ...finish(event) }], ...usage }
    }
    if (withUsage) yield { ...head, choices: [], usage: this.#usage(sampled) }
  }

  #logprobs(tokens: SampledToken[]) {
    return this.#body.logprobs ? chatLogprobs(tokens, spelling(this.#body.return_tokens_as_token_ids ?? false)) : null
  }

  #ids(tokens: SampledToken[]) {
    return this.#body.return_token_ids ? { token_ids: tokens.map(({ token }) => token) } : {}
  }

  #usage(sampled: number) {
    return usage(this.#prompt.length, sampled)
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
