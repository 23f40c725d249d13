// A server's runs without a port: the app's own fetch, the store in a temporary folder, the stand-in for the trainer.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '../../../build/paths.ts'
import { createApp } from '../../../server/app.ts'
import { isFinal } from '../../../server/engines/engine.ts'
import { openServerRuns, type RunsSetup, type ServerRuns } from '../../../server/runs/setup.ts'
import type { RunDetails, RunView } from '../../../server/runs/views.ts'
import type { RunEvent } from '../../../workers/protocol.ts'

export interface SseMessage {
  id: number | null
  event: string
  data: string
}

export class TestServer {
  readonly data: string
  #setup: Partial<RunsSetup>
  #runs!: ServerRuns
  #app!: ReturnType<typeof createApp>
  reported: string[] = []

  private constructor(data: string, setup: Partial<RunsSetup>) {
    this.data = data
    this.#setup = setup
  }

  static async open(trainer: string | null, setup: Partial<RunsSetup> = {}): Promise<TestServer> {
    const data = await mkdtemp(join(tmpdir(), 'rollout-lab-runs-'))
    const server = new TestServer(data, {
      ...setup,
      local: setup.local === null ? null : { models: ['table'], trainer, ...setup.local },
    })
    await server.start()
    return server
  }

  async start(): Promise<void> {
    const report = (what: string, error: unknown) => this.reported.push(`${what}: ${(error as Error).stack}`)
    this.#runs = await openServerRuns({ root: ROOT, data: this.data, report, ...this.#setup })
    const webRoot = join(this.data, 'web')
    await mkdir(webRoot, { recursive: true })
    this.#app = createApp({ webRoot, runs: this.#runs.runs })
  }

  get runs(): ServerRuns {
    return this.#runs
  }

  stop(): Promise<void> {
    return this.#runs.close()
  }

  async remove(): Promise<void> {
    await this.stop()
    await rm(this.data, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  }

  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return this.#app.request(`http://127.0.0.1/api${path}`, {
      ...init,
      headers: { host: '127.0.0.1', ...init.headers },
    })
  }

  async get<T>(path: string): Promise<T> {
    const response = await this.fetch(path)
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
    return (await response.json()) as T
  }

  post(path: string, body: unknown = {}, headers: Record<string, string> = {}, method = 'POST'): Promise<Response> {
    return this.fetch(path, { method, body: JSON.stringify(body), headers })
  }

  async submit(
    config: unknown,
    more: Record<string, unknown> = {},
    headers: Record<string, string> = {},
  ): Promise<RunView> {
    const response = await this.post('/runs', { config, ...more }, headers)
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
    return (await response.json()) as RunView
  }

  pace(milliseconds: number): Promise<void> {
    return writeFile(join(this.data, 'local/runs/pace'), String(milliseconds))
  }

  details(id: string): Promise<RunDetails> {
    return this.get<RunDetails>(`/runs/${id}`)
  }

  async until(id: string, found: (run: RunDetails) => boolean): Promise<RunDetails> {
    for (;;) {
      const run = await this.details(id)
      if (found(run)) return run
      await new Promise((resolve) => setTimeout(resolve, 15))
    }
  }

  ended(id: string): Promise<RunDetails> {
    return this.until(id, ({ state }) => isFinal(state))
  }

  /** Follows to the end, or for so many messages. */
  async follow(
    id: string,
    options: { query?: string; lastEventId?: number; most?: number } = {},
  ): Promise<SseMessage[]> {
    const abort = new AbortController()
    const headers: Record<string, string> =
      options.lastEventId === undefined ? {} : { 'last-event-id': String(options.lastEventId) }
    const response = await this.fetch(`/runs/${id}/events${options.query ?? ''}`, { headers, signal: abort.signal })
    if (!response.ok || !response.body) throw new Error(`${response.status} ${await response.text()}`)
    const messages: SseMessage[] = []
    for await (const message of messagesOf(response.body)) {
      messages.push(message)
      if (messages.length === options.most) break
    }
    abort.abort()
    return messages
  }
}

export async function* messagesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<SseMessage> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true })
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const block = text.slice(0, end)
      text = text.slice(end + 2)
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1]
      const data = field('data')
      if (data === undefined) continue
      const id = field('id')
      yield { id: id === undefined ? null : Number(id), event: field('event') ?? 'message', data }
    }
  }
}

export function runEvents(messages: SseMessage[]): RunEvent[] {
  return messages.filter(({ event }) => event === 'run').map(({ data }) => JSON.parse(data) as RunEvent)
}
