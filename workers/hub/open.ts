// A model of a hub as files: what is kept is read from the disk, what is not is fetched first and kept. The small files
// come at once; the weights when the first of them is asked for, so that a model that cannot run costs nothing.

import { MissingFile, type Read } from '../policy/weights.ts'
import { StorageFull } from '../storage/store.ts'
import type { HubClient, Listing, RemoteFile } from './client.ts'
import { type DownloadOptions, download } from './download.ts'
import { patiently } from './patience.ts'
import {
  emptyManifest,
  INDEX,
  isComplete,
  type Manifest,
  type ModelPlace,
  type ModelStore,
  SMALL_FILES,
  shardsOf,
  WHOLE,
} from './place.ts'

export interface HubProgress {
  /** Under way. */
  file: string
  /** Of all files that are to be brought. */
  doneBytes: number
  /** null where the hub does not say. */
  totalBytes: number | null
}

export interface OpenHubOptions extends Omit<DownloadOptions, 'onBytes'> {
  onProgress?: (progress: HubProgress) => void
}

/** Throws a sentence when there is no such model, no access, no network or no room (`StorageFull`). */
export async function openHubModel(
  model: string,
  client: HubClient,
  store: ModelStore,
  options: OpenHubOptions = {},
): Promise<Read> {
  const place = store.place(client.base, model)
  const kept = await place.manifest()
  if (kept && (await isComplete(place, kept))) return readKept(model, place, kept)
  const bringing = new Bringing(model, client, store, place, options)
  await bringing.smallFiles()
  const read: Read = async (path, range) => {
    if (path.endsWith('.safetensors')) await bringing.weights()
    return bringing.read(path, range)
  }
  read.digest = (path) => digestOf(place, bringing.manifest, path)
  return read
}

/** Without a network: what is not kept, the model does not have. */
export function readKept(model: string, place: ModelPlace, manifest: Manifest): Read {
  const read: Read = async (path, range) => {
    if (!manifest.files[path]) throw missing(model, path)
    return place.read(path, range)
  }
  read.digest = (path) => digestOf(place, manifest, path)
  return read
}

/** Of a file that came without a digest, taken once. */
async function digestOf(place: ModelPlace, manifest: Manifest, path: string): Promise<string | null> {
  const file = manifest.files[path]
  if (!file) return null
  if (file.sha256 === null) {
    file.sha256 = await place.digest(path)
    await place.putManifest(manifest)
  }
  return file.sha256
}

class Bringing {
  manifest: Manifest
  #listing: Listing | null = null
  #weights: Promise<void> | null = null

  constructor(
    readonly model: string,
    readonly client: HubClient,
    readonly store: ModelStore,
    readonly place: ModelPlace,
    readonly options: OpenHubOptions,
  ) {
    this.manifest = emptyManifest(model, client.base, null)
  }

  smallFiles(): Promise<void> {
    return this.place.alone(async () => {
      this.#listing = await this.#patiently(() => this.client.list(this.model, this.options.signal))
      const commit = this.#listing?.commit ?? null
      const kept = await this.place.manifest()
      // Files of two commits do not belong together.
      this.manifest = kept && kept.commit === commit ? kept : emptyManifest(this.model, this.client.base, commit)
      await this.place.putManifest(this.manifest)
      this.#checkFiles()
      const files = await this.#described([...SMALL_FILES, ...(this.#has(WHOLE) ? [] : [INDEX])])
      await this.#bring(files)
      for (const path of SMALL_FILES.slice(0, 2)) if (!this.manifest.files[path]) throw missing(this.model, path)
    })
  }

  /** Once, whoever asks; after a failure it is tried again. */
  weights(): Promise<void> {
    this.#weights ??= this.place
      .alone(async () => {
        this.manifest = (await this.place.manifest()) ?? this.manifest
        if (!this.manifest.files[INDEX] && !this.#has(WHOLE)) {
          const [whole] = await this.#described([WHOLE])
          if (!whole) throw noWeights(this.model, this.client.base)
        }
        const paths = this.manifest.files[INDEX] && !this.#has(WHOLE) ? shardsOf(await this.place.read(INDEX)) : [WHOLE]
        const files = await this.#described(paths)
        const gone = paths.find((path) => !this.manifest.files[path] && !files.some((file) => file.path === path))
        if (gone !== undefined) throw missing(this.model, gone)
        await this.#checkRoom(files)
        await this.#bring(files)
      })
      .catch((error) => {
        this.#weights = null
        throw error
      })
    return this.#weights
  }

