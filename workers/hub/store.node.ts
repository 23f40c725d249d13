// Models on a disk, in the layout of huggingface_hub's cache, so that transformers and this lab share what either fetched:
//
//   models--OWNER--NAME/refs/main                    the commit
//   models--OWNER--NAME/snapshots/COMMIT/FILE        links into blobs/
//   models--OWNER--NAME/.no_exist/COMMIT/FILE        what that commit does not have
//   models--OWNER--NAME/blobs/DIGEST                 SHA-256 of large files, Git's name of small ones

import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import {
  type FileHandle,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  statfs,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { exists, guarded, sizeOf } from '../storage/files.node.ts'
import {
  type Hasher,
  isComplete,
  type KeptModel,
  type Manifest,
  type ModelPlace,
  type ModelStore,
  type Part,
} from './place.ts'

/** Where huggingface_hub keeps models too: HF_HUB_CACHE, HF_HOME/hub or ~/.cache/huggingface/hub. */
export function hubCacheFolder(env: NodeJS.ProcessEnv = process.env): string {
  const cache = env.XDG_CACHE_HOME || join(homedir(), '.cache')
  return env.HF_HUB_CACHE || env.HUGGINGFACE_HUB_CACHE || join(env.HF_HOME || join(cache, 'huggingface'), 'hub')
}

/** The token that huggingface_hub would send: HF_TOKEN, or what `hf auth login` left. */
export async function hubToken(env: NodeJS.ProcessEnv = process.env): Promise<string | null> {
  if (env.HF_TOKEN) return env.HF_TOKEN.trim()
  const cache = env.XDG_CACHE_HOME || join(homedir(), '.cache')
  const file = env.HF_TOKEN_PATH || join(env.HF_HOME || join(cache, 'huggingface'), 'token')
  return (await readFile(file, 'utf8').catch(() => '')).trim() || null
}

export class NodeModelStore implements ModelStore {
  constructor(readonly root: string) {}

  place(origin: string, model: string): NodePlace {
    return new NodePlace(join(this.root, `models--${model.replaceAll('/', '--')}`), model, origin)
  }

  async list(): Promise<KeptModel[]> {
    const names = await readdir(this.root).catch(() => [])
    const kept: KeptModel[] = []
    for (const id of names.filter((name) => name.startsWith('models--')).sort()) {
      const place = new NodePlace(join(this.root, id), id.slice('models--'.length).replace('--', '/'), '')
      const manifest = await place.manifest()
      if (!manifest) continue
      const complete = await isComplete(place, manifest).catch(() => false)
      kept.push({ id, manifest, complete, bytes: await sizeOf(join(place.folder, 'blobs')) })
    }
    return kept
  }

  async remove(id: string): Promise<void> {
    if (!/^models--[\w.-]+$/.test(id)) throw new Error(`Removed nothing: ${id} is no model of ${this.root}.`)
    await rm(join(this.root, id), { recursive: true, force: true })
  }

  async room(): Promise<number | null> {
    for (let folder = this.root; ; folder = dirname(folder)) {
      const disk = await statfs(folder).catch(() => null)
      if (disk) return disk.bavail * disk.bsize
      if (dirname(folder) === folder) return null
    }
  }
}

class NodePlace implements ModelPlace {
  #commit: string | null = null

  constructor(
    readonly folder: string,
    readonly model: string,
    readonly origin: string,
  ) {}

  async manifest(): Promise<Manifest | null> {
    const commit = (await readFile(join(this.folder, 'refs', 'main'), 'utf8').catch(() => '')).trim()
    if (!/^[\w-]+$/.test(commit)) return null
    this.#commit = commit
    const manifest: Manifest = {
      model: this.model,
      origin: this.origin,
      commit: commit === 'main' ? null : commit,
      files: {},
      absent: await readdir(join(this.folder, '.no_exist', commit)).catch(() => []),
    }
    for (const path of await readdir(this.#snapshot).catch(() => [])) {
      const file = await stat(join(this.#snapshot, path)).catch(() => null)
      if (!file?.isFile()) continue
      const blob = basename(await readlink(join(this.#snapshot, path)).catch(() => ''))
      manifest.files[path] = { bytes: file.size, sha256: /^[0-9a-f]{64}$/.test(blob) ? blob : null }
    }
    return manifest
  }

  async putManifest({ commit, absent }: Manifest): Promise<void> {
    this.#commit = commit ?? 'main'
    await mkdir(join(this.folder, 'refs'), { recursive: true })
    await mkdir(this.#snapshot, { recursive: true })
    await writeFile(join(this.folder, 'refs', 'main'), this.#commit)
    if (absent.length === 0) return
    const none = join(this.folder, '.no_exist', this.#commit)
    await mkdir(none, { recursive: true })
    for (const path of absent) await writeFile(join(none, path), '')
  }

  async read(path: string, range?: { start: number; end: number }): Promise<Uint8Array> {
    return readFolder(this.#snapshot, path, range)
  }

  digest(path: string): Promise<string> {
    return digestOfFile(join(this.#snapshot, path))
  }

  async part({ path, sha256, oid }: { path: string; sha256: string | null; oid: string | null }): Promise<Part> {
    const blobs = join(this.folder, 'blobs')
    await mkdir(blobs, { recursive: true })
    const partial = join(blobs, `${sha256 ?? oid ?? encodeURIComponent(path)}.incomplete`)
    const handle = await open(partial, (await exists(partial)) ? 'r+' : 'w+')
    return new NodePart(handle, partial, (await handle.stat()).size, async (digest) => {
      const blob = sha256 ?? oid ?? digest
      await rename(partial, join(blobs, blob))
      const link = join(this.#snapshot, path)
      await rm(link, { force: true })
      // Where links are not allowed, the file itself takes the place.
      await symlink(join('..', '..', 'blobs', blob), link).catch(() => rename(join(blobs, blob), link))
    })
  }

  // A lock file that is touched while it is held: whoever was killed holding it is outwaited.
  async alone<T>(work: () => Promise<T>): Promise<T> {
    const lock = join(this.folder, '.fetching.lock')
    await mkdir(this.folder, { recursive: true })
    for (;;) {
      const taken = await writeFile(lock, `${process.pid}`, { flag: 'wx' }).then(
        () => true,
        (error: NodeJS.ErrnoException) => {
          if (error.code !== 'EEXIST') throw error
          return false
        },
      )
      if (taken) break
      const held = await stat(lock).catch(() => null)
      if (held && Date.now() - held.mtimeMs > STALE_MS) await rm(lock, { force: true })
      else await new Promise((resolve) => setTimeout(resolve, 200))
    }
    const touch = setInterval(() => utimes(lock, new Date(), new Date()).catch(() => {}), STALE_MS / 5)
    try {
      return await work()
    } finally {
      clearInterval(touch)
      await rm(lock, { force: true })
    }
  }

  get #snapshot(): string {
    return join(this.folder, 'snapshots', this.#commit ?? 'main')
  }
}

const STALE_MS = 10_000

class NodePart implements Part {
  #bytes: number

  constructor(
    readonly handle: FileHandle,
    readonly path: string,
    bytes: number,
    readonly place: (sha256: string) => Promise<void>,
  ) {
    this.#bytes = bytes
  }

  get bytes(): number {
    return this.#bytes
  }

  async read(start: number, end: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(end - start)
    const { bytesRead } = await this.handle.read(bytes, 0, bytes.length, start)
    return bytes.subarray(0, bytesRead)
  }

  async append(bytes: Uint8Array): Promise<void> {
    await guarded(this.path, async () => {
      for (let at = 0; at < bytes.length; ) {
        const { bytesWritten } = await this.handle.write(bytes, at, bytes.length - at, this.#bytes)
        at += bytesWritten
        this.#bytes += bytesWritten
      }
    })
  }

  async clear(): Promise<void> {
    await this.handle.truncate(0)
    this.#bytes = 0
  }

  async keep(sha256: string): Promise<void> {
    await this.handle.sync()
    await this.place(sha256)
  }

  async close(): Promise<void> {
    await this.handle.close()
  }

  async hasher(): Promise<Hasher> {
    const hash = createHash('sha256')
    return { update: (bytes) => void hash.update(bytes), hex: () => hash.digest('hex') }
  }
}

/** SHA-256 of a file, hexadecimal. */
export async function digestOfFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path, { highWaterMark: 2 ** 20 }), hash)
  return hash.digest('hex')
}

/** Bytes of a file below a folder. An absent one is an ENOENT. */
export async function readFolder(
  folder: string,
  path: string,
  range?: { start: number; end: number },
): Promise<Uint8Array> {
  if (!range) return new Uint8Array(await readFile(join(folder, path)))
  const file = await open(join(folder, path))
  try {
    const bytes = new Uint8Array(range.end - range.start)
    let at = 0
    // One call reads 2 GiB at most, and may read less than it was asked for.
    while (at < bytes.length) {
      const { bytesRead } = await file.read(bytes, at, bytes.length - at, range.start + at)
      if (bytesRead === 0) break
      at += bytesRead
    }
    return bytes.subarray(0, at)
  } finally {
    await file.close()
  }
}
