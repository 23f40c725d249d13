// Cross-origin isolation, which threads in wasm ask for, and other headers that every answer carries.

import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { MiddlewareHandler } from 'hono'

export const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Resource-Policy': 'same-origin',
}

const HEADERS = Object.entries({
  ...ISOLATION,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  // Ports are no border to a cookie: a page of another one must not lay ours under its own buttons.
  'Content-Security-Policy': "frame-ancestors 'none'",
})

export const isolation: MiddlewareHandler = async (c, next) => {
  await next()
  // Written past the router, as the proxy's are: headers of its own, and gone already.
  if (c.res === RESPONSE_ALREADY_SENT) return
  try {
    for (const [name, value] of HEADERS) c.res.headers.set(name, value)
  } catch {
    // An answer of fetch, whose headers are fixed: as a copy.
    for (const [name, value] of HEADERS) c.header(name, value)
  }
}
