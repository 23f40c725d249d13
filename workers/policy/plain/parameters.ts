// The tensors of a policy: frozen weights beside their transposes, or, when everything is trained, leaves cut out of the
// flat vector. Says for each projection what stands at x·W and what its adapter is.

import { type Tensor, type Tensor2D, tf } from '../../gpu/tfjs.ts'
import { type Layout, type LoraOptions, type Slot, transpose } from '../adapter.ts'
import { type Card, PROJECTIONS, type Projection, projectionPath, weightShapes } from '../card.ts'
import type { Model } from '../load.ts'

/** Tensors by Hugging Face name; projections as [in, out], and frozen ones as [out, in] too. */
export interface Frozen {
  /** Projections [in, out], embeddings [V, D], vectors [1, N]: tfjs reads a 1-D factor through workgroup memory. */
  weights: Map<string, Tensor>
  /** The other orientation of every matrix. */
  transposes: Map<string, Tensor2D>
}

export async function loadFrozen(model: Model): Promise<Frozen> {
  const weights = new Map<string, Tensor>()
  const transposes = new Map<string, Tensor2D>()
  for (const [name, shape] of weightShapes(model.card)) {
    const data = await model.weight(name)
    if (shape.length === 1) {
      weights.set(name, tf.tensor2d(data, [1, shape[0]]))
      continue
    }
    const [out, input] = shape
    const asStored = tf.tensor2d(data, [out, input])
    const turned = tf.tensor2d(transpose(data, out, input), [input, out])
    if (isEmbedding(name)) {
      weights.set(name, asStored)
      transposes.set(name, turned)
    } else {
      weights.set(name, turned)
      transposes.set(name, asStored)
    }
  }
  return { weights, transposes }
}

function isEmbedding(name: string): boolean {
  return name === 'model.embed_tokens.weight' || name === 'lm_head.weight'
}

/** One trainable tensor, cut out of the flat vector once per version: the tape's leaves. */
export interface Leaf {
  slot: Slot
  tensor: Tensor
}

export function cutLeaves(flat: Tensor, layout: Layout): Leaf[] {
  return layout.slots.map((slot) => ({
    slot,
    tensor: tf.tidy(() => tf.reshape(tf.slice(flat, [slot.offset], [slot.size]), [slot.rows, slot.columns])),
  }))
}

/** What one forward pass computes with. */
export interface Parameters {
  card: Card
  /** True where the weights themselves are leaves and want gradients. */
  trainWeights: boolean
  weight(name: string): Tensor
  /** Null where the weight is trained. */
  transposed(name: string): Tensor2D | null
  adapter(layer: number, projection: Projection): { a: Tensor2D; b: Tensor2D; scale: number } | null
}

/** Frozen weights with adapters over them; no leaves: the reference policy. */
export function adapted(card: Card, frozen: Frozen, leaves: Leaf[], lora: LoraOptions): Parameters {
  const byName = new Map(leaves.map(({ slot, tensor }) => [slot.name, tensor as Tensor2D]))
  const scale = lora.alpha / lora.r
  const adapters = Array.from({ length: card.layers }, (_, layer) => {
    const entries = PROJECTIONS.map((projection) => {
      const prefix = `base_model.model.${projectionPath(layer, projection)}`
      const a = byName.get(`${prefix}.lora_A.weight`)
      const b = byName.get(`${prefix}.lora_B.weight`)
      return [projection, a && b ? { a, b, scale } : null] as const
    })
    return new Map(entries)
  })
  return {
    card,
    trainWeights: false,
    weight: (name) => frozen.weights.get(name)!,
    transposed: (name) => frozen.transposes.get(name)!,
    adapter: (layer, projection) => adapters[layer].get(projection) ?? null,
  }
}

/** The weights themselves are the leaves. */
export function trained(card: Card, leaves: Leaf[]): Parameters {
  const byName = new Map(leaves.map(({ slot, tensor }) => [slot.name, tensor]))
  return {
    card,
    trainWeights: true,
    weight: (name) => byName.get(name)!,
    transposed: () => null,
    adapter: () => null,
  }
}
