// What a run folder holds that outlives the run: its adapter, its kept checkpoints, its config.

import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { JobFile } from '../engine.ts'

export async function runFiles(runs: string, run: string): Promise<JobFile[]> {
  const folder = join(runs, run)
  const files: JobFile[] = []
  const add = async (path: string, kind: JobFile['kind'], step: number) => {
    for (const entry of await readdir(path, { withFileTypes: true }).catch(() => []))
      if (entry.isFile() && !entry.name.endsWith('.partial'))
        files.push({ kind, step, name: entry.name, path: join(path, entry.name) })
  }
  await add(join(folder, 'configs'), 'config', 0)
  for (const name of await readdir(join(folder, 'checkpoints')).catch(() => [] as string[])) {
    const step = /^step_(\d+)$/.exec(name)?.[1]
    if (step === undefined) continue
    const path = join(folder, 'checkpoints', name)
    // One file is an automatic save, which comes and goes; a kept checkpoint lies beside its adapter.
    if ((await readdir(path).catch(() => [])).length > 1) await add(path, 'checkpoint', Number(step))
  }
  await add(join(folder, 'adapter'), 'adapter', 0)
  return files
}

/** Bytes of all files below a folder; 0 where there is none. */
export async function sizeOfFolder(folder: string): Promise<number> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  const sizes = await Promise.all(
    entries.map((entry) => {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) return sizeOfFolder(path)
      return stat(path).then(
        ({ size }) => size,
        () => 0,
      )
    }),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}
