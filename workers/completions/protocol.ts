// All that crosses the thread that answers prompts: which models it holds, what it is asked, and what it says, a few tokens
// at a time. Token ids are given in and out; messages become ids, and ids text, in the thread, where the tokenizer is.

import type { DeviceDescription, ExportedFile, ModelDescription } from '../protocol.ts'

/** What answers are computed on; `auto` takes the fastest that works. */
export type AnsweringBackend = 'auto' | 'webgpu' | 'webgl' | 'wasm' | 'cpu'

/** A model by the name or folder that its host knows, alone or under a LoRA adapter (PEFT's two files). */
export interface ModelSource {
  /** Names this pairing for later calls; opening another under a key that is open closes the first. */
  key: string
  model: string
  adapter: ExportedFile[] | null
}

export interface OpenedModel {
  key: string
  description: ModelDescription
  device: DeviceDescription
  /** Tokens, prompt included. */
  maxLength: number
  /** Whether the chat template has a place for tool definitions. */
  tools: boolean
}

export interface ChatMessage {
  role: string
  content: string
}

export interface SamplingRule {
  /** 0 takes the likeliest token. */
  temperature: number
  topP: number
  /** −1: off. */
  topK: number
  minP: number
  repetitionPenalty: number
  /** Samples past the end token. */
  ignoreEnd: boolean
}

export interface CompletionRequest {
  /** Chosen by the host, unlike any other that is open. */
  id: number
  key: string
  prompt: number[]
  /** So many answers to the prompt; each has noise of its own. */
  n: number
  /** The same seed, prompt and rule give the same tokens, whatever else is being answered. */
  seed: number
  maxTokens: number
  rule: SamplingRule
  /** Texts that end an answer; the text is cut before them. */
  stop: string[]
  keepStop: boolean
  /** Likeliest tokens named at each position. */
  alternatives: number
  /** First tokens soon, at the price of more passes; else the whole answer soon. */
  eager: boolean
}

export interface TokenScore {
  token: number
  text: string
  /** log softmax(logits / T), before truncation and penalties; T = 1 where T is 0. */
  logp: number
}

export interface SampledToken extends TokenScore {
  alternatives: TokenScore[]
}

export type EndReason = 'stop' | 'length'

export type CompletionEvent = { id: number } & (
  | { kind: 'part'; index: number; text: string; tokens: SampledToken[] }
  /** `stop`: the text that ended it, or null for an end token or a limit. */
  | { kind: 'end'; index: number; reason: EndReason; stop: string | null }
  | { kind: 'failed'; sentence: string }
)

/** What the thread answers. Every call rejects with a sentence. */
export interface Completer {
  open(source: ModelSource): Promise<OpenedModel>
  close(key: string): Promise<void>
  /** A whole prompt, ending where the assistant begins to speak. */
  renderChat(key: string, messages: ChatMessage[]): Promise<number[]>
  encode(key: string, text: string): Promise<number[]>
  decode(key: string, ids: number[]): Promise<string>
  /** Each token's own text, special ones spelled out. */
  spell(key: string, ids: number[]): Promise<string[]>
  /** log π of tokens 1 … T−1, each given those before it, at temperature 1. */
  score(key: string, ids: number[]): Promise<TokenScore[]>
  /** Resolves as soon as the request is in the queue; events tell the rest, and a `failed` or n `end`s are the last. */
  complete(request: CompletionRequest): Promise<void>
  /** Decodes no further; no event follows. */
  abort(id: number): Promise<void>
  subscribe(listener: (events: CompletionEvent[]) => void): Promise<void>
  load(): Promise<CompleterLoad>
}

/** Answers being decoded, and waiting for a place in a batch. */
export interface CompleterLoad {
  running: number
  waiting: number
}
