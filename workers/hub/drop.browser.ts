// A model folder that was dropped on the page, copied into the browser's storage, so that it is there after a reload.

import { readCard } from '../policy/card.ts'
import { droppedName } from './name.ts'
import { DROPPED, emptyManifest, INDEX, type Manifest, SMALL_FILES, shardsOf, WHOLE } from './place.ts'
import type { BrowserModelStore } from './store.browser.ts'

/**
 * Copies what a run needs of these files; the rest is left alone. Resolves to the name that a config gives the model.
 * @throws a sentence when it is no model folder, or one that cannot run here; `StorageFull` when there is no room
 */
export async function keepFolder(
  store: BrowserModelStore,
  folder: string,
  files: ReadonlyMap<string, Blob>,
  onProgress: (doneBytes: number, totalBytes: number) => void = () => {},
): Promise<string> {
  const text = (path: string) => files.get(path)?.text()
  const config = await text('config.json')
  if (config === undefined || !files.has('tokenizer.json')) {
    throw new Error(
      `The folder ${folder} is not a model: expected config.json, tokenizer.json and .safetensors files in it, found ${listed([...files.keys()])}.`,
    )
  }
  readCard(parsed(config))
  const index = files.has(WHOLE) ? undefined : await files.get(INDEX)?.arrayBuffer()
  const weights = index ? [INDEX, ...shardsOf(new Uint8Array(index))] : [WHOLE]
  const missing = weights.filter((path) => !files.has(path))
  if (missing.length > 0) throw new Error(`The folder ${folder} is not whole: ${listed(missing)} missing.`)

  const wanted = [...SMALL_FILES.filter((path) => files.has(path)), ...weights]
  const total = wanted.reduce((sum, path) => sum + files.get(path)!.size, 0)
  const place = store.place(DROPPED, folder)
  return place.alone(async () => {
    // An older folder of this name is another model.
    await store.forget(place.id)
    const manifest: Manifest = emptyManifest(folder, DROPPED, null)
    let done = 0
    for (const path of wanted) {
      const file = files.get(path)!
      await place.copyIn(path, file, (bytes) => onProgress(done + bytes, total))
      done += file.size
      manifest.files[path] = { bytes: file.size, sha256: null }
    }
    await place.putManifest(manifest)
    return droppedName(folder)
  })
}

function parsed(config: string): Record<string, unknown> {
  try {
    return JSON.parse(config) as Record<string, unknown>
  } catch (error) {
    throw new Error(`Read config.json: it is not JSON (${(error as Error).message}).`)
  }
}

function listed(names: string[]): string {
  if (names.length === 0) return 'nothing'
  return names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', ')
}
