// Runs on this server, put together: the store's rows, the engines' jobs, and the driver between them.

import { join } from 'node:path'
import type { Engine } from '../engines/engine.ts'
import type { ArtifactStore } from '../store/artifacts/artifacts.ts'
import { DiskArtifacts } from '../store/artifacts/disk.ts'
import type { Store } from '../store/open.ts'
import { Changes, DEFAULT_LIMITS, EventFiles, type Limits, type RunsContext, type SecretsOf } from './context.ts'
import { Driver } from './driver.ts'
import { Redaction } from './redaction.ts'
import { tidy } from './room.ts'
import { Runs } from './runs.ts'

const TIDY_EVERY_MS = 60_000

export interface RunsOptions {
  store: Store
  engines: Engine[]
  /** Files below the store's folder unless given. */
  artifacts?: ArtifactStore
  limits?: Partial<Limits>
  /** Without it a run may ask for no secret sets. */
  secrets?: SecretsOf
  report?: RunsContext['report']
}

export interface OpenRuns {
  runs: Runs
  /** Stops driving; then the engines let go of their jobs, each in its way. */
  close(): Promise<void>
}

/** Takes up what an earlier server has left. */
export async function openRuns(options: RunsOptions): Promise<OpenRuns> {
  const { store, engines } = options
  const artifacts = options.artifacts ?? new DiskArtifacts(join(store.folder, 'artifacts'))
  await artifacts.check()
  const secrets = options.secrets ?? noSecrets
  const context: RunsContext = {
    store,
    artifacts,
    engines: new Map(engines.map((engine) => [engine.target, engine])),
    limits: { ...DEFAULT_LIMITS, ...options.limits },
    secrets,
    redaction: new Redaction(secrets),
    files: new EventFiles(store),
    changes: new Changes(),
    report: options.report ?? ((what, error) => console.error(`Failed at ${what}:`, error)),
  }
  const driver = new Driver(context)
  const runs = new Runs(context, driver)
  const tidyUp = () => tidy(runs).catch((error) => context.report('tidying up', error))
  await tidyUp()
  await driver.open()
  const timer = setInterval(tidyUp, TIDY_EVERY_MS)
  return {
    runs,
    async close() {
      clearInterval(timer)
      await driver.close()
      await Promise.all(engines.map((engine) => engine.close()))
    },
  }
}

const noSecrets: SecretsOf = async (_project, sets) => {
  if (sets.length > 0) throw new Error(`There are no secret sets on this server, and ${sets.join(', ')} was asked for.`)
  return {}
}
