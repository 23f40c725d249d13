// LoRA: where each trainable number lies in the flat vector, how an adapter begins, and PEFT's two files.
// y = x·W + (alpha / r) · (x·A)·B, as Hu et al. 2021; PEFT stores A transposed as lora_A [r, in], B as lora_B [out, r].

import type { RandomStream } from '../random.ts'
import { type Card, PROJECTIONS, type Projection, projectionPath, projectionShapes, weightShapes } from './card.ts'
import type { NamedTensor } from './policy.ts'
import { writeSafetensors } from './weights.ts'

export interface LoraOptions {
  r: number
  alpha: number
  targetModules: string[]
}

/** One matrix or vector of the flat vector, stored [rows, columns] as `x · matrix` wants it. */
export interface Slot {
  /** As in the exported file. */
  name: string
  rows: number
  columns: number
  offset: number
  size: number
  /** Exported files hold its transpose; vectors have one row and are not transposed. */
  transposed: boolean
}

export interface Layout {
  slots: Slot[]
  size: number
}

/** Layers, then projections in the checkpoint's order, then A and B. */
export function adapterLayout(card: Card, { r, targetModules }: LoraOptions): Layout {
  const unknown = targetModules.filter((name) => !(PROJECTIONS as readonly string[]).includes(name))
  const targets = PROJECTIONS.filter((name) => targetModules.includes(name))
  if (targets.length === 0) {
    throw new Error(
      `Made no adapter: lora.target_modules is [${targetModules.join(', ')}]; expected at least one of ${PROJECTIONS.join(', ')}.`,
    )
  }
  if (unknown.length > 0) {
    throw new Error(
      `Made no adapter: lora.target_modules names ${unknown.join(', ')}; this model has ${PROJECTIONS.join(', ')}.`,
    )
  }
  const shapes = projectionShapes(card)
  const list: Omit<Slot, 'offset' | 'size'>[] = []
  for (let layer = 0; layer < card.layers; layer++) {
    for (const target of targets) {
      const [out, input] = shapes[target]
      const prefix = `base_model.model.${projectionPath(layer, target)}`
      list.push({ name: `${prefix}.lora_A.weight`, rows: input, columns: r, transposed: true })
      list.push({ name: `${prefix}.lora_B.weight`, rows: r, columns: out, transposed: true })
    }
  }
  return layOut(list)
}

/** Every weight of the model, for training from scratch. */
export function fullLayout(card: Card): Layout {
  return layOut(
    [...weightShapes(card)].map(([name, shape]) => {
      if (shape.length === 1) return { name, rows: 1, columns: shape[0], transposed: false }
      const embedding = name === 'model.embed_tokens.weight' || name === 'lm_head.weight'
      return embedding
        ? { name, rows: shape[0], columns: shape[1], transposed: false }
        : { name, rows: shape[1], columns: shape[0], transposed: true }
    }),
  )
}

function layOut(list: Omit<Slot, 'offset' | 'size'>[]): Layout {
  let offset = 0
  const slots = list.map((slot) => {
    const size = slot.rows * slot.columns
    const placed = { ...slot, offset, size }
    offset += size
    return placed
  })
  return { slots, size: offset }
}

/** @throws a sentence when these are not all the trainable numbers of this policy */
export function expectFits({ size }: Layout, trainable: Float32Array): void {
  if (trainable.length === size) return
  throw new Error(
    `Restored nothing: the save holds ${trainable.length} trainable numbers, this policy has ${size}; model or LoRA settings differ.`,
  )
}

/** A is Kaiming-uniform with a = √5, that is uniform in ±1/√in; B is zero, so a fresh adapter changes nothing (PEFT, prime-rl). */
export function initialAdapter(layout: Layout, random: RandomStream): Float32Array {
  const flat = new Float32Array(layout.size)
  for (const slot of layout.slots) {
    if (!slot.name.endsWith('lora_A.weight')) continue
    const stream = random.fork(slot.name)
    const bound = 1 / Math.sqrt(slot.rows)
    for (let i = 0; i < slot.size; i++) flat[slot.offset + i] = (2 * stream.next() - 1) * bound
  }
  return flat
}

/** Normal weights of deviation 0.02, the two that write into the residual stream smaller by √(2L), norms one, biases zero. */
export function initialWeights(card: Card, layout: Layout, random: RandomStream): Float32Array {
  const flat = new Float32Array(layout.size)
  for (const slot of layout.slots) {
    const part = flat.subarray(slot.offset, slot.offset + slot.size)
    if (slot.name.endsWith('norm.weight')) part.fill(1)
    else if (!slot.name.endsWith('.bias')) {
      const residual = slot.name.endsWith('o_proj.weight') || slot.name.endsWith('down_proj.weight')
      const deviation = residual ? 0.02 / Math.sqrt(2 * card.layers) : 0.02
      const stream = random.fork(slot.name)
      for (let i = 0; i < part.length; i++) part[i] = stream.normal() * deviation
    }
  }
  return flat
}

/** The flat vector as named tensors in the exported orientation. */
export function unflatten(layout: Layout, flat: Float32Array): NamedTensor[] {
  return layout.slots.map((slot) => {
    const data = flat.slice(slot.offset, slot.offset + slot.size)
    if (!slot.transposed)
      return { name: slot.name, shape: slot.rows === 1 ? [slot.columns] : [slot.rows, slot.columns], data }
    return { name: slot.name, shape: [slot.columns, slot.rows], data: transpose(data, slot.rows, slot.columns) }
  })
}

/** @throws a sentence when a tensor is missing or has another size */
export function flatten(layout: Layout, tensors: Iterable<NamedTensor>): Float32Array {
  const byName = new Map([...tensors].map((tensor) => [tensor.name, tensor]))
  const flat = new Float32Array(layout.size)
  for (const slot of layout.slots) {
    const tensor = byName.get(slot.name)
    if (!tensor) throw new Error(`Loaded no weights: ${slot.name} is missing.`)
    if (tensor.data.length !== slot.size) {
      throw new Error(
        `Loaded no weights: ${slot.name} has ${tensor.data.length} numbers, expected ${slot.size} ([${slot.rows} × ${slot.columns}]).`,
      )
    }
    flat.set(slot.transposed ? transpose(tensor.data, slot.columns, slot.rows) : tensor.data, slot.offset)
  }
  return flat
}

/** [rows, columns] → [columns, rows]. */
export function transpose(data: Float32Array, rows: number, columns: number): Float32Array {
  const result = new Float32Array(data.length)
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) result[j * rows + i] = data[i * columns + j]
  return result
}

/** `adapter_model.safetensors` and `adapter_config.json`, as peft, transformers and vLLM read them. */
export function peftFiles(
  tensors: NamedTensor[],
  lora: LoraOptions,
  baseModel: string,
): { name: string; bytes: Uint8Array }[] {
  const config = {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: baseModel,
    r: lora.r,
    lora_alpha: lora.alpha,
    lora_dropout: 0,
    target_modules: PROJECTIONS.filter((name) => lora.targetModules.includes(name)) as Projection[],
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    use_rslora: false,
    use_dora: false,
    modules_to_save: null,
    revision: null,
  }
  return [
    { name: 'adapter_model.safetensors', bytes: writeSafetensors(tensors, 'F32') },
    { name: 'adapter_config.json', bytes: new TextEncoder().encode(`${JSON.stringify(config, null, 2)}\n`) },
  ]
}
