// Which headers go to a node and which come back from one. Both are lists: what is not on them stays behind.

import type { IncomingHttpHeaders } from 'node:http'

/** A header's value as one text. */
export const one = (value: string | string[] | undefined) => (Array.isArray(value) ? value[0] : value) ?? ''

export const isJson = (type: string) => /^application\/(.+\+)?json\b/i.test(type)
export const isEventStream = (type: string) => /^text\/event-stream\b/i.test(type)

const ID = /^[A-Za-z0-9._:-]{1,128}$/
const TRACE = /^[A-Za-z0-9=,;:@/_*.% -]{1,512}$/

/** The caller's own request id when it is fit to be written anywhere, else null. */
export function requestIdOf(headers: IncomingHttpHeaders): string | null {
  const given = headers['x-request-id']
  return typeof given === 'string' && ID.test(given) ? given : null
}

/** A session's name, null when none is given. Longer ones and odd characters are taken as they are: it is only hashed. */
export function sessionOf(headers: IncomingHttpHeaders, name: string): string | null {
  return one(headers[name]) || null
}

/** Never the caller's Authorization or cookies, nor anything that speaks of the way it came. */
export function toNode(headers: IncomingHttpHeaders, id: string, authorization: Record<string, string>) {
  const sent: Record<string, string> = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'x-request-id': id,
    ...authorization,
  }
  for (const name of ['traceparent', 'tracestate']) {
    const value = headers[name]
    if (typeof value === 'string' && TRACE.test(value)) sent[name] = value
  }
  return sent
}

export interface Told {
  id: string
  node: string
  attempts: number
  lastResort: boolean
}

/** The head of an answer that a node gave, as name and value in turn. `length` null for one that is not known whole. */
export function toClient(
  headers: Record<string, string | string[] | undefined>,
  length: number | null,
  { id, node, attempts, lastResort }: Told,
): string[] {
  const type = one(headers['content-type'])
  const stream = isEventStream(type)
  const told = [
    'Content-Type',
    // Never a type that a page would run.
    stream ? 'text/event-stream; charset=utf-8' : isJson(type) ? 'application/json' : 'text/plain; charset=utf-8',
    'x-request-id',
    id,
    'x-rollout-lab-node',
    node,
    'x-rollout-lab-attempts',
    String(attempts),
    'Cache-Control',
    'no-store',
    ...EVERYWHERE,
  ]
  if (length !== null) told.push('Content-Length', String(length))
  if (stream) told.push('X-Accel-Buffering', 'no')
  if (lastResort) told.push('x-rollout-lab-last-resort', '1')
  const retryAfter = one(headers['retry-after'])
  if (/^\d{1,6}$/.test(retryAfter)) told.push('Retry-After', retryAfter)
  return told
}

/** What every answer of this server carries; an answer that is written past the router has to bring it along. */
export const EVERYWHERE = ['X-Content-Type-Options', 'nosniff', 'Cross-Origin-Resource-Policy', 'same-origin']
