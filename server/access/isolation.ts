// Cross-origin isolation, which threads in wasm ask for, and other headers that every answer carries.

import type { MiddlewareHandler } from 'hono'

export const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Resource-Policy': 'same-origin',
}

export const isolation: MiddlewareHandler = async (c, next) => {
  await next()
  for (const [name, value] of Object.entries(ISOLATION)) c.header(name, value)
  c.header('X-Content-Type-Options', 'nosniff')
  c.header('Referrer-Policy', 'no-referrer')
}
