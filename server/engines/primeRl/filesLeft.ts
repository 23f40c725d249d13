// What a full-size run has left that is worth bringing home: adapters, whole and no longer written; its configs; and where
// its checkpoints lie. The checkpoints themselves are as large as the model and stay on the shared disk.

import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { JobFile } from '../engine.ts'
import { sizeOfFolder } from '../local/runFiles.ts'
import { exists, type RunLayout } from './layout.ts'

const ADAPTER = ['adapter_config.json', 'adapter_model.safetensors']

export async function filesLeft(layout: RunLayout, attempt: number, over: boolean): Promise<JobFile[]> {
  const files: JobFile[] = []
  const config = join(layout.attempt(attempt), 'config.toml')
  if (await exists(config)) files.push({ kind: 'config', step: 0, name: 'prime-rl.toml', path: config })
  const checkpoints = await layout.checkpoints()
  for (const { step, folder } of checkpoints)
    files.push({ kind: 'checkpoint', step, name: 'checkpoint.json', path: await described(layout, step, folder) })
  const broadcasts = await layout.broadcasts()
  const kept = new Set(checkpoints.map(({ step }) => step))
  for (const [i, { step, folder }] of broadcasts.entries()) {
    // While the run goes on, any but those of a checkpoint may be removed while they are read.
    const stays = kept.has(step) || (over && i === broadcasts.length - 1)
    const names = await readdir(folder).catch(() => [] as string[])
    if (!stays || !ADAPTER.every((name) => names.includes(name))) continue
    for (const name of ADAPTER) files.push({ kind: 'adapter', step, name, path: join(folder, name) })
  }
  return files
}

/** A page about a checkpoint, written once, beside the attempts. */
async function described(layout: RunLayout, step: number, folder: string): Promise<string> {
  const path = join(layout.folder, `checkpoint_${step}.json`)
  if (!(await exists(path))) {
    const about = { step, folder, bytes: await sizeOfFolder(folder), format: 'torch.distributed.checkpoint' }
    await writeFile(path, `${JSON.stringify(about, null, 2)}\n`)
  }
  return path
}
