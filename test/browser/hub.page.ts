// Models of a hub in a browser's storage: each function is one thing that a test asks for.

import { createRealm } from '../../workers/host/realm.browser.ts'
import { HubClient } from '../../workers/hub/client.ts'
import { keepFolder } from '../../workers/hub/drop.browser.ts'
import { openHubModel } from '../../workers/hub/open.ts'
import { type BrowserModelStore, openBrowserModels } from '../../workers/hub/store.browser.ts'
import { putToken } from '../../workers/hub/tokens.browser.ts'
import { openModel } from '../../workers/policy/load.ts'
import { randomFiles } from '../policy/randomModel.ts'

async function store(): Promise<BrowserModelStore> {
  const opened = await openBrowserModels()
  if (!opened) throw new Error('no private file system')
  return opened
}

interface Opened {
  hash: string
  /** Of every weight, by name. */
  sums: Record<string, number>
}

/** As a run in a tab opens it. */
export async function open(model: string, hub: string | null): Promise<Opened> {
  const realm = createRealm({ models: 'http://nowhere.invalid/', runs: 'x', wasm: '' })
  const opened = await openModel(await realm.modelFiles(model, { hub }), model)
  const sums: Record<string, number> = {}
  for (const name of ['model.embed_tokens.weight', 'model.layers.1.mlp.down_proj.weight', 'model.norm.weight'])
    sums[name] = (await opened.weight(name)).reduce((sum, value) => sum + value, 0)
  return { hash: opened.hash, sums }
}

/** The same, with the sentence of a refusal. */
export async function refusal(model: string, hub: string): Promise<string> {
  try {
    await open(model, hub)
    return 'opened'
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`
  }
}

/** Resolves as soon as so many bytes of the weights are kept; the fetch goes on until the tab is closed. */
export async function fetchSome(model: string, hub: string, bytes: number): Promise<void> {
  const client = new HubClient({ base: hub })
  await new Promise<void>((resolve, reject) => {
    const onProgress = ({ file, doneBytes }: { file: string; doneBytes: number }) => {
      if (file.endsWith('.safetensors') && doneBytes >= bytes) resolve()
    }
    store()
      .then((models) => openHubModel(model, client, models, { onProgress }))
      .then((read) => openModel(read, model))
      .catch(reject)
  })
}

export async function kept() {
  return (await (await store()).list()).map(({ id, manifest, complete, bytes }) => {
    return { id, model: manifest.model, origin: manifest.origin, files: Object.keys(manifest.files), complete, bytes }
  })
}

export async function remove(id: string): Promise<void> {
  await (await store()).remove(id)
}

export async function giveToken(hub: string, token: string | null): Promise<void> {
  await putToken(hub, token)
}

/** A folder as the page gets it. */
export async function drop(folder: string, without: string[] = []): Promise<string> {
  const files = Object.entries({ ...randomFiles(), 'README.md': new Uint8Array(9) })
  const blobs = files.filter(([path]) => !without.includes(path)).map(([path, bytes]) => [path, blobOf(bytes)] as const)
  const told: number[] = []
  const name = await keepFolder(await store(), folder, new Map(blobs), (done, total) => told.push(done / total))
  if (told.at(-1) !== 1) throw new Error('it was not told when all was copied')
  return name
}

function blobOf(bytes: Uint8Array): Blob {
  return new Blob([bytes as Uint8Array<ArrayBuffer>])
}
