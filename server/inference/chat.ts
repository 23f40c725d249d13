// POST /v1/chat/completions.

import { randomUUID } from 'node:crypto'
import type { Context } from 'hono'
import type { OpenedModel, SampledToken, TokenScore } from '../../workers/completions/protocol.ts'
import type { Answer } from '../../workers/host.node.ts'
import { completionRequest } from './asking.ts'
import { type ChatBody, chatBody, plainMessages, readBody } from './body.ts'
import type { Desk } from './desk.ts'
import { Refused } from './errors.ts'
import { chatLogprobs, promptLogprobs, spelling } from './logprobs.ts'
import { finish, gather, type Reply, refuseMorePromptLogprobs, send, usage } from './reply.ts'

export async function chat(c: Context, desk: Desk): Promise<Response> {
  const body = await readBody(c, chatBody)
  const { prompter, model } = await desk.engine.ready(body.model)
  if (typeof body.prompt_logprobs === 'number') refuseMorePromptLogprobs(body.prompt_logprobs)
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
  return send(c, {
    stream: body.stream ?? false,
    reply: new ChatReply(body, prompt, () => prompter.score(model.key, prompt)),
    ask: (signal) => desk.answers(prompter, body.model, request, signal),
    leave,
  })
}

function refuseTools({ tools, functions, tool_choice }: ChatBody, { key }: OpenedModel): void {
  const asked = [tools, functions].some((list) => Array.isArray(list) && list.length > 0)
  if (!asked || tool_choice === 'none') return
  throw new Refused(400, `The chat template of ${key} has no place for tools, so it was never taught to call one.`, {
    param: 'tools',
  })
}

class ChatReply implements Reply {
  readonly #body: ChatBody
  readonly #prompt: number[]
  readonly #score: () => Promise<TokenScore[]>
  readonly #head: { id: string; created: number; model: string }

  constructor(body: ChatBody, prompt: number[], score: () => Promise<TokenScore[]>) {
    this.#body = body
    this.#prompt = prompt
    this.#score = score
    this.#head = { id: `chatcmpl-${randomUUID()}`, created: Math.floor(Date.now() / 1000), model: body.model }
  }

  async whole(answers: AsyncGenerator<Answer>) {
    const { choices, sampled } = await gather(answers, this.#body.n ?? 1)
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
      usage: usage(this.#prompt.length, sampled),
      ...(this.#body.return_token_ids && { prompt_token_ids: this.#prompt }),
      ...(typeof this.#body.prompt_logprobs === 'number' && { prompt_logprobs: promptLogprobs(await this.#score()) }),
    }
  }

  async *chunks(answers: AsyncGenerator<Answer>) {
    const head = { ...this.#head, object: 'chat.completion.chunk' }
    const spoken = new Set<number>()
    let sampled = 0
    const withUsage = this.#body.stream_options?.include_usage
    const unused = withUsage ? { usage: null } : {}
    for await (const event of answers) {
      const { index } = event
      if (!spoken.has(index)) {
        const ids = this.#body.return_token_ids && spoken.size === 0 ? { prompt_token_ids: this.#prompt } : {}
        const delta = { role: 'assistant', content: '' }
        yield { ...head, ...ids, choices: [{ index, delta, logprobs: null, finish_reason: null }], ...unused }
        spoken.add(index)
      }
      if (event.kind === 'part') {
        sampled += event.tokens.length
        const { text, tokens } = event
        const choice = { index, delta: { content: text }, logprobs: this.#logprobs(tokens), finish_reason: null }
        yield { ...head, choices: [{ ...choice, ...this.#ids(tokens) }], ...unused }
      } else yield { ...head, choices: [{ index, delta: {}, logprobs: null, ...finish(event) }], ...unused }
    }
    if (withUsage) yield { ...head, choices: [], usage: usage(this.#prompt.length, sampled) }
  }

  #logprobs(tokens: SampledToken[]) {
    return this.#body.logprobs ? chatLogprobs(tokens, spelling(this.#body.return_tokens_as_token_ids ?? false)) : null
  }

  #ids(tokens: SampledToken[]) {
    return this.#body.return_token_ids ? { token_ids: tokens.map(({ token }) => token) } : {}
  }
}
