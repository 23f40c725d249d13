// Answers only requests that name this machine as their host. A page elsewhere whose name is made to resolve to
// 127.0.0.1 (DNS rebinding) sends its own name, and is refused before any route runs.

import type { MiddlewareHandler } from 'hono'

const LOOPBACK = /^(localhost|([a-z0-9-]+\.)*localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i

export const loopbackOnly: MiddlewareHandler = async (c, next) => {
  const host = c.req.header('host') ?? new URL(c.req.url).host
  if (LOOPBACK.test(host)) return next()
  return c.json(
    { error: `This server answers only to names of its own machine, and was asked for as ${host}: open 127.0.0.1.` },
    421,
  )
}
