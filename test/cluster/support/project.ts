// A project folder as a cluster has it: `.venv/bin/rl`, which here is the stand-in. All that a job needs lies in it: its user
// may not be able to read this repository, or the Node of whoever runs the tests.

import { execFile } from 'node:child_process'
import { chmod, copyFile, cp, mkdir, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../../../build/paths.ts'

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
    await copyFile(join(import.meta.dirname, name), join(project, name))
  await cp(join(ROOT, 'node_modules/smol-toml'), join(project, 'node_modules/smol-toml'), { recursive: true })
  const node = (await isForAll(process.execPath)) ? process.execPath : join(project, 'node')
  if (node !== process.execPath) await copyFile(process.execPath, node)
  const faultsFile = join(project, 'faults.json')
  const command = `#!/bin/sh
export STAND_IN_FAULTS='${faultsFile}'
exec '${node}' '${join(project, 'standIn.mjs')}' "$@"
`
  await writeFile(join(bin, 'rl'), command)
  await chmod(join(bin, 'rl'), 0o755)
  await promisify(execFile)('chmod', ['-R', 'go+rX', project])
  return {
    project,
    async faults(faults) {
      await rm(faultsFile, { force: true })
      await writeFile(faultsFile, JSON.stringify(faults))
    },
  }
}

/** Whether every user may run a file, and pass through each folder above it. */
async function isForAll(path: string): Promise<boolean> {
  const open = ((await stat(path)).mode & 0o001) !== 0
  return open && (path === dirname(path) || (await isForAll(dirname(path))))
}
