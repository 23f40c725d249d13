// Puts the server together and on a port: the next free one when it is taken on this machine. Knows nothing of routes.

import { constants } from 'node:fs'
import { access as canAccess, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, isIP } from 'node:net'
import { join } from 'node:path'
import { createAdaptorServer } from '@hono/node-server'
import { Access } from './access/access.ts'
import { createApp, type Guarded } from './app.ts'
import { DEFAULT_CONFIG } from './config.ts'
import { ConfigFile } from './configFile.ts'
import { Health } from './observe/health.ts'
import { type Log, openLog } from './observe/log.ts'
import { Metrics } from './observe/metrics.ts'
import { openProxy, type ServerProxy } from './proxy/setup.ts'
import { openServerRuns, type RunsSetup, type ServerRuns } from './runs/setup.ts'
import { Secrets } from './secrets/secrets.ts'
import type { Store } from './store/open.ts'

const PORTS_TRIED = 50
/** For heads that trickle, and for the largest uploads; routes have shorter times for their own bodies, ms. */
const SLOW_CLIENTS = { headersTimeout: 20_000, requestTimeout: 3_600_000, connectionsCheckingInterval: 5_000 }
/** Where a program of this machine finds the server and a key to it, in the data folder, for its owner's eyes alone. */
export const DOOR_FILE = 'server.json'

export interface Door {
  url: string
  key: string
  pid: number
}

export interface Serving {
  url: string
  /** `url` with a one-time token: opening it signs a page in. The same as `url` where there is nothing to sign in to. */
  link: string
  /** Stops accepting, lets open answers end for so many seconds, and resolves when the port is free again. */
  close(graceSeconds?: number): Promise<void>
}

export interface ServeOptions {
  webRoot: string
  /** 0 takes any free one. */
  port: number
  /** Where runs are kept and what computes them; without it the server shows the page alone. */
  runs?: RunsSetup
  /** What the operator has decided; the defaults unless given. */
  config?: ConfigFile
  log?: Log
}

export async function serve(options: ServeOptions): Promise<Serving> {
  const config = options.config ?? new ConfigFile(null, DEFAULT_CONFIG)
  const opened = options.log ? { log: options.log, flush: () => {} } : openLog(config.current.log)
  const { log } = opened
  let runs: ServerRuns | null = null
  let guarded: Guarded | null = null
  let proxy: ServerProxy | null = null
  const close = async () => {
    config.close()
    guarded?.access.close()
    await proxy?.close()
    await runs?.close()
    opened.flush()
  }
  try {
    if (options.runs) {
      const { runs: setup } = options
      let secrets: Secrets | null = null
      const secretsOf = (store: Store) => {
        secrets ??= new Secrets(store.db, keySource(config, store.folder))
        return secrets
      }
      const report = (what: string, error: unknown) => log.error({ err: error }, `failed at ${what}`)
      runs = await openServerRuns({
        report,
        ...setup,
        secrets: (store) => (project, sets) => secretsOf(store).variables(project, sets),
      })
      guarded = await guard(runs.store, config, log, report, secretsOf(runs.store))
      await refuseWithoutKeys(guarded.access)
      proxy = await openNodes(runs.store, setup.root, config)
      const { configure } = proxy
      config.onChange((changed) => configure(changed.proxy, changed.node))
      guarded.metrics.add(proxy.proxy.telemetry.registry)
    }
    config.watch(log)
    return await listen(options, config, runs, guarded, proxy, close)
  } catch (error) {
    await close()
    throw error
  }
}

async function guard(
  store: Store,
  config: ConfigFile,
  log: Log,
  report: (what: string, error: unknown) => void,
  secrets: Secrets,
): Promise<Guarded> {
  const access = await Access.open({ db: store.db, config: () => config.current, report })
  const health = new Health(log)
  health.add('store', async () => {
    await store.db.selectFrom('migration').select('name').limit(1).execute()
  })
  health.add('disk', () => canAccess(store.folder, constants.R_OK | constants.W_OK))
  config.onChange(({ log: { level } }) => {
    log.level = level
  })
  const metrics = new Metrics()
  metrics.gauge('runs', 'Runs that are kept, by their state.', 'state', async () => {
    const count = store.db.fn.countAll<number>().as('count')
    const runs = store.db.selectFrom('run').select(['state', count]).where('deleted_at', 'is', null).groupBy('state')
    return Object.fromEntries((await runs.execute()).map((row) => [row.state, Number(row.count)]))
  })
  return { access, secrets, log, metrics, health }
}

