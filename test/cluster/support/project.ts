// A project folder as a cluster has it: `.venv/bin/rl`, which here is the stand-in.

import { chmod, copyFile, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface Faults {
  /** Milliseconds of a step. */
  pace?: number
  /** The trainer dies in this step of prime-rl's attempt `attempt`, and the job lingers. */
  dieAt?: number
  attempt?: number
  linger?: number
  /** The last step is not begun before this file is there. */
  lastStepAfter?: string
  /** It prints, logs and answers with the secret CANARY. */
  tell?: boolean
}

export async function makeProject(folder: string): Promise<{ project: string; faults(faults: Faults): Promise<void> }> {
  const project = join(folder, 'prime-rl')
  const bin = join(project, '.venv/bin')
  await mkdir(bin, { recursive: true })
  for (const name of ['standIn.mjs', 'runFolder.mjs'])
    await copyFile(fileURLToPath(new URL(`./${name}`, import.meta.url)), join(project, name))
  const root = fileURLToPath(new URL('../../../package.json', import.meta.url))
  const faultsFile = join(project, 'faults.json')
  const command = `#!/bin/sh
export STAND_IN_ROOT='${root}' STAND_IN_FAULTS='${faultsFile}'
exec '${process.execPath}' '${join(project, 'standIn.mjs')}' "$@"
`
  await writeFile(join(bin, 'rl'), command)
  await chmod(join(bin, 'rl'), 0o755)
  return {
    project,
    async faults(faults) {
      await rm(faultsFile, { force: true })
      await writeFile(faultsFile, JSON.stringify(faults))
    },
  }
}
