// Models in a browser: a folder each in the origin's private file system (OPFS), with a manifest beside the files.
// Writing wants a worker (a synchronous handle); reading, listing and deleting work in a page too.

import { createSHA256 } from 'hash-wasm'
import { writeFile } from '../storage/blobs.browser.ts'
import { StorageFull } from '../storage/store.ts'
import {
  type Hasher,
  isComplete,
  type KeptModel,
  type Manifest,
  type ModelPlace,
  type ModelStore,
  type Part,
} from './place.ts'

const MANIFEST = 'manifest.json'
const PIECE = 8 * 2 ** 20

/** null where the browser has no private file system: in some private windows, and on insecure addresses. */
export async function openBrowserModels(name = 'rollout-lab-models'): Promise<BrowserModelStore | null> {
  try {
    const root = await navigator.storage.getDirectory()
    return new BrowserModelStore(await root.getDirectoryHandle(name, { create: true }), name)
  } catch {
    return null
  }
}

export class BrowserModelStore implements ModelStore {
  constructor(
    readonly root: FileSystemDirectoryHandle,
    readonly name: string,
  ) {}

  place(origin: string, model: string): BrowserPlace {
    return new BrowserPlace(this.root, this.name, encodeURIComponent(`${origin}/${model}`))
  }

  async list(): Promise<KeptModel[]> {
    const kept: KeptModel[] = []
    for await (const handle of this.root.values()) {
      if (handle.kind !== 'directory') continue
      const place = new BrowserPlace(this.root, this.name, handle.name)
      const manifest = await place.manifest()
      if (!manifest) continue
      let bytes = 0
      for await (const file of (handle as FileSystemDirectoryHandle).values())
        if (file.kind === 'file') bytes += (await (file as FileSystemFileHandle).getFile()).size
      const complete = await isComplete(place, manifest).catch(() => false)
      kept.push({ id: handle.name, manifest, complete, bytes })
    }
    return kept.sort((a, b) => a.manifest.model.localeCompare(b.manifest.model))
  }

  async remove(id: string): Promise<void> {
    const place = new BrowserPlace(this.root, this.name, id)
    const { held = [] } = (await navigator.locks?.query()) ?? {}
    if (held.some(({ name }) => name === place.lock)) {
      throw new Error('Removed nothing: this model is being fetched right now. Stop the run that asked for it first.')
    }
    await this.forget(id)
  }

  async forget(id: string): Promise<void> {
    await this.root.removeEntry(id, { recursive: true }).catch(ignoreMissing)
  }

  async room(): Promise<number | null> {
    const { usage, quota } = (await navigator.storage.estimate?.()) ?? {}
    return usage === undefined || quota === undefined ? null : Math.max(0, quota - usage)
  }
}

class BrowserPlace implements ModelPlace {
  readonly lock: string

  constructor(
    readonly root: FileSystemDirectoryHandle,
    store: string,
    readonly id: string,
  ) {
    this.lock = `${store}/${id}`
  }

  async manifest(): Promise<Manifest | null> {
    try {
      const manifest = JSON.parse(new TextDecoder().decode(await this.read(MANIFEST))) as Manifest
      // A file that lost its tail with the last crash is fetched again.
      for (const [path, { bytes }] of Object.entries(manifest.files)) {
        const file = await this.#file(path).catch(() => null)
        if (file?.size !== bytes) delete manifest.files[path]
      }
      return manifest
    } catch {
      return null
    }
  }

  async putManifest(manifest: Manifest): Promise<void> {
    const bytes = new TextEncoder().encode(JSON.stringify(manifest))
    const folder = await this.root.getDirectoryHandle(this.id, { create: true })
    await full(manifest.model, async () => {
      await writeFile(await folder.getFileHandle(MANIFEST, { create: true }), bytes)
    })
  }

  async read(path: string, range?: { start: number; end: number }): Promise<Uint8Array> {
    const file = await this.#file(path)
    return new Uint8Array(await (range ? file.slice(range.start, range.end) : file).arrayBuffer())
  }

  async digest(path: string): Promise<string> {
    const file = await this.#file(path)
    const hasher = await createHasher()
    for (let at = 0; at < file.size; at += PIECE)
      hasher.update(new Uint8Array(await file.slice(at, at + PIECE).arrayBuffer()))
    return hasher.hex()
  }

  async part({ path }: { path: string }): Promise<Part> {
    const folder = await this.root.getDirectoryHandle(this.id, { create: true })
    const handle = await folder.getFileHandle(path, { create: true })
    return new BrowserPart(await handle.createSyncAccessHandle(), `${decodeURIComponent(this.id)}/${path}`)
  }

  /** A page can do this, where it has `createWritable`. */
  async copyIn(path: string, file: Blob, onBytes: (bytes: number) => void): Promise<void> {
    const folder = await this.root.getDirectoryHandle(this.id, { create: true })
    const handle = await folder.getFileHandle(path, { create: true })
    await full(`${decodeURIComponent(this.id)}/${path}`, async () => {
      const stream = await handle.createWritable()
      try {
        for (let at = 0; at < file.size; at += PIECE) {
          await stream.write(await file.slice(at, at + PIECE).arrayBuffer())
          onBytes(Math.min(at + PIECE, file.size))
        }
        await stream.close()
      } catch (error) {
        await stream.abort().catch(() => {})
        throw error
      }
    })
  }

  async alone<T>(work: () => Promise<T>): Promise<T> {
    if (!navigator.locks) return work()
    return navigator.locks.request(this.lock, work) as Promise<T>
  }

  async #file(path: string): Promise<File> {
    const folder = await this.root.getDirectoryHandle(this.id)
    return (await folder.getFileHandle(path)).getFile()
  }
}

class BrowserPart implements Part {
  #bytes: number

  constructor(
    readonly handle: FileSystemSyncAccessHandle,
    readonly what: string,
  ) {
    this.#bytes = handle.getSize()
  }

  get bytes(): number {
    return this.#bytes
  }

  async read(start: number, end: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(end - start)
    this.handle.read(bytes, { at: start })
    return bytes
  }

  async append(bytes: Uint8Array): Promise<void> {
    const at = this.#bytes
    await full(this.what, async () => {
      // A full disk shows as a short write in some browsers, as an error in others.
      if (this.handle.write(bytes as Uint8Array<ArrayBuffer>, { at }) === bytes.length) return
      this.handle.truncate(at)
      throw new DOMException('short write', 'QuotaExceededError')
    })
    this.#bytes += bytes.length
  }

  async clear(): Promise<void> {
    this.handle.truncate(0)
    this.#bytes = 0
  }

  // Whole is what the manifest lists.
  async keep(): Promise<void> {
    this.handle.flush()
  }

  async close(): Promise<void> {
    this.handle.close()
  }

  readonly hasher = createHasher
}

// Several times faster than JavaScript; crypto.subtle takes no stream.
async function createHasher(): Promise<Hasher> {
  const hash = await createSHA256()
  hash.init()
  return { update: (bytes) => void hash.update(bytes), hex: () => hash.digest('hex') }
}

async function full(what: string, write: () => Promise<void>): Promise<void> {
  try {
    await write()
  } catch (error) {
    if ((error as Error).name !== 'QuotaExceededError') throw error
    throw new StorageFull(
      `The browser had no room for ${what}. What came is kept, and goes on from there: delete a model or a run that you no longer need, and play again.`,
      { cause: error },
    )
  }
}

function ignoreMissing(error: unknown): void {
  if ((error as Error).name !== 'NotFoundError') throw error
}
