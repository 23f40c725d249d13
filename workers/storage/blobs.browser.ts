// Named files of bytes, grouped by run, in the origin's private file system; in IndexedDB where there is none (an
// insecure origin, a private window). Writes are durable when they resolve.

import { openDB } from 'idb'

export interface BlobFolder {
  list(run: string): Promise<{ name: string; bytes: number }[]>
  read(run: string, name: string): Promise<Uint8Array>
  /** `name` may have one folder in front: `step_5/save.bin`. */
  write(run: string, name: string, bytes: Uint8Array): Promise<void>
  remove(run: string, name: string): Promise<void>
  removeFolder(run: string): Promise<void>
}

export async function openBlobFolder(name: string): Promise<BlobFolder> {
  try {
    const root = await navigator.storage.getDirectory()
    return inFileSystem(await root.getDirectoryHandle(name, { create: true }))
  } catch {
    return inDatabase(`${name}-files`)
  }
}

function inFileSystem(root: FileSystemDirectoryHandle): BlobFolder {
  const locate = async (run: string, name: string, create: boolean) => {
    const path = [folderName(run), ...name.split('/')]
    let folder = root
    for (const part of path.slice(0, -1)) folder = await folder.getDirectoryHandle(part, { create })
    return { folder, file: path[path.length - 1] }
  }
  return {
    async list(run) {
      const folder = await root.getDirectoryHandle(folderName(run)).catch(() => null)
      return folder ? filesBelow(folder, '') : []
    },
    async read(run, name) {
      const { folder, file } = await locate(run, name, false)
      const handle = await folder.getFileHandle(file)
      return new Uint8Array(await (await handle.getFile()).arrayBuffer())
    },
    async write(run, name, bytes) {
      const { folder, file } = await locate(run, name, true)
      await writeFile(await folder.getFileHandle(file, { create: true }), bytes)
    },
    async remove(run, name) {
      const { folder, file } = await locate(run, name, false)
      await folder.removeEntry(file).catch(ignoreMissing)
      // The browser refuses to remove a folder that still holds something, and then it stays.
      const [inner, rest] = name.split('/')
      if (rest === undefined) return
      const outer = await root.getDirectoryHandle(folderName(run))
      await outer.removeEntry(inner).catch(() => {})
    },
    async removeFolder(run) {
      await root.removeEntry(folderName(run), { recursive: true }).catch(ignoreMissing)
    },
  }
}

// Workers write in place through a synchronous handle, which every browser with OPFS has; a page writes a copy that
// takes the file's place when it is closed.
export async function writeFile(handle: FileSystemFileHandle, bytes: Uint8Array): Promise<void> {
  const data = bytes as Uint8Array<ArrayBuffer>
  if (typeof handle.createSyncAccessHandle !== 'function') {
    const stream = await handle.createWritable()
    await stream.write(data)
    await stream.close()
    return
  }
  const file = await handle.createSyncAccessHandle()
  try {
    file.truncate(0)
    const written = file.write(data, { at: 0 })
    // A full disk shows as a short write in some browsers, as an error in others.
    if (written !== bytes.length) throw new DOMException('short write', 'QuotaExceededError')
    file.flush()
  } finally {
    file.close()
  }
}

async function filesBelow(
  folder: FileSystemDirectoryHandle,
  prefix: string,
): Promise<{ name: string; bytes: number }[]> {
  const files: { name: string; bytes: number }[] = []
  for await (const handle of folder.values()) {
    const name = `${prefix}${handle.name}`
    if (handle.kind === 'directory') files.push(...(await filesBelow(handle as FileSystemDirectoryHandle, `${name}/`)))
    else files.push({ name, bytes: (await (handle as FileSystemFileHandle).getFile()).size })
  }
  return files
}

async function inDatabase(name: string): Promise<BlobFolder> {
  const database = await openDB(name, 1, { upgrade: (fresh) => void fresh.createObjectStore('files') })
  const keysOf = async (run: string) =>
    (await database.getAllKeys('files', IDBKeyRange.bound([run], [run, []]))) as [string, string][]
  return {
    async list(run) {
      const keys = await keysOf(run)
      return Promise.all(
        keys.map(async (key) => ({ name: key[1], bytes: ((await database.get('files', key)) as Uint8Array).length })),
      )
    },
    async read(run, file) {
      const bytes = (await database.get('files', [run, file])) as Uint8Array | undefined
      if (!bytes) throw new Error(`There is no file ${file} of run ${run}.`)
      return bytes
    },
    async write(run, file, bytes) {
      const transaction = database.transaction('files', 'readwrite', { durability: 'strict' })
      await Promise.all([transaction.store.put(bytes, [run, file]), transaction.done])
    },
    remove: (run, file) => database.delete('files', [run, file]),
    async removeFolder(run) {
      for (const key of await keysOf(run)) await database.delete('files', key)
    },
  }
}

// Run names become folder names: anything that a file system might refuse is spelled as its code.
function folderName(run: string): string {
  return run
    .replace(/[^A-Za-z0-9._-]/g, (character) => `%${character.codePointAt(0)?.toString(16)}`)
    .replace(/^\.+/, '%2e')
}

function ignoreMissing(error: unknown): void {
  if ((error as Error).name !== 'NotFoundError') throw error
}
