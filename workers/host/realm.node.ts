// What a worker thread of Node has: models and runs in folders, Dawn or tfjs's other backends.

import { open, readFile, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { toToml } from '../../configs/write.ts'
import { openNodeDevice } from '../gpu/node.ts'
import type { Read } from '../policy/weights.ts'
import { NodeRunLibrary } from '../storage/node.ts'
import type { Realm } from './learner.ts'
import type { Place } from './link.ts'

export function createRealm({ models, runs }: Place): Realm {
  return {
    library: async () => new NodeRunLibrary(runs, (config) => toToml(config, { all: true })),
    async modelFiles(name) {
      for (const folder of [join(models, name), resolve(name)]) {
        if (await stat(join(folder, 'config.json')).catch(() => null)) return inFolder(folder)
      }
      throw new Error(
        `There is no model ${name}: neither ${join(models, name)} nor ${resolve(name)} holds a config.json. ` +
          'Name a bundled model, or a folder in Hugging Face layout.',
      )
    },
    openDevice: openNodeDevice,
  }
}

function inFolder(folder: string): Read {
  return async (path, range) => {
    if (!range) return new Uint8Array(await readFile(join(folder, path)))
    const file = await open(join(folder, path))
    try {
      const bytes = new Uint8Array(range.end - range.start)
      const { bytesRead } = await file.read(bytes, 0, bytes.length, range.start)
      return bytes.subarray(0, bytesRead)
    } finally {
      await file.close()
    }
  }
}
