// Whoever answers a chat: a model behind the server's door, or one in this tab. Whoever listens cannot tell.

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant'
  content: string
}

export interface ChatSettings {
  temperature: number
  topP: number
  /** null: as many as there is room for. */
  maxTokens: number | null
  /** null: another one each time. */
  seed: number | null
}

export interface ChatToken {
  text: string
  /** log softmax(logits / T). */
  logp: number
  alternatives: { text: string; logp: number }[]
}

export type ChatEvent =
  /** Which node answers, and after how many tries; only from a server that says. */
  | { kind: 'from'; node: string | null; attempts: number | null }
  | { kind: 'part'; text: string; tokens: ChatToken[] }
  | { kind: 'end'; reason: string; promptTokens: number | null; tokens: number | null }

export interface Speaker {
  say(messages: ChatMessage[], settings: ChatSettings, signal: AbortSignal): AsyncGenerator<ChatEvent>
}

/** Likeliest tokens named at each position. */
export const ALTERNATIVES = 5
