// A model in a worker of this tab, alone or under an adapter.

import type { Prompter } from '../connect.ts'
import { ALTERNATIVES, type ChatEvent, type ChatMessage, type ChatSettings, type Speaker } from './speaker.ts'

/** @param key under which the prompter holds the model */
export function tabSpeaker(prompter: Prompter, key: string): Speaker {
  return {
    async *say(messages: ChatMessage[], settings: ChatSettings, signal: AbortSignal): AsyncGenerator<ChatEvent> {
      const prompt = await prompter.renderChat(key, messages)
      let sampled = 0
      let reason = 'stop'
      const request = {
        key,
        prompt,
        n: 1,
        seed: settings.seed ?? crypto.getRandomValues(new Uint32Array(1))[0],
        maxTokens: settings.maxTokens ?? Number.MAX_SAFE_INTEGER,
        rule: {
          temperature: settings.temperature,
          topP: settings.topP,
          topK: -1,
          minP: 0,
          repetitionPenalty: 1,
          ignoreEnd: false,
        },
        stop: [],
        keepStop: false,
        alternatives: ALTERNATIVES,
        eager: true,
      }
      for await (const event of prompter.complete(request, signal)) {
        if (event.kind === 'end') reason = event.reason
        else {
          sampled += event.tokens.length
          yield { kind: 'part', text: event.text, tokens: event.tokens }
        }
      }
      yield { kind: 'end', reason, promptTokens: prompt.length, tokens: sampled }
    },
  }
}
