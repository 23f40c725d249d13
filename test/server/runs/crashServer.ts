// The program of a server that is to be killed: runs and their routes on a port, with nobody asked who they are. Prints
// its address. Built into one file (../engines/standInProgram.ts).

import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { createApp } from '../../../server/app.ts'
import { openServerRuns, type RunsSetup } from '../../../server/runs/setup.ts'

const setup = JSON.parse(process.argv[2]) as RunsSetup
const runs = await openServerRuns(setup)
const server = createAdaptorServer({ fetch: createApp({ webRoot: setup.data, runs: runs.runs }).fetch })
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}/\n`)
})
process.on('SIGTERM', async () => {
  await runs.close()
  process.exit(0)
})
