// One request: n sequences, their text as it becomes certain, and the events that tell of it.

import type { Completion } from '../policy/policy.ts'
import type { Tokenizer } from '../policy/tokenizer.ts'
import { noiseKey } from '../random.ts'
import type { Batcher, NewToken } from './batcher.ts'
import type { CompletionEvent, CompletionRequest, SampledToken } from './protocol.ts'
import { TextStream } from './text.ts'

export interface Voice {
  tokenizer: Tokenizer
  stopTokens: number[]
}

/** Puts a request into the batch; the returned function gives it up. */
export function answer(
  request: CompletionRequest,
  batcher: Batcher,
  voice: Voice,
  say: (event: CompletionEvent) => void,
): () => void {
  let failed = false
  const leave = Array.from({ length: request.n }, (_, index) => {
    const stream = new TextStream((ids) => voice.tokenizer.decode(ids), {
      stops: request.stop,
      keepStop: request.keepStop,
    })
    return batcher.add({
      prompt: request.prompt,
      noise: noiseKey(request.seed, 'eval', 0, index),
      maxTokens: request.maxTokens,
      rule: request.rule,
      alternatives: request.alternatives,
      eager: request.eager,
      onTokens(tokens) {
        const taken: NewToken[] = []
        let text = ''
        for (const token of tokens) {
          taken.push(token)
          // An end token has no text; sampled past, it still has none.
          text += stream.push(token.token)
          if (stream.stop !== null) break
        }
        say({ id: request.id, kind: 'part', index, text, tokens: taken.map((token) => spelled(voice, token)) })
        if (stream.stop === null) return true
        say({ id: request.id, kind: 'end', index, reason: 'stop', stop: stream.stop })
        return false
      },
      onEnd(stop: Completion['stop']) {
        const text = stream.end()
        if (text !== '') say({ id: request.id, kind: 'part', index, text, tokens: [] })
        const reason = stop === 'token' || stream.stop !== null ? 'stop' : 'length'
        say({ id: request.id, kind: 'end', index, reason, stop: stream.stop })
      },
      onError(error) {
        if (!failed) say({ id: request.id, kind: 'failed', sentence: error.message })
        failed = true
        giveUp()
      },
    })
  })
  const giveUp = () => {
    for (const go of leave) go()
  }
  return giveUp
}

function spelled({ tokenizer }: Voice, { token, logp, alternatives }: NewToken): SampledToken {
  const text = (id: number) => tokenizer.tokens([id])[0]
  return {
    token,
    text: text(token),
    logp,
    alternatives: alternatives.map((other) => ({ token: other.token, text: text(other.token), logp: other.logp })),
  }
}
