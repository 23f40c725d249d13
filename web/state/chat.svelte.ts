// A conversation with one model, and the settings it is asked with. Knows no network: it is given speakers.

import type { ChatMessage, ChatSettings, ChatToken, Speaker } from '../chat/speaker.ts'

export interface Turn {
  role: 'user' | 'assistant'
  text: string
  tokens: ChatToken[]
  /** Of an answer: who gave it, and how it ended; null while it comes. */
  model: string | null
  node: string | null
  attempts: number | null
  end: string | null
  seconds: number | null
}

export class Chat {
  #turns = $state.raw<Turn[]>([])
  #busy = $state.raw<AbortController | null>(null)
  #problem = $state<string | null>(null)

  system = $state('')
  written = $state('')
  settings = $state<ChatSettings>({ temperature: 0.7, topP: 1, maxTokens: null, seed: null })

  get turns() {
    return this.#turns
  }
  /** An answer is coming. */
  get busy() {
    return this.#busy !== null
  }
  get problem() {
    return this.#problem
  }

  /** Sends what is written, after all that was said. */
  async send(model: string, speaker: Speaker | Promise<Speaker>): Promise<void> {
    const content = this.written
    if (this.busy || content.trim() === '') return
    this.written = ''
    this.#turns = [...this.#turns, { ...EMPTY, role: 'user', text: content }]
    await this.#answer(model, speaker)
  }

  /** Another answer in the place of the last one. */
  async again(model: string, speaker: Speaker | Promise<Speaker>): Promise<void> {
    if (this.busy || this.#turns.at(-1)?.role !== 'assistant') return
    this.#turns = this.#turns.slice(0, -1)
    await this.#answer(model, speaker)
  }

  stop(): void {
    this.#busy?.abort()
  }

  clear(): void {
    this.stop()
    this.#busy = null
    this.#turns = []
    this.#problem = null
  }

  /** Begins anew with the messages of a prompt; the last of the user's is left to be sent. */
  take(prompt: readonly { role: string; content: string }[]): void {
    this.clear()
    this.system = prompt.find(({ role }) => role === 'system')?.content ?? ''
    this.written = prompt.findLast(({ role }) => role === 'user')?.content ?? ''
  }

  async #answer(model: string, speaker: Speaker | Promise<Speaker>): Promise<void> {
    const abort = new AbortController()
    this.#busy = abort
    this.#problem = null
    const messages: ChatMessage[] = this.#turns.map(({ role, text }) => ({ role, content: text }))
    if (this.system !== '') messages.unshift({ role: 'system', content: this.system })
    const turn: Turn = { ...EMPTY, role: 'assistant', model }
    const before = this.#turns
    const show = () => {
      if (this.#busy === abort) this.#turns = [...before, { ...turn }]
    }
    const started = performance.now()
    try {
      const from = await speaker
      for await (const event of from.say(messages, $state.snapshot(this.settings), abort.signal)) {
        if (event.kind === 'from') Object.assign(turn, { node: event.node, attempts: event.attempts })
        else if (event.kind === 'part') {
          turn.text += event.text
          turn.tokens = [...turn.tokens, ...event.tokens]
        } else turn.end = event.reason
        show()
      }
      turn.end ??= 'stopped'
    } catch (error) {
      turn.end = 'stopped'
      if (!abort.signal.aborted) this.#problem = sentenceOf(error)
    }
    turn.seconds = (performance.now() - started) / 1000
    if (this.#busy !== abort) return
    // A model that was never heard leaves nothing, so that the question can be sent again.
    if (turn.text === '' && turn.tokens.length === 0 && this.#problem !== null) {
      this.#turns = before.slice(0, -1)
      this.written ||= before.at(-1)?.text ?? ''
    } else show()
    this.#busy = null
  }
}

const EMPTY: Turn = {
  role: 'user',
  text: '',
  tokens: [],
  model: null,
  node: null,
  attempts: null,
  end: null,
  seconds: null,
}

/** OpenAI's client puts the status before the server's sentence. */
function sentenceOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  if (text === 'Connection error.') return 'The server did not answer. Is it still running?'
  return text.replace(/^\d{3} /, '')
}
