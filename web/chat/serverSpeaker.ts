// A model behind the server's /v1, by OpenAI's own client. The page has no key: the browser sends its cookie.

import type OpenAI from 'openai'
import { onServer } from '../served.ts'
import { ALTERNATIVES, type ChatEvent, type ChatMessage, type ChatSettings, type Speaker } from './speaker.ts'

let client: Promise<OpenAI> | null = null

/** Loaded when the first chat begins. */
function openClient(): Promise<OpenAI> {
  client ??= import('openai').then(
    ({ OpenAI }) =>
      new OpenAI({
        baseURL: onServer('v1').href,
        apiKey: 'none',
        // Nothing of that is sent: a header that is null is left out.
        defaultHeaders: { Authorization: null },
        dangerouslyAllowBrowser: true,
        maxRetries: 0,
      }),
  )
  return client
}

export function serverSpeaker(model: string): Speaker {
  return {
    async *say(messages: ChatMessage[], settings: ChatSettings, signal: AbortSignal): AsyncGenerator<ChatEvent> {
      const openai = await openClient()
      const { data, response } = await openai.chat.completions
        .create(
          {
            model,
            messages,
            temperature: settings.temperature,
            top_p: settings.topP,
            ...(settings.maxTokens !== null && { max_tokens: settings.maxTokens }),
            ...(settings.seed !== null && { seed: settings.seed }),
            logprobs: true,
            top_logprobs: ALTERNATIVES,
            stream: true,
            stream_options: { include_usage: true },
          },
          { signal },
        )
        .withResponse()
      const attempts = response.headers.get('x-rollout-lab-attempts')
      const node = response.headers.get('x-rollout-lab-node')
      yield { kind: 'from', node, attempts: attempts === null ? null : Number(attempts) }
      let reason = 'stop'
      let usage: OpenAI.CompletionUsage | null = null
      for await (const chunk of data) {
        usage = chunk.usage ?? usage
        const [choice] = chunk.choices
        if (!choice) continue
        reason = choice.finish_reason ?? reason
        const text = choice.delta.content ?? ''
        const tokens = (choice.logprobs?.content ?? []).map(({ token, logprob, top_logprobs }) => ({
          text: token,
          logp: logprob,
          alternatives: top_logprobs.map((one) => ({ text: one.token, logp: one.logprob })),
        }))
        if (text !== '' || tokens.length > 0) yield { kind: 'part', text, tokens }
      }
      yield {
        kind: 'end',
        reason,
        promptTokens: usage?.prompt_tokens ?? null,
        tokens: usage?.completion_tokens ?? null,
      }
    },
  }
}
