// The whole server in front of the node whose URL is its argument: log, metrics, keys in its database, and then the proxy.
// Prints its port, and on SIGUSR2 a key.

import { mkdirSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { configSchema } from '../../server/config.ts'
import { ConfigFile } from '../../server/configFile.ts'
import { DOOR_FILE, serve } from '../../server/main.ts'

const folder = mkdtempSync(join(tmpdir(), 'rollout-lab-bench-'))
mkdirSync(join(folder, 'web'))
const config = configSchema.parse({
  // A line for each request, to a file.
  log: { level: 'info', file: join(folder, 'log') },
  proxy: { own_models: false },
  node: process.argv.slice(2).map((url, i) => ({ name: `node-${i}`, url, max_in_flight: 2000 })),
})
const { url } = await serve({
  webRoot: join(folder, 'web'),
  port: 0,
  runs: { root: folder, data: join(folder, 'data'), local: null },
  config: new ConfigFile(null, config),
})
process.on('SIGUSR2', async () => {
  const door = JSON.parse(readFileSync(join(folder, 'data', DOOR_FILE), 'utf8'))
  const made = await fetch(`${url}api/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${door.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: `bench-${Date.now()}`, project: 'bench', scopes: ['infer'] }),
  })
  process.stdout.write(`${((await made.json()) as { key: string }).key}\n`)
})
process.on('SIGINT', () => process.exit())
process.stdout.write(`${new URL(url).port}\n`)
