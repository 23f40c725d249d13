// One request to the server that sent this page, with the browser's cookie, and its refusal as a sentence.

import { onServer } from '../served.ts'

/** What the server said no to, and how. Status 0: it did not answer. */
export class ServerRefusal extends Error {
  readonly status: number

  constructor(status: number, sentence: string) {
    super(sentence)
    this.status = status
  }
}

let signedOut: () => void = () => {}

/** Called whenever the server does not know who asks. */
export function whenSignedOut(listener: () => void): void {
  signedOut = listener
}

export async function ask<Answer>(path: string | URL, init: RequestInit = {}): Promise<Answer> {
  const response = await reach(path, init)
  return (response.status === 204 ? undefined : await response.json()) as Answer
}

/** @throws ServerRefusal with the server's own sentence */
export async function reach(path: string | URL, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(onServer(String(path)), { credentials: 'same-origin', ...init }).catch(
    (error: Error) => {
      if (error.name === 'AbortError') throw error
      throw new ServerRefusal(0, 'The server did not answer. Is it still running?')
    },
  )
  if (response.ok) return response
  if (response.status === 401) signedOut()
  throw new ServerRefusal(response.status, await refusalOf(response))
}

export function json(body: unknown, init: RequestInit = {}): RequestInit {
  return {
    method: 'POST',
    ...init,
    headers: { 'content-type': 'application/json', ...init.headers },
    body: JSON.stringify(body),
  }
}

/** Our routes say { error: sentence }, those of OpenAI { error: { message } }. */
async function refusalOf(response: Response): Promise<string> {
  const body = (await response.json().catch(() => null)) as { error?: string | { message?: string } } | null
  const error = body?.error
  const sentence = typeof error === 'string' ? error : error?.message
  return sentence ?? `The server answered with ${response.status} at ${new URL(response.url).pathname}.`
}
