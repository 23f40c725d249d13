// The decoder in ordinary tfjs ops: whole sequences for training and prefill, one token of many sequences for decoding.
// Sequences are left-aligned, so token t stands at position t; padding to the right is hidden by the causal mask.
//
// B sequences · T tokens · D width · H query heads in K groups of G = H/K · d head width · S cache length

import { type Tensor, type Tensor2D, tf } from '../../gpu/tfjs.ts'
import type { Card, Projection } from '../card.ts'
import { projectionPath, ropeFrequencies } from '../card.ts'
import { frozenProduct, frozenRmsNorm, maskedSoftmax, oneHotRows, plus, rmsNorm, rotate, swiglu } from './operations.ts'
import type { Parameters } from './parameters.ts'

const HIDDEN = -1e9

/** Keys and values of every layer so far: keys [B, K, d, S], values [B, K, S, d]. Zeros where nothing is written yet. */
export interface Cache {
  keys: Tensor[]
  values: Tensor[]
}

export interface Positions {
  cos: Tensor
  sin: Tensor
  turn: Tensor2D
}

/** cos and sin of position × frequency, [positions, d], in f32 as transformers computes them. */
export function rotaryTable(card: Card, positions: ArrayLike<number>): { cos: Float32Array; sin: Float32Array } {
  const d = card.headWidth
  const half = d / 2
  const cos = new Float32Array(positions.length * d)
  const sin = new Float32Array(positions.length * d)
  for (const [i, exact] of ropeFrequencies(card).entries()) {
    const frequency = Math.fround(exact)
    for (let p = 0; p < positions.length; p++) {
      const angle = Math.fround(positions[p] * frequency)
      cos[p * d + i] = cos[p * d + i + half] = Math.cos(angle)
      sin[p * d + i] = sin[p * d + i + half] = Math.sin(angle)
    }
  }
  return { cos, sin }
}

/** 0 where token t may look at token s ≤ t, very negative elsewhere; [T, T]. */
export function causalMask(T: number): Tensor2D {
  const mask = new Float32Array(T * T)
  for (let t = 0; t < T; t++) mask.fill(HIDDEN, t * T + t + 1, (t + 1) * T)
  return tf.tensor2d(mask, [T, T])
}

function product(p: Parameters, layer: number, projection: Projection, x: Tensor2D): Tensor2D {
  const path = projectionPath(layer, projection)
  const weight = p.weight(`${path}.weight`) as Tensor2D
  const transposed = p.transposed(`${path}.weight`)
  let y: Tensor2D = transposed ? frozenProduct(x, weight, transposed) : tf.matMul(x, weight)
  if (p.card.queryKeyValueBias && (projection === 'q_proj' || projection === 'k_proj' || projection === 'v_proj')) {
    y = tf.add(y, p.weight(`${path}.bias`)) as Tensor2D
  }
  const adapter = p.adapter(layer, projection)
  if (!adapter) return y
  const down = tf.mul(tf.matMul(x, adapter.a), adapter.scale) as Tensor2D // [N, r]
  return plus(y, tf.matMul(down, adapter.b))
}

function norm(p: Parameters, name: string, x: Tensor2D): Tensor2D {
  const weight = p.weight(name)
  return p.trainWeights ? rmsNorm(x, weight, p.card.normEpsilon) : frozenRmsNorm(x, weight, p.card.normEpsilon)
}

/** Per-head norm (Qwen3), on x [.., heads·d]. */
function headNorm(p: Parameters, layer: number, which: 'q_norm' | 'k_norm', x: Tensor2D): Tensor2D {
  if (!p.card.queryKeyNorm) return x
  const heads = tf.reshape(x, [-1, p.card.headWidth]) as Tensor2D
  return tf.reshape(norm(p, `model.layers.${layer}.self_attn.${which}.weight`, heads), x.shape) as Tensor2D
}

function feedForward(p: Parameters, layer: number, x: Tensor2D): Tensor2D {
  const y = norm(p, `model.layers.${layer}.post_attention_layernorm.weight`, x)
  return plus(
    x,
    product(p, layer, 'down_proj', swiglu(product(p, layer, 'gate_proj', y), product(p, layer, 'up_proj', y))),
  )
}

/** Token embeddings [N, D]; by a one-hot product where the embedding is trained, so that its gradient has a fixed order. */
function embed(p: Parameters, ids: Int32Array): Tensor2D {
  const embedding = p.weight('model.embed_tokens.weight') as Tensor2D
  return p.trainWeights
    ? tf.matMul(oneHotRows(ids, p.card.vocabulary), embedding)
    : tf.gather(embedding, tf.tensor1d(ids, 'int32'))
}

export interface WholeInput {
  ids: Int32Array // [B · T]
  B: number
  T: number
  positions: Positions // cos and sin [1, T, 1, d]
  mask: Tensor2D // [T, T]
}