  async read(path: string, range?: { start: number; end: number }): Promise<Uint8Array> {
    if (!this.manifest.files[path]) throw missing(this.model, path)
    return this.place.read(path, range)
  }

  #has(path: string): boolean {
    return this.#listing?.files.has(path) ?? this.manifest.files[path] !== undefined
  }

  // Said before anything is fetched, where the hub lists its files.
  #checkFiles(): void {
    const files = this.#listing?.files
    if (!files) return
    for (const path of SMALL_FILES.slice(0, 2)) {
      if (!files.has(path)) {
        throw new MissingFile(
          `Fetched ${this.model} from ${this.client.base}: it has no ${path}. Choose a checkpoint in the layout of transformers, with a fast tokenizer.`,
        )
      }
    }
    if (!files.has(WHOLE) && !files.has(INDEX)) throw noWeights(this.model, this.client.base)
  }

  /** Those of `paths` that the hub has and that are not kept yet. */
  async #described(paths: string[]): Promise<RemoteFile[]> {
    const found: RemoteFile[] = []
    for (const path of paths) {
      if (this.manifest.files[path] || this.manifest.absent.includes(path)) continue
      const file = this.#listing
        ? (this.#listing.files.get(path) ?? null)
        : await this.#patiently(() => this.client.describe(this.model, path, this.options.signal))
      if (file) found.push(file)
      else await this.#without(path)
    }
    return found
  }

  async #without(path: string): Promise<void> {
    this.manifest.absent.push(path)
    await this.place.putManifest(this.manifest)
  }

  async #bring(files: RemoteFile[]): Promise<void> {
    const { onProgress } = this.options
    const totalBytes = files.reduce<number | null>(
      (sum, { bytes }) => (sum === null || bytes === null ? null : sum + bytes),
      0,
    )
    let before = 0
    for (const file of files) {
      const part = await this.place.part(file)
      try {
        const { bytes, sha256 } = await download(this.client, this.model, this.manifest.commit ?? 'main', file, part, {
          ...this.options,
          onBytes: (bytes) => onProgress?.({ file: file.path, doneBytes: before + bytes, totalBytes }),
        })
        before += bytes
        this.manifest.files[file.path] = { bytes, sha256 }
        await this.place.putManifest(this.manifest)
      } catch (error) {
        // A server that answers HEAD with anything says only now that there is no such file.
        if (!(error instanceof MissingFile) || this.#listing) throw error
        await this.#without(file.path)
      } finally {
        await part.close()
      }
    }
  }

  async #checkRoom(files: RemoteFile[]): Promise<void> {
    const room = await this.store.room()
    const wanted = files.reduce((sum, { bytes }) => sum + (bytes ?? 0), 0)
    if (room === null || wanted <= room) return
    throw new StorageFull(
      `There is no room for ${this.model}: its weights take ${megabytes(wanted)}, and ${megabytes(room)} are free here. ` +
        'Delete a model or a run that you no longer need, and play again.',
    )
  }

  /** The little questions before a download are asked again too. */
  #patiently<T>(ask: () => Promise<T>): Promise<T> {
    const { base } = this.client
    return patiently(ask, this.options, (why) => noAnswer(this.model, base, why))
  }
}

export function noAnswer(model: string, base: string, why: string): string {
  return `Asked ${base} for ${model}: ${why}. Check the connection and the address of the hub (browser.hub), and play again.`
}

function missing(model: string, path: string): MissingFile {
  return new MissingFile(`Read ${path} of ${model}: the model has no such file.`)
}

function noWeights(model: string, base: string): Error {
  return new MissingFile(
    `Fetched ${model} from ${base}: it has neither ${WHOLE} nor ${INDEX}. This lab reads safetensors alone; choose a checkpoint that has them.`,
  )
}

function megabytes(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${Math.ceil(bytes / 1e6)} MB`
}
