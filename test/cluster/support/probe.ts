// Before any test: starts what is there and ends it again. What cannot be started on this machine at all, as for want of a
// permission, is said here in a sentence, and its tests are skipped; where it is required, nothing is run.

import type { TestProject } from 'vitest/node'
import { missingForRay, startRay } from './ray.ts'
import { missingForSlurm, startSlurm } from './slurm.ts'

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
  const slurm = missingForSlurm() ?? (await started(() => startSlurm({ nodes: 1 })))
  provide('slurmMissing', told('slurm', slurm))
  provide('rayMissing', told('ray', missingForRay() ?? (await started(startRay))))
  const newerSays = newer && (await started(() => startSlurm({ nodes: 1, machine: newer })))
  if (newer) told('newer', newerSays)
  provide('newerSlurm', newerSays === null ? newer : null)
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
  process.stdout.write(`${name}: ${missing === null ? 'starts' : `SKIPPED, ${missing}`}\n`)
  if (missing !== null && (process.env.CLUSTER_REQUIRE ?? '').split(',').includes(name))
    throw new Error(`${name} is required, and cannot be tested: ${missing}`)
  return missing
}
