// The least that a proxy on Hono can be: undici's request, its body as the answer. What the real one is measured against.
// Arguments: the node's URL. Prints its port.

import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { Hono } from 'hono'
import { Pool, fetch as undiciFetch } from 'undici'

const [url] = process.argv.slice(2)
const pool = new Pool(url, { headersTimeout: 0, bodyTimeout: 0 })
const app = new Hono()
// The faster of two ways to write it, and the usual one.
if (process.env.BARE === 'fetch') {
  app.post('/v1/chat/completions', async (c) => {
    const answer = await undiciFetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: c.req.raw.body as never,
      duplex: 'half',
      dispatcher: pool,
      signal: c.req.raw.signal,
    })
    return new Response(answer.body as never, {
      status: answer.status,
      headers: { 'content-type': answer.headers.get('content-type')! },
    })
  })
} else {
  app.post('/v1/chat/completions', async (c) => {
    const answer = await pool.request({
      method: 'POST',
      path: '/v1/chat/completions',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(await c.req.arrayBuffer()),
    })
    return new Response(answer.body as never, {
      status: answer.statusCode,
      headers: { 'content-type': String(answer.headers['content-type']) },
    })
  })
}
const server = createAdaptorServer({ fetch: app.fetch })
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`))
