// The proxy as the server mounts it, in front of the nodes whose URLs are its arguments. Prints its port; on SIGUSR2 its
// largest resident set in MB.

import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { Hono } from 'hono'
import { AdapterDesk } from '../../server/proxy/adapters/desk.ts'
import { AdaptersInMemory } from '../../server/proxy/adapters/store.ts'
import { nodeSchema, proxySchema } from '../../server/proxy/config.ts'
import { type Guard, openAIRoutes, proxyRoutes } from '../../server/proxy/http.ts'
import { ModelProxy } from '../../server/proxy/proxy.ts'
import { UsageInMemory } from '../../server/proxy/usage.ts'

const guard: Guard = () => (c, next) => {
  c.set('principal', { key: 'bench', project: 'bench', scopes: ['infer', 'operator'] })
  return next()
}
const folder = process.env.ADAPTERS
const proxy = new ModelProxy({
  config: proxySchema.parse(JSON.parse(process.env.PROXY ?? '{}')),
  ...(folder && { adapters: await AdapterDesk.open(new AdaptersInMemory(), folder, 1e9) }),
  nodes: process.argv.slice(2).map((url, i) =>
    nodeSchema.parse({
      name: `node-${i}`,
      url,
      max_in_flight: 2000,
      ...(folder && { adapter_root: { server: folder, node: folder } }),
    }),
  ),
  usage: new UsageInMemory(),
})
const app = new Hono()
app.route('/', openAIRoutes(proxy, guard))
app.route('/api/proxy', proxyRoutes(proxy, guard))
const server = createAdaptorServer({ fetch: app.fetch })
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`))
process.on('SIGUSR2', () => {
  const [, kB] = readFileSync('/proc/self/status', 'utf8').match(/VmHWM:\s+(\d+) kB/) ?? []
  process.stdout.write(`${Math.round(Number(kB) / 1024)}\n`)
})
process.on('SIGINT', () => process.exit())
