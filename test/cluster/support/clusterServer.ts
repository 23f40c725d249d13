// The program of a server for runs through a real Slurm and for runs that are folders, with nobody asked who they are.
// Prints its address: `node clusterServer.mjs <json>`.

import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createAdaptorServer } from '@hono/node-server'
import { createApp } from '../../../server/app.ts'
import { FullSizeEngine, type FullSizeOptions } from '../../../server/engines/primeRl/engine.ts'
import { type SlurmOptions, SlurmScheduler } from '../../../server/engines/slurm/scheduler.ts'
import { openServerRuns } from '../../../server/runs/setup.ts'
import { FolderScheduler } from './folderScheduler.ts'

export interface ClusterServerOptions {
  root: string
  data: string
  slurm: SlurmOptions
  slurmRuns: Omit<FullSizeOptions, 'folder'>
  /** Where runs that are folders lie. */
  folders: string
}

const { root, data, slurm, slurmRuns, folders } = JSON.parse(process.argv[2]) as ClusterServerOptions
const engines = async () => [
  new FullSizeEngine(new SlurmScheduler(slurm), { folder: join(data, 'slurm'), ...slurmRuns }),
  new FullSizeEngine(new FolderScheduler(), {
    ...{ folder: join(data, 'folders'), runsRoot: folders, project: '/', models: 'models' },
  }),
]
const runs = await openServerRuns({ root, data, local: null, engines })
const server = createAdaptorServer({ fetch: createApp({ webRoot: data, runs: runs.runs }).fetch })
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}/\n`)
})
process.on('SIGTERM', async () => {
  await runs.close()
  process.exit(0)
})
