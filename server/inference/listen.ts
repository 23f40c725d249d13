// The model server on a port of its own, of this machine alone, behind a key that is made at the start and told to nobody
// but the caller: as a node for the proxy, or for a test.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { Hono } from 'hono'
import { errorBody, Refused } from './errors.ts'
import { createInference, type InferenceOptions } from './index.ts'

const HOST = '127.0.0.1'
/** What a health check asks, without a key on vLLM too. */
const OPEN = new Set(['/health', '/metrics', '/version'])

export interface InferenceNode {
  /** `http://127.0.0.1:PORT` */
  url: string
  /** To be sent as `Authorization: Bearer`. */
  key: string
  close(): Promise<void>
}

/** `port` 0 takes any free one. */
export async function listenAsNode(
  options: InferenceOptions & { port?: number; key?: string },
): Promise<InferenceNode> {
  const { port = 0, key = randomBytes(32).toString('base64url'), ...rest } = options
  const inference = createInference(rest)
  const digest = (text: string) => createHash('sha256').update(text).digest()
  const wanted = digest(`Bearer ${key}`)
  const app = new Hono()
  app.use(async (c, next) => {
    if (OPEN.has(c.req.path) || timingSafeEqual(digest(c.req.header('authorization') ?? ''), wanted)) return next()
    return c.json(errorBody(new Refused(401, 'This model server asks for its key.')), 401)
  })
  app.route('/', inference.app)
  const server = createAdaptorServer({ fetch: app.fetch })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, HOST, resolve)
  })
  return {
    url: `http://${HOST}:${(server.address() as AddressInfo).port}`,
    key,
    async close() {
      await new Promise<void>((resolve) => {
        server.close(() => resolve())
        if ('closeAllConnections' in server) server.closeAllConnections()
      })
      await inference.close()
    },
  }
}
