// Puts the app on a port of this machine, the next free one when it is taken. Knows nothing of routes.

import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { createApp } from './app.ts'
import { openServerRuns, type RunsSetup, type ServerRuns } from './runs/setup.ts'

const HOST = '127.0.0.1'
const PORTS_TRIED = 50

export interface Serving {
  url: string
  /** Stops accepting, ends what is open, and resolves when the port is free again. */
  close(): Promise<void>
}

export interface ServeOptions {
  webRoot: string
  /** 0 takes any free one. */
  port: number
  /** Where runs are kept and what computes them; without it the server shows the page alone. */
  runs?: RunsSetup
}

export async function serve(options: ServeOptions): Promise<Serving> {
  const runs = options.runs ? await openServerRuns(options.runs) : null
  try {
    return await listen(options, runs)
  } catch (error) {
    await runs?.close()
    throw error
  }
}

async function listen(options: ServeOptions, runs: ServerRuns | null): Promise<Serving> {
  const server = createAdaptorServer({ fetch: createApp({ webRoot: options.webRoot, runs: runs?.runs }).fetch })
  const listen = (port: number) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, HOST, () => {
        server.off('error', reject)
        resolve()
      })
    })
  for (let port = options.port; ; port++) {
    try {
      await listen(port)
      break
    } catch (error) {
      const taken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
      if (!taken) throw error
      if (port + 1 >= Math.min(options.port + PORTS_TRIED, 65536))
        throw new Error(`No free port from ${options.port} to ${port} on ${HOST}: give another with --port.`)
    }
  }
  return {
    url: `http://${HOST}:${(server.address() as AddressInfo).port}/`,
    async close() {
      await new Promise<void>((resolve) => {
        server.close(() => resolve())
        if ('closeAllConnections' in server) server.closeAllConnections()
      })
      await runs?.close()
    },
  }
}
