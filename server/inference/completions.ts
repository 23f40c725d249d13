// POST /v1/completions: texts or token ids, several at once, with their own log-probabilities where `echo` asks for them.

import { randomUUID } from 'node:crypto'
import type { Context } from 'hono'
import type { OpenedModel, SampledToken, TokenScore } from '../../workers/completions/protocol.ts'
import type { Answer, Prompter } from '../../workers/host.node.ts'
import { completionRequest } from './asking.ts'
import { type CompletionBody, completionBody, readBody } from './body.ts'
import type { Desk } from './desk.ts'
import { Refused } from './errors.ts'
import { type FirstToken, promptLogprobs, spelling, textLogprobs } from './logprobs.ts'
import { finish, gather, type Reply, refuseMorePromptLogprobs, send, usage } from './reply.ts'

interface Prompt {
  ids: number[]
  text: string
  /** Where the prompt's own log-probabilities were asked for. */
  scores: TokenScore[] | null
}

export async function completions(c: Context, desk: Desk): Promise<Response> {
  const body = await readBody(c, completionBody)
  const { prompter, model } = await desk.engine.ready(body.model)
  if (typeof body.prompt_logprobs === 'number') refuseMorePromptLogprobs(body.prompt_logprobs)
  if (body.stream && (body.echo || typeof body.prompt_logprobs === 'number'))
    throw new Refused(400, 'echo and prompt_logprobs are answered whole: leave out stream.', { param: 'stream' })
  const prompts = await Promise.all(promptsOf(body.prompt).map((prompt) => readPrompt(prompt, body, prompter, model)))
  const requests = prompts.map(({ ids }) =>
    // The default of this route, unlike that of the chat, is 16.
    completionRequest(body, model, ids, { maxTokens: body.max_tokens ?? 16, alternatives: body.logprobs ?? 0 }),
  )
  const n = body.n ?? 1
  const leave = desk.admission.enter(n * prompts.length)
  for (const { ids } of prompts) desk.count.prompt(body.model, ids.length)
  return send(c, {
    stream: body.stream ?? false,
    reply: new TextReply(body, prompts, n),
    ask: (signal) =>
      merged(requests.map((request, p) => shifted(desk.answers(prompter, body.model, request, signal), p * n))),
    leave,
  })
}

function promptsOf(prompt: CompletionBody['prompt']): (string | number[])[] {
  if (typeof prompt === 'string') return [prompt]
  return typeof prompt[0] === 'number' ? [prompt as number[]] : (prompt as (string | number[])[])
}

async function readPrompt(
  prompt: string | number[],
  body: CompletionBody,
  prompter: Prompter,
  { key }: OpenedModel,
): Promise<Prompt> {
  const ids = typeof prompt === 'string' ? await prompter.encode(key, prompt) : prompt
  if (ids.length === 0) throw new Refused(400, 'The prompt is empty: give at least one token.', { param: 'prompt' })
  const wanted = typeof body.prompt_logprobs === 'number' || (body.echo && typeof body.logprobs === 'number')
  const scores = wanted ? await prompter.score(key, ids) : null
  const text = !body.echo ? '' : typeof prompt === 'string' ? prompt : await prompter.decode(key, ids)
  return { ids, text, scores }
}

async function* shifted(answers: AsyncGenerator<Answer>, by: number): AsyncGenerator<Answer> {
  for await (const event of answers) yield { ...event, index: event.index + by }
}

/** Several streams as one, in the order of their coming. */
async function* merged(streams: AsyncGenerator<Answer>[]): AsyncGenerator<Answer> {
  const next = (stream: AsyncGenerator<Answer>) => stream.next().then((result) => ({ stream, result }))
  const open = new Map(streams.map((stream) => [stream, next(stream)]))
  try {
    while (open.size > 0) {
      const { stream, result } = await Promise.race(open.values())
      if (result.done) open.delete(stream)
      else {
        open.set(stream, next(stream))
        yield result.value
      }
    }
  } finally {
    for (const [stream, waiting] of open) {
      waiting.catch(() => {})
      void stream.return(undefined).catch(() => {})
    }
  }
}

class TextReply implements Reply {
  readonly #body: CompletionBody
  readonly #prompts: Prompt[]
  readonly #n: number
  readonly #head: { id: string; object: string; created: number; model: string }

  constructor(body: CompletionBody, prompts: Prompt[], n: number) {
    this.#body = body
    this.#prompts = prompts
    this.#n = n
    const created = Math.floor(Date.now() / 1000)
    this.#head = { id: `cmpl-${randomUUID()}`, object: 'text_completion', created, model: body.model }
  }

  async whole(answers: AsyncGenerator<Answer>) {
    const { choices, sampled } = await gather(answers, this.#prompts.length * this.#n)
    return {
      ...this.#head,
      choices: choices.map(({ text, tokens, end }, index) => {
        const prompt = this.#promptOf(index)
        return {
          index,
          text: prompt.text + text,
          logprobs: this.#logprobs(tokens, prompt, prompt.text.length),
          ...finish(end),
          ...this.#ids(tokens, prompt),
          ...(typeof this.#body.prompt_logprobs === 'number' && {
            prompt_logprobs: promptLogprobs(prompt.scores ?? []),
          }),
        }
      }),
      usage: this.#usage(sampled),
    }
  }

  async *chunks(answers: AsyncGenerator<Answer>) {
    const offsets = new Map<number, number>()
    const withUsage = this.#body.stream_options?.include_usage
    const unused = withUsage ? { usage: null } : {}
    let sampled = 0
    for await (const event of answers) {
      const { index } = event
      if (event.kind === 'part') {
        const { text, tokens } = event
        const offset = offsets.get(index)
        sampled += tokens.length
        const logprobs = this.#logprobs(tokens, null, offset ?? 0)
        // The prompt's ids come once, with the first tokens.
        const ids = this.#ids(tokens, offset === undefined ? this.#promptOf(index) : null)
        yield { ...this.#head, choices: [{ index, text, logprobs, finish_reason: null, ...ids }], ...unused }
        offsets.set(index, (offset ?? 0) + text.length)
      } else yield { ...this.#head, choices: [{ index, text: '', logprobs: null, ...finish(event) }], ...unused }
    }
    if (withUsage) yield { ...this.#head, choices: [], usage: this.#usage(sampled) }
  }

  #promptOf(index: number): Prompt {
    return this.#prompts[Math.floor(index / this.#n)]
  }

  #logprobs(tokens: SampledToken[], prompt: Prompt | null, offset: number) {
    if (typeof this.#body.logprobs !== 'number') return null
    const spell = spelling(this.#body.return_tokens_as_token_ids ?? false)
    if (!this.#body.echo || !prompt?.scores) return textLogprobs(tokens, spell, offset)
    const [first] = prompt.ids
    const scored = prompt.scores.map((score) => ({ ...score, alternatives: [] }))
    const textOfFirst = prompt.text.slice(
      0,
      prompt.text.length - scored.reduce((sum, { text }) => sum + text.length, 0),
    )
    const opening: FirstToken = { token: first, text: textOfFirst, logp: null, alternatives: [] }
    return textLogprobs([opening, ...scored, ...tokens], spell, 0)
  }

  #ids(tokens: SampledToken[], prompt: Prompt | null) {
    if (!this.#body.return_token_ids) return {}
    return { token_ids: tokens.map(({ token }) => token), ...(prompt && { prompt_token_ids: prompt.ids }) }
  }

  #usage(sampled: number) {
    return usage(
      this.#prompts.reduce((sum, { ids }) => sum + ids.length, 0),
      sampled,
    )
  }
}
