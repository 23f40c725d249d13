// Log-probabilities in the shapes of OpenAI's two routes and of vLLM's prompt_logprobs. They are those of
// softmax(logits / temperature) over the whole vocabulary, before any truncation.

import type { SampledToken, TokenScore } from '../../workers/completions/protocol.ts'

const bytesOf = (text: string) => [...new TextEncoder().encode(text)]

/** `token_id:17` instead of the text, where a client wants to be sure which token it was. */
export type Spelling = (token: TokenScore) => string

export function spelling(asIds: boolean): Spelling {
  return asIds ? ({ token }) => `token_id:${token}` : ({ text }) => text
}

export function chatLogprobs(tokens: SampledToken[], spell: Spelling) {
  const entry = (one: TokenScore) => ({ token: spell(one), logprob: one.logp, bytes: bytesOf(one.text) })
  return {
    content: tokens.map((token) => ({ ...entry(token), top_logprobs: token.alternatives.map(entry) })),
    refusal: null,
  }
}

/** @param offset characters of text before the first token */
export function textLogprobs(tokens: (SampledToken | FirstToken)[], spell: Spelling, offset: number) {
  const offsets: number[] = []
  let at = offset
  for (const { text } of tokens) {
    offsets.push(at)
    at += text.length
  }
  return {
    tokens: tokens.map((token) => spell({ ...token, logp: token.logp ?? 0 })),
    token_logprobs: tokens.map(({ logp }) => logp),
    top_logprobs: tokens.map(({ logp, alternatives }) =>
      logp === null ? null : Object.fromEntries(alternatives.map((one) => [spell(one), one.logp])),
    ),
    text_offset: offsets,
  }
}

/** The first token of a prompt follows nothing, so it has no log-probability. */
export interface FirstToken {
  token: number
  text: string
  logp: null
  alternatives: []
}

/** One entry per prompt token: null for the first, then its own log-probability by its id. */
export function promptLogprobs(scores: TokenScore[]) {
  return [null, ...scores.map(({ token, text, logp }) => ({ [token]: { logprob: logp, decoded_token: text } }))]
}
