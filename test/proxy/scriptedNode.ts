// A node that does as it is told: answers like vLLM, or hangs, cuts, lies, stalls and dies. A real HTTP server on a port of
// 127.0.0.1; counts and keeps what it was sent.

import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

export interface Received {
  method: string
  path: string
  headers: IncomingHttpHeaders
  body: string
  /** Set when the caller closed the connection before the answer was whole. */
  aborted: boolean
}

export type Behaviour = (request: Received, response: ServerResponse) => void | Promise<void>

export interface Script {
  models: string[]
  /** What POST requests of users get. */
  behave: Behaviour
  healthy: boolean
  /** vLLM's own gauges. */
  load: { running: number; waiting: number; kvCache: number }
  /** Folders of adapters that can be read; null for any. */
  readable: ((path: string) => boolean) | null
  metrics: boolean
}

export class ScriptedNode {
  readonly received: Received[] = []
  adapters = new Map<string, { root: string; parent: string }>()
  /** Bytes that were taken by the kernel of what was written. */
  written = 0
  script: Script
  #server: Server | null = null
  #sockets = new Set<Socket>()
  #port = 0
  #startedAt = 0
  #turn = 0

  constructor(script: Partial<Script> = {}) {
    this.script = {
      models: ['base'],
      behave: answerBriefly,
      healthy: true,
      load: { running: 0, waiting: 0, kvCache: 0 },
      readable: null,
      metrics: true,
      ...script,
    }
  }

  static async start(script: Partial<Script> = {}): Promise<ScriptedNode> {
    const node = new ScriptedNode(script)
    await node.revive()
    return node
  }

  get url() {
    return `http://127.0.0.1:${this.#port}`
  }

  /** Requests of users: what reached it of a POST that is none of the admin's. */
  get asked(): Received[] {
    return this.received.filter(({ method, path }) => method === 'POST' && !path.includes('lora_adapter'))
  }

  get answering(): boolean {
    return this.#server !== null
  }

  /** Listens again on the port that it had, with nothing in memory. */
  async revive() {
    this.adapters.clear()
    this.#startedAt = 1_700_000_000 + this.#turn++
    const server = createServer((request, response) => void this.#handle(request, response))
    server.keepAliveTimeout = 5000
    server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(this.#port, '127.0.0.1', resolve)
    })
    this.#port = (server.address() as AddressInfo).port
    this.#server = server
  }

  /** As a killed process: every connection is reset, and new ones are refused. */
  async die() {
    const server = this.#server
    if (!server) return
    this.#server = null
    const closed = new Promise((resolve) => server.close(resolve))
    for (const socket of this.#sockets) socket.resetAndDestroy()
    await closed
  }

  async #handle(request: IncomingMessage, response: ServerResponse) {
    const pieces: Buffer[] = []
    const received: Received = {
      method: request.method!,
      path: request.url!,
      headers: request.headers,
      body: '',
      aborted: false,
    }
    response.on('close', () => {
      received.aborted = !response.writableFinished
    })
    response.on('error', () => {})
    for await (const piece of request) pieces.push(piece as Buffer)
    received.body = Buffer.concat(pieces).toString('utf8')
    this.received.push(received)
    const { method, path } = received
    if (method === 'GET' && path === '/health') return void response.writeHead(this.script.healthy ? 200 : 500).end()
    if (method === 'GET' && path === '/metrics') return this.#metrics(response)
    if (method === 'GET' && path === '/v1/models') return json(response, 200, { object: 'list', data: this.#models() })
    if (path === '/v1/load_lora_adapter') return this.#load(received, response)
    if (path === '/v1/unload_lora_adapter') return this.#unload(received, response)
    const { model } = safely(received.body)
    if (model !== undefined && !this.script.models.includes(model) && !this.adapters.has(model))
      return json(response, 404, {
        error: { message: `The model \`${model}\` does not exist.`, type: 'NotFoundError', param: 'model', code: 404 },
      })
    await this.script.behave(received, response)
  }

  #models() {
    return [
      ...this.script.models.map((id) => ({ id, object: 'model', root: id, parent: null, max_model_len: 4096 })),
      ...[...this.adapters].map(([id, { root, parent }]) => ({ id, object: 'model', root, parent })),
    ]
  }

  #metrics(response: ServerResponse) {
    if (!this.script.metrics) return void response.writeHead(404).end()
    const { running, waiting, kvCache } = this.script.load
    const label = '{engine="0",model_name="base"}'
    response.end(
      `# HELP vllm:num_requests_running Running.\nprocess_start_time_seconds ${this.#startedAt}\n` +
        `vllm:num_requests_running${label} ${running}.0\nvllm:num_requests_waiting${label} ${waiting}.0\n` +
        `vllm:kv_cache_usage_perc${label} ${kvCache}\n`,
    )
  }

  #load({ body }: Received, response: ServerResponse) {
    const { lora_name: name, lora_path: path } = safely(body)
    if (this.adapters.has(name))
      return json(response, 400, {
        error: { message: `The lora adapter '${name}' has already been loaded.`, type: 'InvalidUserInput', code: 400 },
      })
    if (this.script.readable && !this.script.readable(path))
      return json(response, 404, {
        error: {
          message: `Loading lora ${name} failed: No adapter found for ${path}`,
          type: 'NotFoundError',
          code: 404,
        },
      })
    this.adapters.set(name, { root: path, parent: this.script.models[0] })
    response.end(`Success: LoRA adapter '${name}' added successfully.`)
  }

  #unload({ body }: Received, response: ServerResponse) {
    const { lora_name: name } = safely(body)
    if (!this.adapters.delete(name)) return json(response, 404, { error: { message: 'not found', code: 404 } })
    response.end(`Success: LoRA adapter '${name}' removed successfully.`)
  }
}

function safely(body: string): Record<string, string> {
  try {
    return JSON.parse(body)
  } catch {
    return {}
  }
}

export function json(response: ServerResponse, status: number, value: unknown) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

export const USAGE = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 }

/** A whole answer, or a stream of three words, as was asked for. */
export const answerBriefly: Behaviour = ({ body }, response) => {
  if (safely(body).stream) return streamWords(['one', 'two', 'three'])({ body } as Received, response)
  json(response, 200, {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: safely(body).model,
    choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
    usage: USAGE,
  })
}

export const chunkOf = (content: string, more: object = {}) =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'base', choices: [{ index: 0, delta: { content }, finish_reason: null }], ...more })}\n\n`

export const LAST_CHUNKS = `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'base', choices: [], usage: USAGE })}\n\ndata: [DONE]\n\n`

export function streamWords(words: string[]): Behaviour {
  return async (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
    for (const word of words) {
      response.write(chunkOf(word))
      await new Promise((resolve) => setImmediate(resolve))
    }
    response.end(LAST_CHUNKS)
  }
}

/** Takes the request and never says a word. */
export const hang: Behaviour = () => {}

/** Streams so many events and then breaks the connection, in the middle of one if told so. */
export function cutAfter(events: number, half = ''): Behaviour {
  return async (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (let i = 0; i < events; i++) {
      response.write(chunkOf(`word ${i}`))
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
    if (half) await new Promise<void>((resolve) => response.write(half, () => resolve()))
    await new Promise((resolve) => setTimeout(resolve, 5))
    response.socket!.destroy()
  }
}

export function fail(status: number, headers: Record<string, string> = {}): Behaviour {
  return (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    response.end(
      JSON.stringify({ error: { message: `scripted ${status}`, type: 'scripted', param: null, code: status } }),
    )
  }
}
