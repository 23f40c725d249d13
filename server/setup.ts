// From server.toml to what runs need: nothing here decides anything.

import { reachOf } from './access/config.ts'
import type { ServerConfig } from './config.ts'
import { openClusters } from './engines/clusters.ts'
import type { RunsSetup } from './runs/setup.ts'
import { artifactsOf } from './store/artifacts/config.ts'
import { databaseOf } from './store/config.ts'

/** `root` is the folder of package.json; the config's paths are whole already. */
export function runsSetup(config: ServerConfig, root: string): RunsSetup {
  const { server, store, runs, local } = config
  const { folder } = store
  if (folder === undefined) throw new Error('The config names no data folder: give [store] folder.')
  return {
    root,
    data: folder,
    database: databaseOf(store),
    artifacts: artifactsOf(config.artifacts),
    loopback: reachOf(server) === 'loopback',
    limits: {
      keepDays: runs.keep_days ?? null,
      keepBytes: runs.keep_bytes ?? null,
      projectBytes: runs.project_bytes ?? null,
      freeBytes: runs.free_bytes,
    },
    engines: async ({ folder: data }) => openClusters(config, data, root),
    local:
      local.max_runs === 0
        ? null
        : {
            maxRuns: local.max_runs,
            maxSeconds: local.max_seconds ?? null,
            memoryBytes: local.memory_bytes ?? null,
            graceSeconds: local.grace_seconds,
            models: local.models,
          },
  }
}
