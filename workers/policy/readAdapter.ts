// A LoRA adapter out of PEFT's two files, as peft, prime-rl and this lab write them. What the lab cannot compute is refused
// by name: an adapter that is read half answers wrongly without a word.

import type { LoraOptions } from './adapter.ts'
import { PROJECTIONS } from './card.ts'
import type { NamedTensor } from './policy.ts'
import { listTensors, type Read, readTensor } from './weights.ts'

export interface ReadAdapter {
  lora: LoraOptions
  tensors: NamedTensor[]
  /** The base model as the file names it; null where it does not. */
  base: string | null
}

interface PeftConfig {
  peft_type?: string
  r?: number
  lora_alpha?: number
  target_modules?: string | string[]
  base_model_name_or_path?: string | null
  [other: string]: unknown
}

/** Settings of PEFT that change what an adapter computes, and that stand at nothing in the adapters read here. */
const REFUSED = [
  'use_rslora',
  'use_dora',
  'modules_to_save',
  'rank_pattern',
  'alpha_pattern',
  'layers_to_transform',
  'fan_in_fan_out',
  'trainable_token_indices',
]

/** @throws a sentence naming the file and what is wrong with it */
export async function readAdapter(read: Read): Promise<ReadAdapter> {
  const config = parse(await read('adapter_config.json'))
  if (config.peft_type !== 'LORA')
    throw new Error(`Read adapter_config.json: peft_type is ${JSON.stringify(config.peft_type)}; expected "LORA".`)
  const refused = REFUSED.find((name) => isSet(config[name]))
  if (refused !== undefined)
    throw new Error(`Read adapter_config.json: ${refused} is set, and this lab does not compute it; train without it.`)
  if (typeof config.r !== 'number' || config.r < 1 || typeof config.lora_alpha !== 'number')
    throw new Error('Read adapter_config.json: expected numbers at r and lora_alpha.')
  if (!Array.isArray(config.target_modules))
    throw new Error(
      `Read adapter_config.json: target_modules is ${JSON.stringify(config.target_modules)}; expected a list of ${PROJECTIONS.join(', ')}.`,
    )
  const file: Read = (path, range) => read(path === 'model.safetensors' ? 'adapter_model.safetensors' : path, range)
  const entries = await listTensors(file, { sharded: false })
  const tensors: NamedTensor[] = []
  for (const { name, shape } of entries.values())
    tensors.push({ name, shape, data: await readTensor(file, entries, name, shape) })
  return {
    lora: { r: config.r, alpha: config.lora_alpha, targetModules: config.target_modules },
    tensors,
    base: config.base_model_name_or_path ?? null,
  }
}

function parse(bytes: Uint8Array): PeftConfig {
  try {
    return JSON.parse(new TextDecoder().decode(bytes)) as PeftConfig
  } catch (error) {
    throw new Error(`Read adapter_config.json: it is not JSON (${error instanceof Error ? error.message : error}).`)
  }
}

function isSet(value: unknown): boolean {
  if (value === undefined || value === null || value === false) return false
  return typeof value !== 'object' || Object.keys(value).length > 0
}
