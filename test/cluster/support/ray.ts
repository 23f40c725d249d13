// A real Ray on this machine, from the virtual environment that `npm run test:cluster` makes.

import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { freePorts } from './ports.ts'
import { endProcessesOf } from './processes.mjs'
import { until } from './until.ts'

const run = promisify(execFile)

export const RAY_HOME = fileURLToPath(new URL('../../../node_modules/.cache/cluster/ray', import.meta.url))

/** Why no Ray can be started here; null where it can. */
export function missingForRay(): string | null {
  return existsSync(join(RAY_HOME, 'bin/ray')) ? null : 'npm run test:cluster has not installed Ray'
}

export interface RayHost {
  url: string
  stop(): Promise<void>
}

export async function startRay(): Promise<RayHost> {
  // On a busy machine its dashboard may miss its own deadline.
  for (let tries = 1; ; tries++) {
    // Sockets below it have names of at most 107 characters.
    const folder = await mkdtemp('/tmp/lab-ray-')
    try {
      return { url: await start(folder), stop: () => stop(folder) }
    } catch (error) {
      await stop(folder)
      if (tries === 3) throw error
    }
  }
}

async function start(folder: string): Promise<string> {
  const [port, dashboard] = await freePorts(2)
  const env = { ...process.env, RAY_USAGE_STATS_ENABLED: '0' }
  const options = [
    ...['start', '--head', `--port=${port}`, `--dashboard-port=${dashboard}`, '--dashboard-host=127.0.0.1'],
    ...['--node-ip-address=127.0.0.1', '--num-cpus=4', '--num-gpus=2', `--temp-dir=${folder}`],
    ...['--include-dashboard=true', '--disable-usage-stats', '--object-store-memory=100000000'],
  ]
  await run(join(RAY_HOME, 'bin/ray'), options, { env })
  const url = `http://127.0.0.1:${dashboard}`
  await until(async () => (await fetch(`${url}/api/version`)).ok, 'Ray answers', 90_000)
  return url
}

/** Its own processes alone: those that name its folder. */
async function stop(folder: string): Promise<void> {
  await endProcessesOf(folder)
  await rm(folder, { recursive: true, force: true, maxRetries: 5 })
}
