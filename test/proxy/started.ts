// A proxy in front of scripted nodes, on a port of its own, and ways to ask it. All that is started is stopped after each
// test.

import { once } from 'node:events'
import { request as ask, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { Hono } from 'hono'
import { afterEach } from 'vitest'
import { nodeSchema, proxySchema } from '../../server/proxy/config.ts'
import { type Guard, openAIRoutes, proxyRoutes } from '../../server/proxy/http.ts'
import { ModelProxy, type ProxyOptions } from '../../server/proxy/proxy.ts'
import { UsageInMemory } from '../../server/proxy/usage.ts'
import { type Script, ScriptedNode } from './scriptedNode.ts'

type Input = Parameters<typeof proxySchema.parse>[0]
type NodeInput = Record<string, unknown>

const stops: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop()
})

/** To be stopped after the test. */
export function stopLater(stop: () => Promise<void>) {
  stops.push(stop)
}

export async function nodes(...scripts: Partial<Script>[]): Promise<ScriptedNode[]> {
  const started = await Promise.all(scripts.map((script) => ScriptedNode.start(script)))
  for (const node of started) stopLater(() => node.die())
  return started
}

/** Keys: `user`, `other` (of another project), `operator`. Anything else is nobody. */
const guard: Guard = (scope) => async (c, next) => {
  const key = c.req.header('authorization')?.replace(/^Bearer /, '') ?? ''
  const project = { user: 'team', second: 'team', other: 'elsewhere', operator: 'team' }[key]
  if (!project)
    return c.json(
      { error: { message: 'No such key.', type: 'authentication_error', param: null, code: 'no_key' } },
      401,
    )
  const scopes = key === 'operator' ? ['infer', 'operator'] : ['infer']
  if (!scopes.includes(scope))
    return c.json({ error: { message: 'Not yours.', type: 'permission_error', param: null, code: 'scope' } }, 403)
  c.set('principal', { key, project, scopes })
  return next()
}

export interface Started {
  proxy: ModelProxy
  url: string
  server: Server
  /** Node names in the order in which they were given: a, b, c … */
  names: string[]
}

export const NAMES = [...'abcdefgh']

export const nodeConfigs = (started: readonly ScriptedNode[], more: NodeInput | NodeInput[] = {}) =>
  started.map((node, i) =>
    nodeSchema.parse({ name: NAMES[i], url: node.url, ...(Array.isArray(more) ? more[i] : more) }),
  )

/** Resolves when every node that answers has been found well. */
export async function start(
  behind: readonly ScriptedNode[],
  config: Input = {},
  more: NodeInput | NodeInput[] = {},
  options: Partial<ProxyOptions> = {},
): Promise<Started> {
  const proxy = new ModelProxy({
    config: proxySchema.parse(config),
    nodes: nodeConfigs(behind, more),
    usage: new UsageInMemory(),
    ...options,
  })
  const app = new Hono()
  app.route('/', openAIRoutes(proxy, guard))
  app.route('/api/proxy', proxyRoutes(proxy, guard))
  const server = createAdaptorServer({ fetch: app.fetch }) as Server
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  stopLater(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    proxy.fleet.cut('the test is over')
    await proxy.close()
  })
  await until(() => behind.every((node, i) => !node.answering || proxy.fleet.node(NAMES[i])!.health !== 'unknown'))
  return { proxy, server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, names: NAMES }
}

/** Waits for a condition, which has to come true. */
export async function until(condition: () => boolean | Promise<boolean>, patience = 20_000) {
  const end = Date.now() + patience
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`Waited ${patience / 1000} s in vain for ${condition}.`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

export interface Answered {
  status: number
  headers: IncomingHttpHeaders
  text: string
  /** Parsed, when it is JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: answers of many shapes
  json: any
  /** The connection broke before the answer was whole. */
  broken: boolean
}

export interface Asking {
  method?: string
  key?: string | null
  headers?: Record<string, string>
  /** Sent as it is. */
  raw?: string | Buffer
}

export const CHAT = { model: 'base', messages: [{ role: 'user', content: 'Say ok.' }] }

/** One request, with its path on the wire exactly as given. */
export function send(
  started: Started,
  path: string,
  body?: unknown,
  { method, key = 'user', headers = {}, raw }: Asking = {},
) {
  const { port } = new URL(started.url)
  const bytes = raw ?? (body === undefined ? undefined : JSON.stringify(body))
  return new Promise<Answered>((resolve, reject) => {
    const request = ask(
      {
        host: '127.0.0.1',
        port,
        path,
        method: method ?? (bytes === undefined ? 'GET' : 'POST'),
        headers: {
          ...(key !== null && { authorization: `Bearer ${key}` }),
          ...(bytes !== undefined && {
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(bytes),
          }),
          ...headers,
        },
        agent: false,
      },
      (response) => {
        const pieces: Buffer[] = []
        const done = (broken: boolean) => {
          const text = Buffer.concat(pieces).toString('utf8')
          let json: unknown
          try {
            json = JSON.parse(text)
          } catch {}
          resolve({ status: response.statusCode!, headers: response.headers, text, json, broken })
        }
        response.on('data', (piece) => pieces.push(piece))
        response.on('end', () => done(false))
        response.on('error', () => done(true))
      },
    )
    request.on('error', reject)
    request.end(bytes)
  })
}

export const chat = (started: Started, more: object = {}, asking?: Asking) =>
  send(started, '/v1/chat/completions', { ...CHAT, ...more }, asking)

export const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i))
