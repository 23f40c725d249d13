// CORS for pages of listed origins, which ask with a key; cookies never cross.

import type { ServerResponse } from 'node:http'
import type { HttpBindings } from '@hono/node-server'
import type { MiddlewareHandler } from 'hono'
import { cors } from 'hono/cors'

export function elsewhere(origins: () => readonly string[]): MiddlewareHandler {
  const listed = cors({
    origin: (origin) => (origins().includes(origin) ? origin : null),
    allowMethods: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
    allowHeaders: ['Authorization', 'Content-Type', 'Idempotency-Key', 'Last-Event-ID', 'Range', 'X-Request-Id'],
    exposeHeaders: [
      ...['Content-Disposition', 'Content-Range', 'ETag', 'Idempotent-Replayed', 'Location', 'Retry-After'],
      ...['X-Attempt', 'X-End', 'X-Next-Offset', 'X-Request-Id'],
    ],
    maxAge: 600,
  })
  return (c, next) => {
    if (origins().length === 0) return next()
    const origin = c.req.header('origin')
    const outgoing = (c.env as Partial<HttpBindings> | undefined)?.outgoing as ServerResponse | undefined
    // For answers that are written past the router, as the proxy's are.
    if (origin !== undefined && outgoing && origins().includes(origin)) {
      outgoing.setHeader('Access-Control-Allow-Origin', origin)
      outgoing.setHeader('Vary', 'Origin')
    }
    return listed(c, next)
  }
}
