// Where the files of models are kept: one place a model, with the parts of a file that is on its way. Two
// implementations, store.browser.ts and store.node.ts.

/** What is known of the files that are kept of one model. */
export interface Manifest {
  /** As a config names it. */
  model: string
  /** Where it came from: a hub's address, or `dropped`. */
  origin: string
  /** What `main` stood at; null where nobody said. */
  commit: string | null
  /** Whole files by path. */
  files: Record<string, { bytes: number; sha256: string | null }>
  /** Paths that the repository does not have. */
  absent: string[]
}

export interface KeptModel {
  /** Names the place in `remove`. */
  id: string
  manifest: Manifest
  /** All that a run needs is here. */
  complete: boolean
  /** On disk, unfinished files included. */
  bytes: number
}

export interface ModelStore {
  list(): Promise<KeptModel[]>
  remove(id: string): Promise<void>
  place(origin: string, model: string): ModelPlace
  /** Bytes that may still be written; null where the device does not say. */
  room(): Promise<number | null>
}

export interface ModelPlace {
  manifest(): Promise<Manifest | null>
  putManifest(manifest: Manifest): Promise<void>
  /** Bytes of a whole file. */
  read(path: string, range?: { start: number; end: number }): Promise<Uint8Array>
  /** SHA-256 of a whole file, hexadecimal. */
  digest(path: string): Promise<string>
  /** Opens a file that is on its way; what came before a break is in it. */
  part(file: { path: string; sha256: string | null; oid: string | null }): Promise<Part>
  /** Runs alone among all tabs and processes that share the store. */
  alone<T>(work: () => Promise<T>): Promise<T>
}

/** A file that is on its way. */
export interface Part {
  readonly bytes: number
  read(start: number, end: number): Promise<Uint8Array>
  /** At the end. Throws `StorageFull`. */
  append(bytes: Uint8Array): Promise<void>
  clear(): Promise<void>
  /** Makes it the whole file. */
  keep(sha256: string): Promise<void>
  close(): Promise<void>
  hasher(): Promise<Hasher>
}

/** An incremental SHA-256, as fast as there is one here. */
export interface Hasher {
  update(bytes: Uint8Array): void
  hex(): string
}

/** The origin of what was dropped on the page. */
export const DROPPED = 'dropped'

/** Files that a run reads besides the weights. The first two are needed. */
export const SMALL_FILES = [
  'config.json',
  'tokenizer.json',
  'generation_config.json',
  'tokenizer_config.json',
  'chat_template.jinja',
]
export const WHOLE = 'model.safetensors'
export const INDEX = 'model.safetensors.index.json'

/**
 * The weight files that an index names, in order.
 * @throws a sentence when it is no index, or names something else than files beside it
 */
export function shardsOf(index: Uint8Array): string[] {
  let map: Record<string, unknown> | undefined
  try {
    map = (JSON.parse(new TextDecoder().decode(index)) as { weight_map?: Record<string, unknown> }).weight_map
  } catch {
    // Said below.
  }
  const shards = [...new Set(Object.values(map ?? {}))].sort()
  const strange = shards.find((shard) => typeof shard !== 'string' || !/^\w[\w.-]*\.safetensors$/.test(shard))
  if (shards.length === 0 || strange !== undefined) {
    throw new Error(
      `Read ${INDEX}: expected a weight_map of .safetensors files, got ${strange === undefined ? 'none' : JSON.stringify(strange)}.`,
    )
  }
  return shards as string[]
}

/** Whether a run could start from what is kept, without a network. */
export async function isComplete(place: ModelPlace, { files }: Manifest): Promise<boolean> {
  if (!files['config.json'] || !files['tokenizer.json']) return false
  if (files[WHOLE]) return true
  if (!files[INDEX]) return false
  return shardsOf(await place.read(INDEX)).every((shard) => files[shard])
}

export function emptyManifest(model: string, origin: string, commit: string | null): Manifest {
  return { model, origin, commit, files: {}, absent: [] }
}
