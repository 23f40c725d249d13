// A small random model as a hub hosts it: in one file, and in two with an index.

import { writeSafetensors } from '../../workers/policy/weights.ts'
import { randomFiles, randomModel } from '../policy/randomModel.ts'
import type { HostedModel } from './hubServer.ts'

export const WHOLE = 'someone/whole'
export const SHARDED = 'someone/sharded'

export async function hosted(): Promise<Record<string, HostedModel>> {
  const files = randomFiles()
  const { 'model.safetensors': _, ...small } = files
  const model = await randomModel()
  const names = [...(await tensorNames(files['model.safetensors']))]
  const shards: Record<string, Uint8Array> = {}
  const weight_map: Record<string, string> = {}
  for (const [i, part] of [names.slice(0, 9), names.slice(9)].entries()) {
    const file = `model-0000${i + 1}-of-00002.safetensors`
    const tensors = await Promise.all(
      part.map(async (name) => ({ name, shape: model.shapeOf(name), data: await model.weight(name) })),
    )
    shards[file] = writeSafetensors(tensors, 'F32')
    for (const name of part) weight_map[name] = file
  }
  const index = new TextEncoder().encode(JSON.stringify({ metadata: {}, weight_map }))
  return {
    [WHOLE]: { files },
    [SHARDED]: { files: { ...small, ...shards, 'model.safetensors.index.json': index } },
  }
}

async function tensorNames(file: Uint8Array): Promise<string[]> {
  const length = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true))
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length))) as Record<string, unknown>
  return Object.keys(header).filter((name) => name !== '__metadata__')
}
