// What a page may do with all that this browser keeps: models, runs and their checkpoints, and the tokens of hubs. Knows
// nothing of training.

import type { Architecture } from '../../models/architecture.ts'
import { HubClient, hubAddress } from '../hub/client.ts'
import { readDirectly } from '../hub/direct.ts'
import { keepFolder } from '../hub/drop.browser.ts'
import { readModelName } from '../hub/name.ts'
import { readKept } from '../hub/open.ts'
import { DROPPED, type KeptModel } from '../hub/place.ts'
import { openBrowserModels } from '../hub/store.browser.ts'
import { putToken, readToken } from '../hub/tokens.browser.ts'
import { readCard } from '../policy/card.ts'
import type { Read } from '../policy/weights.ts'
import type { CheckpointLibrary } from '../storage/store.ts'

export type { KeptModel } from '../hub/place.ts'

export interface Storeroom {
  models(): Promise<KeptModel[]>
  removeModel(id: string): Promise<void>
  /** Copies a dropped folder; resolves to the name that a config gives it. */
  keepFolder(
    folder: string,
    files: ReadonlyMap<string, Blob>,
    onProgress: (doneBytes: number, totalBytes: number) => void,
  ): Promise<string>
  /** The numbers of a model's architecture: from what is kept of it, else from its hub. Throws a sentence. */
  architecture(model: string, hub: string | null): Promise<Architecture>
  saves: CheckpointLibrary['saves']
  removeCheckpoint: CheckpointLibrary['removeCheckpoint']
  takeSave: CheckpointLibrary['takeSave']
  hasToken(hub: string | null): Promise<boolean>
  /** null forgets it. */
  putToken(hub: string | null, token: string | null): Promise<void>
  /** Whether the browser promises not to delete anything by itself. */
  isLasting(): Promise<boolean>
}

export function createStoreroom(library: () => Promise<CheckpointLibrary>): Storeroom {
  return {
    models: async () => (await openBrowserModels())?.list() ?? [],
    async removeModel(id) {
      await (await openBrowserModels())?.remove(id)
    },
    async keepFolder(folder, files, onProgress) {
      const store = await openBrowserModels()
      if (!store) throw new Error('This window keeps no files: use one that is not private, over a secure address.')
      return keepFolder(store, folder, files, onProgress)
    },
    async architecture(model, hub) {
      const read = await smallFiles(model, hub)
      return readCard(JSON.parse(new TextDecoder().decode(await read('config.json'))) as Record<string, unknown>)
    },
    saves: async (run) => (await library()).saves(run),
    removeCheckpoint: async (run, step) => (await library()).removeCheckpoint(run, step),
    takeSave: async (bytes) => (await library()).takeSave(bytes),
    hasToken: async (hub) => (await readToken(hubAddress(hub))) !== null,
    putToken: (hub, token) => putToken(hubAddress(hub), token),
    isLasting: async () => (await navigator.storage?.persisted?.()) ?? false,
  }
}

async function smallFiles(model: string, hub: string | null): Promise<Read> {
  const named = readModelName(model)
  if (named.kind === 'bundled' || named.kind === 'folder') throw new Error(`${model} is no model of a hub.`)
  const origin = named.kind === 'hub' ? hubAddress(hub) : DROPPED
  const place = (await openBrowserModels())?.place(origin, named.name)
  const manifest = await place?.manifest()
  if (place && manifest?.files['config.json']) return readKept(model, place, manifest)
  if (named.kind === 'dropped') throw new Error(`There is no model ${model} in this browser.`)
  return readDirectly(named.name, new HubClient({ base: origin, token: await readToken(origin) }), { tries: 2 })
}
