// A small question to a node that is not a user's: health, models, load, adapters. Bounded in time and in size; follows no
// redirect.

import type { Pool } from 'undici'

export interface Question {
  method: 'GET' | 'POST'
  path: string
  headers: Record<string, string>
  body?: string
  timeoutSeconds: number
}

export interface Reply {
  status: number
  text: string
}

const LONGEST_REPLY = 4 * 1024 * 1024

/** Throws when the node does not answer. */
export async function ask(pool: Pool, { method, path, headers, body, timeoutSeconds }: Question): Promise<Reply> {
  const signal = AbortSignal.timeout(timeoutSeconds * 1000)
  const answer = await pool.request({ method, path, headers, body, signal })
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of answer.body as AsyncIterable<Buffer>) {
    length += piece.length
    if (length > LONGEST_REPLY) throw new Error(`${path} answered with more than ${LONGEST_REPLY} bytes`)
    pieces.push(piece)
  }
  return { status: answer.statusCode, text: Buffer.concat(pieces).toString('utf8') }
}

/** Whether no connection could be made, so that nothing was sent. */
export function isRefusedConnection(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code !== undefined && NEVER_CONNECTED.has(code)
}

const NEVER_CONNECTED = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'EADDRNOTAVAIL'],
  ...['EREFUSEDADDRESS', 'UND_ERR_CONNECT_TIMEOUT', 'ERR_TLS_CERT_ALTNAME_INVALID', 'DEPTH_ZERO_SELF_SIGNED_CERT'],
  ...['SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'CERT_HAS_EXPIRED'],
])

/** What went wrong with a connection, in a few words for people. */
export function trouble(error: unknown): string {
  const { code, name, message } = error as NodeJS.ErrnoException
  switch (code) {
    case 'ECONNREFUSED':
      return 'it refused the connection'
    case 'ECONNRESET':
    case 'EPIPE':
    case 'UND_ERR_SOCKET':
      return 'the connection was lost'
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'its name could not be resolved'
    case 'UND_ERR_CONNECT_TIMEOUT':
      return 'no connection was made in time'
  }
  if (name === 'TimeoutError' || name === 'AbortError') return 'it did not answer in time'
  return message || code || name
}
