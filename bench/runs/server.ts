// The server of runs.mjs: jobs that only tell, so that what is measured is the following of them.

import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { createApp } from '../../server/app.ts'
import { openServerRuns } from '../../server/runs/setup.ts'
import { ScriptedEngine } from '../../test/server/runs/scriptedEngine.ts'

const [root, data, script] = process.argv.slice(2)
const engine = new ScriptedEngine(JSON.parse(script))
const runs = await openServerRuns({ root, data, local: null, engines: async () => [engine] })
const server = createAdaptorServer({ fetch: createApp({ webRoot: data, runs: runs.runs }).fetch })
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}/\n`)
})
process.on('SIGINT', () => process.exit(0))