/** Final hidden states [B · T, D] after the last norm; `onLayer` is given each layer's keys and values. */
export function wholeForward(
  p: Parameters,
  input: WholeInput,
  onLayer?: (keys: Tensor, values: Tensor) => void,
): Tensor2D {
  const { B, T, positions, mask } = input
  const { layers, heads: H, kvHeads: K, headWidth: d } = p.card
  const G = H / K
  let x = embed(p, input.ids) // [B·T, D]
  for (let layer = 0; layer < layers; layer++) {
    const y = norm(p, `model.layers.${layer}.input_layernorm.weight`, x)
    const q = headNorm(p, layer, 'q_norm', product(p, layer, 'q_proj', y))
    const k = headNorm(p, layer, 'k_norm', product(p, layer, 'k_proj', y))
    const turn = (v: Tensor2D, heads: number) =>
      rotate(tf.reshape(v, [B, T, heads, d]), positions.cos, positions.sin, positions.turn)
    const queries = tf.reshape(tf.transpose(tf.mul(turn(q, H), 1 / Math.sqrt(d)), [0, 2, 1, 3]), [B * K, G * T, d])
    const keys = tf.transpose(turn(k, K), [0, 2, 3, 1]) // [B, K, d, T]
    const values = tf.transpose(tf.reshape(product(p, layer, 'v_proj', y), [B, T, K, d]), [0, 2, 1, 3]) // [B, K, T, d]
    onLayer?.(keys, values)
    const scores = tf.reshape(tf.matMul(queries, tf.reshape(keys, [B * K, d, T])), [B * H, T, T])
    const weights = tf.reshape(maskedSoftmax(scores, mask), [B * K, G * T, T])
    const mixed = tf.reshape(tf.matMul(weights, tf.reshape(values, [B * K, T, d])), [B, H, T, d])
    const attended = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [B * T, H * d]) as Tensor2D
    x = plus(x, product(p, layer, 'o_proj', attended))
    x = feedForward(p, layer, x)
  }
  return norm(p, 'model.norm.weight', x)
}

export interface DecodeInput {
  ids: Int32Array // [B]
  positions: Positions // cos and sin [B, 1, d]
  /** 1 at each sequence's own position, [B, 1, 1, S]. */
  write: Tensor
  /** 0 up to and including its own position, very negative after, [B, 1, 1, S]. */
  mask: Tensor
}

/** Logits [B, V] of the next token; the cache's tensors are replaced by ones that hold the new keys and values. */
export function decodeForward(p: Parameters, input: DecodeInput, cache: Cache): Tensor2D {
  const { layers, heads: H, kvHeads: K, headWidth: d } = p.card
  const B = input.ids.length
  const S = input.write.shape[3]!
  const writeValues = tf.reshape(input.write, [B, 1, S, 1])
  let x = embed(p, input.ids)
  for (let layer = 0; layer < layers; layer++) {
    const y = norm(p, `model.layers.${layer}.input_layernorm.weight`, x)
    const turn = (v: Tensor2D, heads: number) =>
      rotate(tf.reshape(v, [B, heads, d]), input.positions.cos, input.positions.sin, input.positions.turn)
    const q = tf.mul(turn(headNorm(p, layer, 'q_norm', product(p, layer, 'q_proj', y)), H), 1 / Math.sqrt(d))
    const k = turn(headNorm(p, layer, 'k_norm', product(p, layer, 'k_proj', y)), K)
    const v = product(p, layer, 'v_proj', y)
    replace(cache.keys, layer, tf.add(cache.keys[layer], tf.mul(input.write, tf.reshape(k, [B, K, d, 1]))))
    replace(cache.values, layer, tf.add(cache.values[layer], tf.mul(writeValues, tf.reshape(v, [B, K, 1, d]))))
    const scores = tf.matMul(tf.reshape(q, [B, K, H / K, d]), cache.keys[layer]) // [B, K, G, S]
    const weights = maskedSoftmax(scores, input.mask)
    const attended = tf.reshape(tf.matMul(weights, cache.values[layer]), [B, H * d]) as Tensor2D
    x = plus(x, product(p, layer, 'o_proj', attended))
    x = feedForward(p, layer, x)
  }
  return logits(p, norm(p, 'model.norm.weight', x))
}

function replace(list: Tensor[], index: number, tensor: Tensor): void {
  list[index].dispose()
  list[index] = tf.keep(tensor)
}

/** hidden [N, D] → [N, V]. */
export function logits(p: Parameters, hidden: Tensor2D): Tensor2D {
  const name = headName(p.card)
  const transposed = p.transposed(name)
  return transposed ? tf.matMul(hidden, transposed) : tf.matMul(hidden, p.weight(name) as Tensor2D, false, true)
}

export function headName(card: Card): string {
  return card.tiedHead ? 'model.embed_tokens.weight' : 'lm_head.weight'
}

/** [B, 1, 1, S] mask and one-hot of each sequence's position. */
export function decodeMasks(positions: ArrayLike<number>, S: number): { write: Tensor; mask: Tensor } {
  const B = positions.length
  const write = new Float32Array(B * S)
  const mask = new Float32Array(B * S)
  for (let b = 0; b < B; b++) {
    write[b * S + positions[b]] = 1
    mask.fill(HIDDEN, b * S + positions[b] + 1, (b + 1) * S)
  }
  return { write: tf.tensor(write, [B, 1, 1, S]), mask: tf.tensor(mask, [B, 1, 1, S]) }
}