function openNodes(store: Store, root: string, config: ConfigFile): Promise<ServerProxy> {
  const { proxy, node, local } = config.current
  return openProxy({ store, config: proxy, nodes: node, own: { root, models: local.models } })
}

/** Where the key lies that seals secrets. */
function keySource(config: ConfigFile, folder: string) {
  const { key_file, key_env } = config.current.secrets
  return key_env === undefined ? { file: key_file ?? join(folder, 'secrets.key') } : { variable: key_env }
}

async function refuseWithoutKeys(access: Access) {
  if (access.reach === 'loopback' || (await access.keys.any())) return
  throw new Error(
    'This server would be reached from other machines (server.host, hosts or public_url), and nobody has a key to it: ' +
      'make the first with `rollout-lab serve --init`, or listen on 127.0.0.1.',
  )
}

async function listen(
  options: ServeOptions,
  config: ConfigFile,
  runs: ServerRuns | null,
  guarded: Guarded | null,
  proxy: ServerProxy | null,
  release: () => Promise<void>,
): Promise<Serving> {
  const app = createApp({
    webRoot: options.webRoot,
    runs: runs?.runs,
    guarded: guarded ?? undefined,
    proxy: proxy?.proxy,
  })
  const server = createAdaptorServer({ fetch: app.fetch, createServer, serverOptions: SLOW_CLIENTS }) as Server
  const { host, public_url } = config.current.server
  // A server that others know by its address does not move.
  const tries = !guarded || guarded.access.reach === 'loopback' ? PORTS_TRIED : 1
  const port = await firstFree(server, options.port, host, tries)
  // A name that means every address is none to open.
  const shown = ['0.0.0.0', '::'].includes(host) ? '127.0.0.1' : isIP(host) === 6 ? `[${host}]` : host
  const here = `http://${shown}:${port}/`
  const url = public_url ? `${public_url}/` : here
  const door = guarded && runs ? join(runs.store.folder, DOOR_FILE) : null
  if (guarded && door) await openDoor(door, { url: here, key: guarded.access.machineKey, pid: process.pid })
  guarded?.log.info({ url: here, reach: guarded.access.reach }, 'serving')
  let closed: Promise<void> | null = null
  return {
    url,
    link: guarded ? `${url}?token=${guarded.access.makeLink().token}` : url,
    close(graceSeconds = 0) {
      closed ??= (async () => {
        guarded?.health.stop()
        const ended = new Promise<void>((resolve) => server.close(() => resolve()))
        const answered = proxy?.close(graceSeconds)
        // What streams has no end of its own, and is taken up again by whoever follows it.
        guarded?.access.close()
        const idle = setInterval(() => server.closeIdleConnections(), 50)
        // A little later than answers are cut, so that they can say so.
        const late = setTimeout(() => server.closeAllConnections(), graceSeconds * 1000 + (proxy?.open ? 500 : 0))
        await Promise.all([answered, ended])
        clearInterval(idle)
        clearTimeout(late)
        if (door) await rm(door, { force: true })
        guarded?.log.info('ended')
        await release()
      })()
      return closed
    },
  }
}

async function openDoor(file: string, door: Door) {
  await rm(file, { force: true })
  await writeFile(file, JSON.stringify(door), { mode: 0o600, flag: 'wx' })
}

async function firstFree(server: Server, wanted: number, host: string, tries: number): Promise<number> {
  const listen = (port: number) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, host, () => {
        server.off('error', reject)
        resolve()
      })
    })
  for (let port = wanted; ; port++) {
    try {
      await listen(port)
      return (server.address() as AddressInfo).port
    } catch (error) {
      const taken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
      if (!taken) throw error
      if (port + 1 >= Math.min(wanted + tries, 65536)) {
        const ports = tries === 1 ? `Port ${port}` : `No port from ${wanted} to ${port}`
        throw new Error(`${ports} on ${host} is ${tries === 1 ? 'taken' : 'free'}: give another with --port.`)
      }
    }
  }
}
