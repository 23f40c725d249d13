// What a request may ask, as OpenAI and vLLM name it. Fields that change nothing here are let through; one that would
// change the answer and is not computed is refused by its name, never ignored.

import type { Context } from 'hono'
import { z } from 'zod'
import { Refused } from './errors.ts'

const MOST_CHOICES = 64
const MOST_LOGPROBS = 20
const MOST_STOPS = 16

const maxTokens = z.int().min(1).nullish()

const sampling = {
  model: z.string().min(1),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  n: z.int().min(1).max(MOST_CHOICES).nullish(),
  seed: z.int().nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  repetition_penalty: z.number().gt(0).max(10).nullish(),
  stop: z.union([z.string(), z.array(z.string()).max(MOST_STOPS)]).nullish(),
  include_stop_str_in_output: z.boolean().nullish(),
  ignore_eos: z.boolean().nullish(),
  max_tokens: maxTokens,
  return_token_ids: z.boolean().nullish(),
  return_tokens_as_token_ids: z.boolean().nullish(),
  prompt_logprobs: z.int().min(0).nullish(),
}

const textPart = z.looseObject({ type: z.literal('text'), text: z.string() })
export const message = z.looseObject({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool', 'function']),
  content: z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]).nullish(),
})

export const chatBody = z.looseObject({
  ...sampling,
  messages: z.array(message).min(1),
  max_completion_tokens: maxTokens,
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(MOST_LOGPROBS).nullish(),
})

const ids = z.array(z.int().min(0)).min(1)
export const completionBody = z.looseObject({
  ...sampling,
  prompt: z.union([
    z.string(),
    ids,
    z.array(z.string()).min(1).max(MOST_CHOICES),
    z.array(ids).min(1).max(MOST_CHOICES),
  ]),
  echo: z.boolean().nullish(),
  logprobs: z.int().min(0).max(MOST_LOGPROBS).nullish(),
})

export const tokenizeBody = z.looseObject({
  model: z.string().min(1),
  prompt: z.string().nullish(),
  messages: z.array(message).min(1).nullish(),
  return_token_strs: z.boolean().nullish(),
})

export const detokenizeBody = z.looseObject({ model: z.string().min(1), tokens: z.array(z.int().min(0)) })

export type ChatBody = z.infer<typeof chatBody>
export type CompletionBody = z.infer<typeof completionBody>
export type SamplingBody = Pick<ChatBody, keyof typeof sampling & keyof ChatBody>

/** Fields that would change the answer, and the values under which they do not. */
const REFUSED: Record<string, (value: unknown) => boolean> = {
  best_of: (value) => value === 1,
  frequency_penalty: (value) => value === 0,
  presence_penalty: (value) => value === 0,
  logit_bias: isEmpty,
  response_format: (value) => (value as { type?: string }).type === 'text',
  structured_outputs: isEmpty,
  guided_json: isEmpty,
  guided_regex: isEmpty,
  guided_choice: isEmpty,
  guided_grammar: isEmpty,
  min_tokens: (value) => value === 0,
  bad_words: isEmpty,
  allowed_token_ids: isEmpty,
  stop_token_ids: isEmpty,
  suffix: isEmpty,
  audio: isEmpty,
  modalities: (value) => Array.isArray(value) && value.every((one) => one === 'text'),
  use_beam_search: (value) => value === false,
  skip_special_tokens: (value) => value === true,
  add_generation_prompt: (value) => value === true,
  continue_final_message: (value) => value === false,
  chat_template: isEmpty,
  chat_template_kwargs: isEmpty,
  documents: isEmpty,
}

export async function readBody<Schema extends z.ZodType>(c: Context, schema: Schema): Promise<z.infer<Schema>> {
  let body: unknown
  try {
    body = await c.req.json()
  } catch (error) {
    throw new Refused(400, `The body is not JSON: ${error instanceof Error ? error.message : error}.`)
  }
  const read = schema.safeParse(body)
  if (!read.success) {
    const [issue] = read.error.issues
    const param = issue.path.join('.') || null
    throw new Refused(400, `${param === null ? 'The body' : `The field ${param}`} cannot be used: ${issue.message}.`, {
      param,
    })
  }
  for (const [name, changesNothing] of Object.entries(REFUSED)) {
    const value = (body as Record<string, unknown>)[name]
    if (value === undefined || value === null || changesNothing(value)) continue
    throw new Refused(400, `This model server does not compute ${name}: leave it out.`, { param: name })
  }
  return read.data
}

/** Messages as a chat template reads them: one text each. */
export function plainMessages(messages: z.infer<typeof message>[]): { role: string; content: string }[] {
  return messages.map(({ role, content }, i) => {
    if (typeof content === 'string') return { role: role === 'developer' ? 'system' : role, content }
    const parts = content ?? []
    const texts = parts.map((part, p) => {
      const text = textPart.safeParse(part)
      if (text.success) return text.data.text
      throw new Refused(400, `The models here read text only; this message part is ${part.type}.`, {
        param: `messages.${i}.content.${p}`,
      })
    })
    return { role: role === 'developer' ? 'system' : role, content: texts.join('') }
  })
}

function isEmpty(value: unknown): boolean {
  return value === '' || (typeof value === 'object' && value !== null && Object.keys(value).length === 0)
}
