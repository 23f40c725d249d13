// Requests of the verbs about runs: sent again where there was no answer and once more does no harm.

import type { Client } from './client.ts'
import { Refusal } from './verb.ts'

const TRIES = 5
const FIRST_WAIT_MS = 300

export interface Answer<T> {
  body: T
  headers: Headers
}

/** No answer came: nobody knows whether the request did. */
export class Unreachable extends Refusal {}

export class Connection {
  readonly #client: Client

  constructor(client: Client) {
    this.#client = client
  }

  get<T>(path: string): Promise<T> {
    return this.#json<T>(path, {}, TRIES).then(({ body }) => body)
  }

  /** Sent again without an answer only under a key that makes it one request. */
  send<T>(method: string, path: string, body: unknown, idempotencyKey?: string): Promise<Answer<T>> {
    const headers: Record<string, string> = { 'content-type': 'application/json' }
    if (idempotencyKey) headers['idempotency-key'] = idempotencyKey
    return this.#json<T>(path, { method, headers, body: JSON.stringify(body) }, idempotencyKey ? TRIES : 1)
  }

  /** The answer as it comes. Throws what the server says where it refuses. */
  async fetch(path: string, init: RequestInit = {}, tries = 1): Promise<Response> {
    let unreachable = new Unreachable('')
    for (let attempt = 0; attempt < tries; attempt++) {
      if (attempt > 0) await new Promise((done) => setTimeout(done, FIRST_WAIT_MS * 2 ** (attempt - 1)))
      let response: Response
      try {
        response = await this.#client.fetch(path, init)
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        unreachable = new Unreachable(error.message)
        continue
      }
      if (response.ok) return response
      if (response.status < 502 || response.status === 507 || attempt + 1 === tries) throw await refusalOf(response)
    }
    throw unreachable
  }

  async #json<T>(path: string, init: RequestInit, tries: number): Promise<Answer<T>> {
    const response = await this.fetch(path, init, tries)
    const body = response.status === 204 ? null : await response.json()
    return { body: body as T, headers: response.headers }
  }
}

interface Problems {
  error?: string
  problems?: { sentence: string; line: number | null; column: number | null }[]
}

/** With the place of each problem of a config. */
async function refusalOf(response: Response): Promise<Refusal> {
  const answer = (await response.json().catch(() => null)) as Problems | null
  const problems = answer?.problems?.map(({ sentence, line, column }) => placed(sentence, line, column))
  return new Refusal(problems?.join('\n') ?? answer?.error ?? `The server answered ${response.status}.`)
}

export function placed(sentence: string, line: number | null, column: number | null): string {
  return line === null ? sentence : `${line}:${column}: ${sentence}`
}
