// Before any test: starts what is there and ends it again. What cannot be started on this machine at all, as for want of a
// permission, is said here in a sentence, and its tests are skipped; where it is required, nothing is run.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { SlurmClient } from '../../../server/engines/slurm/client.ts'
import { tokenSource } from '../../../server/engines/slurm/token.ts'
import type { MachineFolder } from './machine.ts'
import { missingForRay, startRay } from './ray.ts'
import { missingForSlurm, type SlurmHost, startSlurm } from './slurm.ts'
import { until } from './until.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Why its tests are skipped; null where they are run. */
    slurmMissing: string | null
    rayMissing: string | null
    /** The folder of a Debian with a newer Slurm; null where none was asked for. */
    newerSlurm: string | null
  }
}

export default async function setup({ provide }: TestProject): Promise<void> {
  const newer = process.env.CLUSTER_NEWER || null
  const slurm = missingForSlurm() ?? (await started(() => slurmWithAJob('')))
  provide('slurmMissing', told('slurm', slurm))
  provide('rayMissing', told('ray', missingForRay() ?? (await started(startRay))))
  const newerSays = newer && (await started(() => slurmWithAJob(newer)))
  if (newer) told('newer', newerSays)
  provide('newerSlurm', newerSays === null ? newer : null)
}

/** One that comes up, and on whose node a job of another user runs. */
async function slurmWithAJob(machine: MachineFolder): Promise<SlurmHost> {
  const host = await startSlurm({ nodes: 1, machine })
  try {
    const client = new SlurmClient({ url: host.url, user: host.user, token: tokenSource(host) })
    const id = await client.submit({
      ...{ script: '#!/bin/sh\nsrun true\n', name: 'probe', comment: 'probe', nodes: 1, tasksPerNode: 1 },
      ...{ exclusive: false, hold: false, requeue: false, workingDirectory: host.shared },
      ...{ output: join(host.shared, 'probe.log'), environment: { PATH: '/usr/bin:/bin', SLURM_CONF: host.conf } },
    })
    await until(async () => (await client.job(id))?.endedAt != null, 'a job ends')
    const job = await client.job(id)
    if (job?.state === 'COMPLETED') return host
    const said = await readFile(join(host.shared, 'probe.log'), 'utf8').catch(() => '')
    throw new Error(`A job ended as ${job?.state} (${job?.reason}): ${said}`)
  } catch (error) {
    await host.stop()
    throw error
  }
}

async function started(start: () => Promise<{ stop(): Promise<void> }>): Promise<string | null> {
  try {
    await (await start()).stop()
    return null
  } catch (error) {
    // A program that failed has said why on its last line.
    const { message, stderr } = error as Error & { stderr?: string }
    return `it cannot be started here. ${stderr?.trim().split('\n').at(-1) || message}`
  }
}

function told(name: string, missing: string | null): string | null {
  process.stdout.write(`${name}: ${missing === null ? 'starts' : `SKIPPED, ${missing.replace(/\s+/g, ' ').trim()}`}\n`)
  if (missing !== null && (process.env.CLUSTER_REQUIRE ?? '').split(',').includes(name))
    throw new Error(`${name} is required, and cannot be tested: ${missing}`)
  return missing
}
