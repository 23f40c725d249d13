// Reads an adapter in PEFT's two files and says whether a vLLM node can serve it, before it is sent to any. Reads headers
// alone; weights are never held.

import { Refusal } from '../refusal.ts'

export interface PeftConfig {
  rank: number
  baseModel: string
}

const wrong = (field: string, sentence: string) => new Refusal(400, 'bad_adapter', sentence, { param: field })

/** adapter_config.json as an object. Throws a Refusal that names the field at fault. */
export function readPeftConfig(config: unknown): PeftConfig {
  if (typeof config !== 'object' || config === null || Array.isArray(config))
    throw wrong('config', 'config has to be the object of adapter_config.json.')
  const given = config as Record<string, unknown>
  if (given.peft_type !== 'LORA')
    throw wrong('config.peft_type', `peft_type is ${given.peft_type}: only LORA is served.`)
  if (given.use_dora === true) throw wrong('config.use_dora', 'vLLM serves no DoRA: train without use_dora.')
  if (given.bias !== undefined && given.bias !== 'none')
    throw wrong('config.bias', `bias is ${given.bias}: vLLM serves adapters without bias.`)
  if (Array.isArray(given.modules_to_save) && given.modules_to_save.length)
    throw wrong('config.modules_to_save', `vLLM serves no whole modules: ${given.modules_to_save.join(', ')}.`)
  const ranks = [given.r, ...Object.values((given.rank_pattern ?? {}) as object)]
  if (!ranks.every((rank) => Number.isInteger(rank) && rank > 0)) throw wrong('config.r', 'r has to be a whole number.')
  if (typeof given.lora_alpha !== 'number') throw wrong('config.lora_alpha', 'lora_alpha has to be a number.')
  const { base_model_name_or_path: baseModel } = given
  if (typeof baseModel !== 'string' || baseModel === '')
    throw wrong('config.base_model_name_or_path', 'base_model_name_or_path has to name the base model.')
  return { rank: Math.max(...(ranks as number[])), baseModel }
}

export const LONGEST_HEADER = 16 * 1024 * 1024
const BYTES: Record<string, number> = { F64: 8, F32: 4, F16: 2, BF16: 2 }
const WEIGHT = /^base_model\.model\.[\w.]+\.lora_([AB])(\.\w+)?\.weight$/

/**
 * Checks the header of adapter_model.safetensors: names of LoRA pairs, one rank per pair, no gap, no overlap, and exactly as
 * many bytes as it announces. `bytes` is the size of the whole file.
 */
export function checkSafetensors(header: Buffer, bytes: number, rank: number) {
  let tensors: Record<string, { dtype?: unknown; shape?: unknown; data_offsets?: unknown }>
  try {
    tensors = JSON.parse(header.toString('utf8'))
  } catch {
    throw wrong('weights', 'The weights have no header of safetensors.')
  }
  if (typeof tensors !== 'object' || tensors === null || Array.isArray(tensors))
    throw wrong('weights', 'The weights have no header of safetensors.')
  const pieces: [number, number][] = []
  const pairs = new Map<string, { A?: number; B?: number }>()
  for (const [name, tensor] of Object.entries(tensors)) {
    if (name === '__metadata__') continue
    const side = name.match(WEIGHT)?.[1] as 'A' | 'B' | undefined
    if (!side) throw wrong('weights', `${name.slice(0, 200)} is no LoRA weight of PEFT.`)
    const { dtype, shape, data_offsets: offsets } = tensor ?? {}
    const size = typeof dtype === 'string' && Object.hasOwn(BYTES, dtype) ? BYTES[dtype] : undefined
    if (size === undefined) throw wrong('weights', `${name} is ${dtype}: expected ${Object.keys(BYTES).join(', ')}.`)
    if (!isPair(shape) || !isPair(offsets)) throw wrong('weights', `${name} has no shape of two numbers, or no place.`)
    if (offsets[1] - offsets[0] !== shape[0] * shape[1] * size)
      throw wrong('weights', `${name} is ${shape.join(' × ')} ${dtype} in ${offsets[1] - offsets[0]} bytes.`)
    pieces.push(offsets)
    const key = name.replace(/\.lora_[AB](\.\w+)?\.weight$/, '')
    // A is [r, in], B is [out, r].
    pairs.set(key, { ...pairs.get(key), [side]: side === 'A' ? shape[0] : shape[1] })
  }
  if (!pairs.size) throw wrong('weights', 'The weights hold no tensor.')
  for (const [key, { A, B }] of pairs) {
    if (A === undefined || B === undefined || A !== B)
      throw wrong('weights', `${key} has no matching lora_A and lora_B: ranks ${A} and ${B}.`)
    if (A > rank) throw wrong('weights', `${key} has rank ${A}, and adapter_config.json says ${rank}.`)
  }
  pieces.sort((a, b) => a[0] - b[0])
  let end = 0
  for (const [from, to] of pieces) {
    if (from !== end) throw wrong('weights', `The weights have a gap or an overlap at byte ${end}.`)
    end = to
  }
  if (8 + header.length + end !== bytes)
    throw wrong('weights', `The weights announce ${8 + header.length + end} bytes and have ${bytes}.`)
}

function isPair(value: unknown): value is [number, number] {
  return Array.isArray(value) && value.length === 2 && value.every((one) => Number.isSafeInteger(one) && one >= 0)
}
