// Cross-origin isolation (threads in wasm ask for it) and other headers that every answer carries.

import type { MiddlewareHandler } from 'hono'

export const isolation: MiddlewareHandler = async (c, next) => {
  await next()
  c.header('Cross-Origin-Opener-Policy', 'same-origin')
  c.header('Cross-Origin-Embedder-Policy', 'require-corp')
  c.header('Cross-Origin-Resource-Policy', 'same-origin')
  c.header('X-Content-Type-Options', 'nosniff')
  c.header('Referrer-Policy', 'no-referrer')
}
