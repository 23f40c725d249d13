// CORS for pages of listed origins, which ask with a key; cookies never cross.

import { cors } from 'hono/cors'

export function elsewhere(origins: () => readonly string[]) {
  return cors({
    origin: (origin) => (origins().includes(origin) ? origin : null),
    allowMethods: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
    allowHeaders: ['Authorization', 'Content-Type', 'Idempotency-Key', 'Last-Event-ID', 'Range', 'X-Request-Id'],
    exposeHeaders: [
      ...['Content-Disposition', 'Content-Range', 'ETag', 'Idempotent-Replayed', 'Location', 'Retry-After'],
      ...['X-Attempt', 'X-End', 'X-Next-Offset', 'X-Request-Id'],
    ],
    maxAge: 600,
  })
}
