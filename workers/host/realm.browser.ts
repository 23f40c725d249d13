// What a worker of a page has: models fetched from beside the page, OPFS and IndexedDB, the browser's devices.

import { openDevice } from '../gpu/device.ts'
import type { Read } from '../policy/weights.ts'
import { openBrowserLibrary } from '../storage/browser.ts'
import type { Realm } from './learner.ts'
import type { Place } from './link.ts'

export function createRealm({ models, runs, wasm }: Place): Realm {
  return {
    library: () => openBrowserLibrary({ name: runs }),
    modelFiles: async (name) => fetched(new URL(`${encodeURIComponent(name)}/`, models), name),
    openDevice: (backend) => openDevice({ backend, wasmFolder: () => wasm }),
  }
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
      throw new Error(
        `Fetched ${path} of the model ${model}: it is not beside this page (${isPage ? 'a page came instead' : response.status}). ` +
          'Choose a bundled model.',
      )
    }
    const bytes = new Uint8Array(await response.arrayBuffer())
    // A server that knows no ranges sends the whole file.
    return range && response.status !== 206 ? bytes.subarray(range.start, range.end) : bytes
  }
}
