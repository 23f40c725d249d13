// A line and a count for every request. Of the request: its method, the pattern of its route, who asked. Never its query,
// headers or body.

import type { ServerResponse } from 'node:http'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { MiddlewareHandler } from 'hono'
import { routePath } from 'hono/route'
import { addressOf } from '../access/address.ts'
import type { Principal } from '../access/principal.ts'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'

interface WatchedEnv {
  Variables: { requestId: string; principal?: Principal }
}

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

export function watching(log: Log, metrics: Metrics): MiddlewareHandler<WatchedEnv> {
  return async (c, next) => {
    const begun = performance.now()
    metrics.opened()
    outgoingOf(c.env)?.once('close', () => metrics.closed())
    await next()
    const ms = performance.now() - begun
    // Of an answer that was written past the router, the socket knows.
    const status = c.res === RESPONSE_ALREADY_SENT ? (outgoingOf(c.env)?.statusCode ?? 200) : c.res.status
    const method = METHODS.has(c.req.method) ? c.req.method : 'other'
    const pattern = routePath(c)
    const route = status === 404 && pattern.endsWith('*') ? 'nothing' : pattern
    metrics.answered(method, route, status, ms / 1000)
    if (!outgoingOf(c.env)) metrics.closed()
    const level = status >= 500 ? 'error' : 'info'
    if (!log.isLevelEnabled(level)) return
    const { key, project } = c.get('principal') ?? {}
    const fields = { request: c.get('requestId'), method, route, status, ms: Math.round(ms * 10) / 10, key, project }
    log[level]({ ...fields, address: addressOf(c) }, 'answered')
  }
}

/** The answer as Node knows it; undefined in a test without a port. */
function outgoingOf(env: unknown): ServerResponse | undefined {
  return (env as { outgoing?: ServerResponse } | undefined)?.outgoing
}
