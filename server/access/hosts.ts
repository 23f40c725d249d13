// Answers only requests that name a host of ours. A page elsewhere whose name is made to resolve to this machine (DNS
// rebinding) sends its own name, and is refused before any route runs.

import type { MiddlewareHandler } from 'hono'

const LOOPBACK = /^(localhost|([a-z0-9-]+\.)*localhost|127(\.\d{1,3}){3}|\[::1\])$/i

/** A host without its port, in lower case: `lab.example`, `127.0.0.1`, `[::1]`. Null for what is none. */
export function hostnameOf(host: string): string | null {
  return /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?$/i.exec(host)?.[1].toLowerCase() ?? null
}

export function isLoopback(hostname: string): boolean {
  return LOOPBACK.test(hostname.includes(':') && !hostname.startsWith('[') ? `[${hostname}]` : hostname)
}

/** `others` are names beyond those of this machine, asked for at each request: the list may change. */
export function answersTo(others: () => readonly string[]): MiddlewareHandler {
  return async (c, next) => {
    const host = c.req.header('host') ?? new URL(c.req.url).host
    const hostname = hostnameOf(host)
    if (hostname && (isLoopback(hostname) || others().includes(hostname))) return next()
    const error = others().length
      ? `This server was asked for as ${host}, which is not on its list: open ${others()[0]}, or add the name to server.hosts.`
      : `This server answers only to names of its own machine, and was asked for as ${host}: open 127.0.0.1.`
    return c.json({ error }, 421)
  }
}
