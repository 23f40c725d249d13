// The proxy's routes: OpenAI's, which are written past the router, and those under /api/proxy about the proxy itself.

import { randomUUID } from 'node:crypto'
import type { HttpBindings } from '@hono/node-server'
import { type Context, Hono, type MiddlewareHandler } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { z } from 'zod'
import { requestIdOf } from './headers.ts'
import type { ModelProxy } from './proxy.ts'
import { Refusal } from './refusal.ts'
import { ROUTES, routeOf } from './routes.ts'
import { toCsv } from './usage.ts'

/** Who asks. `key` is an id or a name, never the key itself. */
export interface Principal {
  key: string
  project: string
  scopes: readonly string[]
  /** Aborts when the right to answers ends. */
  ended?: AbortSignal
}

export interface ProxyEnv {
  Bindings: HttpBindings
  Variables: { principal: Principal; requestId?: string }
}

/** Lets through who has the scope, with `principal` set; answers anybody else. */
export type Guard = (scope: 'infer' | 'operator') => MiddlewareHandler<ProxyEnv>

/** `/v1/…`, `/tokenize` and `/detokenize`. */
export function openAIRoutes(proxy: ModelProxy, guard: Guard) {
  const app = new Hono<ProxyEnv>()
  const infer = guard('infer')
  for (const { method, path } of ROUTES) {
    if (method === 'GET') app.get(path, infer, (c) => c.json(proxy.models(c.var.principal.project)))
    else app.post(path, infer, (c) => pass(c, proxy))
  }
  app.onError(asJson)
  app.all('/v1/*', (c) => asJson(nothingAt(c), c))
  return app
}

/** `/nodes`, `/queue`, `/adapters`, `/usage` and `/metrics`, to be mounted under /api/proxy. */
export function proxyRoutes(proxy: ModelProxy, guard: Guard) {
  const infer = guard('infer')
  const operator = guard('operator')
  const app = new Hono<ProxyEnv>()
    .get('/nodes', infer, (c) => c.json({ nodes: proxy.fleet.nodes.map((node) => node.view()) }))
    .get('/queue', infer, (c) => c.json(proxy.fleet.queue.view()))
    .post('/nodes/:name/drain', operator, (c) => c.json(drain(proxy, c.req.param('name'), true)))
    .post('/nodes/:name/undrain', operator, (c) => c.json(drain(proxy, c.req.param('name'), false)))
    .get('/adapters', infer, (c) => c.json({ adapters: proxy.adapters?.view(c.var.principal.project) ?? [] }))
    .post('/adapters', operator, bodyLimit({ maxSize: LARGEST_CONFIG, onError: largeConfig }), async (c) => {
      const parsed = newAdapter.safeParse(await c.req.json().catch(() => null))
      if (!parsed.success)
        throw new Refusal(
          400,
          'invalid_request',
          `An adapter is { name, base?, config }: ${parsed.error.issues[0].message}.`,
        )
      const id = desk(proxy).announce({ ...parsed.data, project: c.var.principal.project })
      return c.json({ id, upload: `/api/proxy/adapters/${id}/weights` }, 201)
    })
    .put('/adapters/:id/weights', operator, async (c) => {
      const weights = c.req.raw.body
      if (!weights) throw new Refusal(400, 'no_weights', 'The body has to be adapter_model.safetensors.')
      const bytes = weights as unknown as AsyncIterable<Uint8Array>
      return c.json(await desk(proxy).receive(c.req.param('id'), c.var.principal.project, bytes), 201)
    })
    .delete('/adapters/:id', operator, async (c) => {
      await desk(proxy).remove(c.req.param('id'), c.var.principal.project)
      return c.body(null, 204)
    })
    .get('/usage', infer, async (c) => {
      const { key, scopes } = c.var.principal
      const { from, to, key: asked, project } = c.req.query()
      const all = scopes.includes('operator')
      const today = new Date().toISOString().slice(0, 10)
      const query = { from: day('from', from ?? today), to: day('to', to ?? today), key: all ? asked : key, project }
      const usage = await proxy.usage.read(query)
      if (c.req.query('format') !== 'csv') return c.json({ usage })
      const name = `usage-${query.from}-${query.to}.csv`
      return c.body(toCsv(usage), 200, {
        'Content-Type': 'text/csv; charset=utf-8',
        'Content-Disposition': `attachment; filename="${name}"`,
      })
    })
    .get('/metrics', operator, async (c) => {
      const { registry } = proxy.telemetry
      return c.body(await registry.metrics(), 200, { 'Content-Type': registry.contentType })
    })
  app.onError(asJson)
  return app
}

const LARGEST_CONFIG = 256 * 1024
const newAdapter = z.strictObject({ name: z.string(), base: z.string().min(1).optional(), config: z.unknown() })

function largeConfig(): never {
  throw new Refusal(413, 'too_large', `adapter_config.json is larger than ${LARGEST_CONFIG} bytes.`)
}

function desk({ adapters }: ModelProxy) {
  if (!adapters) throw new Refusal(501, 'no_adapters', 'This server keeps no adapters.')
  return adapters
}

async function pass(c: Context<ProxyEnv>, proxy: ModelProxy): Promise<Response> {
  const { incoming, outgoing } = c.env ?? {}
  if (!incoming || !outgoing || !('socket' in outgoing))
    throw new Refusal(500, 'internal', 'The proxy answers requests of an HTTP/1.1 server of Node alone.')
  const route = routeOf(incoming.method!, incoming.url!)
  if (!route) throw nothingAt(c)
  const { key, project, ended } = c.var.principal
  const id = c.var.requestId ?? requestIdOf(incoming.headers) ?? randomUUID()
  await proxy.forward(route, incoming as never, outgoing as never, { key, project, ended }, id)
  // The adapter writes what it is given: middleware may make another Response of ours, so the answer itself refuses.
  outgoing.writeHead = () => outgoing as never
  return new Response(null, { status: outgoing.statusCode })
}

function drain(proxy: ModelProxy, name: string, draining: boolean) {
  const node = proxy.fleet.node(name)
  if (!node) throw new Refusal(404, 'node_not_found', `There is no node ${name}.`)
  node.setDraining(draining)
  proxy.fleet.queue.pump()
  return node.view()
}

function day(name: string, text: string): string {
  if (/^\d{4}-\d\d-\d\d$/.test(text)) return text
  throw new Refusal(400, 'invalid_day', `${name} has to be a day such as 2026-11-21.`, { param: name })
}

function nothingAt(c: Context) {
  return new Refusal(404, 'not_found', `There is nothing at ${c.req.method} ${c.req.path} here.`)
}

function asJson(error: Error, c: Context) {
  if (!(error instanceof Refusal)) {
    console.error(error)
    error = new Refusal(500, 'internal', `The server failed at ${c.req.method} ${c.req.path}.`)
  }
  const { view, status, headers } = error as Refusal
  return c.json(view, status as 400, headers)
}
