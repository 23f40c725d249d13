// What a worker thread of Node has: models in folders or of a hub, runs in folders, Dawn or tfjs's other backends.

import { stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { toToml } from '../../configs/write.ts'
import { openNodeDevice } from '../gpu/node.ts'
import { HubClient, hubAddress } from '../hub/client.ts'
import { readModelName } from '../hub/name.ts'
import { openHubModel } from '../hub/open.ts'
import { digestOfFile, hubCacheFolder, hubToken, NodeModelStore, readFolder } from '../hub/store.node.ts'
import type { Read } from '../policy/weights.ts'
import { NodeRunLibrary } from '../storage/node.ts'
import type { ModelRequest, Realm } from './learner.ts'
import type { Place } from './link.ts'

export function createRealm({ models, runs }: Place): Realm {
  return {
    library: async () => new NodeRunLibrary(runs, (config) => toToml(config, { all: true })),
    async modelFiles(model, request = {}) {
      const named = readModelName(model)
      if (named.kind === 'dropped') {
        throw new Error(
          `There is no model ${model} here: it was dropped on a page and lies in that browser. Name its folder: file:/path/to/it.`,
        )
      }
      const folders =
        named.kind === 'folder' ? [resolve(inHome(named.path))] : [join(models, named.name), resolve(named.name)]
      for (const folder of folders) if (await holdsModel(folder)) return inFolder(folder)
      if (named.kind === 'hub') return fromHub(named.name, request)
      throw new Error(
        `There is no model ${model}: ${folders.length > 1 ? `neither ${folders.join(' nor ')} holds` : `${folders[0]} does not hold`} a config.json. ` +
          'Name a bundled model, one of a hub by owner/name, or a folder in Hugging Face layout.',
      )
    },
    openDevice: openNodeDevice,
  }
}

async function fromHub(model: string, { hub, onFetch }: ModelRequest): Promise<Read> {
  const own = hubAddress(process.env.HF_ENDPOINT || null)
  const base = hub ? hubAddress(hub) : own
  // A config comes from anywhere: the token goes to the hub that this machine is set up for, and to no other.
  const client = new HubClient({ base, token: base === own ? await hubToken() : null })
  return openHubModel(model, client, new NodeModelStore(hubCacheFolder()), { onProgress: onFetch })
}

async function holdsModel(folder: string): Promise<boolean> {
  return (await stat(join(folder, 'config.json')).catch(() => null)) !== null
}

function inFolder(folder: string): Read {
  const read: Read = (path, range) => readFolder(folder, path, range)
  read.digest = (path) => digestOfFile(join(folder, path))
  return read
}

function inHome(path: string): string {
  return path.startsWith('~/') ? join(homedir(), path.slice(2)) : path
}
