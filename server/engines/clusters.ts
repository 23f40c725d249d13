// The clusters of server.toml as engines, and their check before anybody submits a run.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Engine } from './engine.ts'
import { FullSizeEngine, type FullSizeOptions } from './primeRl/engine.ts'
import { type CheckResult, checkCluster } from './primeRl/preflight.ts'
import type { Scheduler } from './primeRl/scheduler.ts'
import type { RayTable } from './ray/config.ts'
import { RayScheduler } from './ray/scheduler.ts'
import type { SlurmTable } from './slurm/config.ts'
import { SlurmScheduler } from './slurm/scheduler.ts'

export interface ClusterTables {
  slurm?: SlurmTable
  ray?: RayTable
}

interface Cluster {
  scheduler: Scheduler
  options: FullSizeOptions
}

/** `data` is the server's own folder, `root` that of package.json. */
export function openClusters(tables: ClusterTables, data: string, root: string): Engine[] {
  return clustersOf(tables, data, root).map(({ scheduler, options }) => new FullSizeEngine(scheduler, options))
}

/** Sentences about what works and what does not, with the mend; a small job runs on each cluster. */
export async function checkClusters(tables: ClusterTables, data: string, root: string): Promise<CheckResult[]> {
  const results: CheckResult[] = []
  for (const { scheduler, options } of clustersOf(tables, data, root)) {
    try {
      results.push(...(await checkCluster(scheduler, options)))
    } finally {
      await scheduler.close()
    }
  }
  return results
}

function clustersOf({ slurm, ray }: ClusterTables, data: string, root: string): Cluster[] {
  const clusters: Cluster[] = []
  if (slurm) {
    const { url, user, key_file: keyFile, partition, account, time_limit: timeLimit, exclusive, restart, path } = slurm
    const scheduler = new SlurmScheduler({
      ...{ url: url.replace(/\/$/, ''), user, keyFile, partition, account, timeLimit, exclusive, restart, path },
    })
    clusters.push({ scheduler, options: optionsOf(slurm, 'slurm', data, root) })
  }
  if (ray) {
    const {
      url,
      token_file: file,
      allow_without_token: allowWithoutToken,
      cpus,
      grace_seconds: graceSeconds,
      path,
    } = ray
    const token = file === undefined ? undefined : readFileSync(file, 'utf8').trim()
    const scheduler = new RayScheduler({
      ...{ url: url.replace(/\/$/, ''), token, allowWithoutToken, cpus, graceSeconds, path },
    })
    clusters.push({ scheduler, options: optionsOf(ray, 'ray', data, root) })
  }
  return clusters
}

function optionsOf(table: SlurmTable | RayTable, name: string, data: string, root: string): FullSizeOptions {
  return {
    ...{ folder: join(data, name), runsRoot: table.runs_root, project: table.project, command: table.command },
    ...{ owner: table.owner ?? null, models: join(root, 'models'), environment: table.environment },
    ...{ environments: table.environments ?? null, graceSeconds: table.grace_seconds },
    pricePerGpuHour: table.price_per_gpu_hour,
  }
}
