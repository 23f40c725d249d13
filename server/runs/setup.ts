// A server's runs from what its operator has set up: the store, this machine as an engine, and whatever other engines
// there are.

import { join } from 'node:path'
import type { Engine } from '../engines/engine.ts'
import { LocalEngine, type LocalOptions } from '../engines/local/engine.ts'
import type { ArtifactStore } from '../store/artifacts/artifacts.ts'
import { openStore, type Store } from '../store/open.ts'
import type { Limits, SecretsOf } from './context.ts'
import { openRuns } from './open.ts'
import type { Runs } from './runs.ts'

export interface RunsSetup {
  /** The folder of package.json. */
  root: string
  /** Where all that the server keeps lies. */
  data: string
  /** `postgres://…` instead of a file in that folder. */
  database?: string | null
  artifacts?: ArtifactStore
  limits?: Partial<Limits>
  /** Whether this server is reached from this machine alone. */
  loopback?: boolean
  /** null for no runs on this machine. */
  local?: Partial<Omit<LocalOptions, 'root' | 'folder' | 'loopback'>> | null
  /** Other engines, made once the store is open. */
  engines?: (store: Store) => Promise<Engine[]>
  secrets?: (store: Store) => SecretsOf
  report?: (what: string, error: unknown) => void
}

export interface ServerRuns {
  runs: Runs
  store: Store
  close(): Promise<void>
}

export async function openServerRuns(setup: RunsSetup): Promise<ServerRuns> {
  const store = await openStore({ folder: setup.data, url: setup.database })
  try {
    const engines = (await setup.engines?.(store)) ?? []
    if (setup.local !== null) {
      const folder = join(store.folder, 'local')
      const local = { maxRuns: 1, ...setup.local, root: setup.root, folder, loopback: setup.loopback ?? true }
      engines.unshift(await new LocalEngine(local).open())
    }
    const { artifacts, limits, report } = setup
    const secrets = setup.secrets?.(store)
    const open = await openRuns({ store, engines, artifacts, limits, secrets, report })
    return {
      runs: open.runs,
      store,
      async close() {
        await open.close()
        await store.close()
      },
    }
  } catch (error) {
    await store.close()
    throw error
  }
}
