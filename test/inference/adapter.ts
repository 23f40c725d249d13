// An adapter for lab-nano that is far from where adapters begin, as PEFT's two files.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ROOT } from '../../build/paths.ts'
import { adapterLayout, peftFiles, unflatten } from '../../workers/policy/adapter.ts'
import { readCard } from '../../workers/policy/card.ts'
import type { ExportedFile } from '../../workers/protocol.ts'
import { RandomStream } from '../../workers/random.ts'
import { LORA } from '../policy/policies.ts'

/** @returns adapter_model.safetensors, then adapter_config.json */
export async function perturbedAdapter(base = 'lab-nano', deviation = 0.2): Promise<ExportedFile[]> {
  const card = readCard(JSON.parse(await readFile(join(ROOT, 'models', base, 'config.json'), 'utf8')))
  const layout = adapterLayout(card, LORA)
  const random = new RandomStream(11)
  const flat = Float32Array.from({ length: layout.size }, () => deviation * random.normal())
  return peftFiles(unflatten(layout, flat), LORA, base)
}
