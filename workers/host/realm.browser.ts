// What a worker of a page has: models beside the page, of a hub or dropped on it, OPFS and IndexedDB, the browser's
// devices.

import { openDevice } from '../gpu/device.ts'
import { HubClient, hubAddress } from '../hub/client.ts'
import { readDirectly } from '../hub/direct.ts'
import { droppedName, readModelName } from '../hub/name.ts'
import { openHubModel, readKept } from '../hub/open.ts'
import { DROPPED } from '../hub/place.ts'
import { openBrowserModels } from '../hub/store.browser.ts'
import { readToken } from '../hub/tokens.browser.ts'
import { MissingFile, type Read } from '../policy/weights.ts'
import { openBrowserLibrary } from '../storage/browser.ts'
import type { ModelRequest, Realm } from './learner.ts'
import type { Place } from './link.ts'

export function createRealm({ models, runs, wasm }: Place): Realm {
  return {
    library: () => openBrowserLibrary({ name: runs }),
    async modelFiles(model, request = {}) {
      const named = readModelName(model)
      if (named.kind === 'hub') return fromHub(named.name, request)
      if (named.kind === 'dropped') return fromDrop(named.name)
      if (named.kind === 'bundled') return fetched(new URL(`${encodeURIComponent(model)}/`, models), model)
      throw new Error(
        `A page cannot read the folder ${named.path}: drop it on the page instead, or train in Node (rollout-lab train).`,
      )
    },
    openDevice: (backend) => openDevice({ backend, wasmFolder: () => wasm }),
  }
}

async function fromHub(model: string, { hub, onFetch, onNote }: ModelRequest): Promise<Read> {
  const base = hubAddress(hub)
  const client = new HubClient({ base, token: await readToken(base) })
  const store = await openBrowserModels()
  if (store) return openHubModel(model, client, store, { onProgress: onFetch })
  onNote?.(
    `This window keeps no files, so the weights of ${model} are read from ${client.base} at each start, and are not checked against its digests.`,
  )
  return readDirectly(model, client)
}

async function fromDrop(name: string): Promise<Read> {
  const place = (await openBrowserModels())?.place(DROPPED, name)
  const manifest = await place?.manifest()
  if (!place || !manifest)
    throw new Error(`There is no model ${droppedName(name)} in this browser: drop its folder on the page again.`)
  return readKept(name, place, manifest)
}

function fetched(folder: URL, model: string): Read {
  return async (path, range) => {
    const headers: HeadersInit = range ? { Range: `bytes=${range.start}-${range.end - 1}` } : {}
    const response = await fetch(new URL(path, folder), { headers }).catch((error: Error) => {
      throw new Error(
        `Fetched ${path} of the model ${model}: no answer came (${error.message}). Check the connection and play again.`,
      )
    })
    // Some servers answer a wrong address with their front page.
    const isPage = response.headers.get('content-type')?.startsWith('text/html')
    if (!response.ok || isPage) {
      const sentence =
        `Fetched ${path} of the model ${model}: it is not beside this page (${isPage ? 'a page came instead' : response.status}). ` +
        'Choose a bundled model, or one of a hub by owner/name.'
      throw isPage || response.status === 404 ? new MissingFile(sentence) : new Error(sentence)
    }
    const bytes = new Uint8Array(await response.arrayBuffer())
    // A server that knows no ranges sends the whole file.
    return range && response.status !== 206 ? bytes.subarray(range.start, range.end) : bytes
  }
}
