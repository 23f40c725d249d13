// Writing files so that a crash or a full disk leaves the old content or the new one, whole.

import { open, readdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ExportedFile } from '../protocol.ts'
import { StorageFull } from './store.ts'

export async function readFiles(folder: string): Promise<ExportedFile[]> {
  const names = await readdir(folder).catch(() => [])
  return Promise.all(names.map(async (name) => ({ name, bytes: new Uint8Array(await readFile(join(folder, name))) })))
}

export async function replaceFile(path: string, content: string | Uint8Array): Promise<void> {
  const partial = `${path}.partial`
  await guarded(path, async () => {
    await writeFile(partial, content)
    await sync(partial)
    await rename(partial, path)
  })
}

export async function sync(path: string): Promise<void> {
  const handle = await open(path, 'r').catch(() => null)
  if (!handle) return
  // Some file systems refuse to sync a folder; the rename is then as durable as they make it.
  await handle.sync().catch(() => {})
  await handle.close()
}

export async function sizeOf(path: string): Promise<number> {
  const entry = await stat(path).catch(() => null)
  if (!entry) return 0
  if (!entry.isDirectory()) return entry.size
  const sizes = await Promise.all((await readdir(path)).map((name) => sizeOf(join(path, name))))
  return sizes.reduce((sum, size) => sum + size, 0)
}

export async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null)) !== null
}

export function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}

export async function guarded(what: string, write: () => Promise<void>): Promise<void> {
  try {
    await write()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ENOSPC' && code !== 'EDQUOT') throw error
    throw new StorageFull(
      `There was no room on the disk for ${what}. What was saved before is whole; free some space and go on.`,
      { cause: error },
    )
  }
}
