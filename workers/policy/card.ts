// What an architecture is, in numbers: read from a Hugging Face config.json and checked. Llama, Qwen2 and Qwen3 are one
// decoder family (RMSNorm, rotary positions, grouped queries, SwiGLU) with two switches: query/key norms and biases.

import { type Architecture, type Projection, projectionShapes } from '../../models/architecture.ts'

export { PROJECTIONS, type Projection, parameterCount, projectionShapes } from '../../models/architecture.ts'

export interface Card extends Architecture {
  architecture: 'llama' | 'qwen2' | 'qwen3'
  normEpsilon: number
  ropeTheta: number
  /** Llama 3's stretched positions; null where positions are rotated as they are. */
  ropeScaling: RopeScaling | null
  stopTokens: number[]
}

/** Slow rotations are slowed by `factor`, fast ones left alone, those between blended (Llama 3.1). */
export interface RopeScaling {
  factor: number
  /** A rotation that turns fewer times than this over `originalLength` tokens is slow. */
  lowFrequencyFactor: number
  /** A rotation that turns more often than this is fast. */
  highFrequencyFactor: number
  originalLength: number
}

/** @throws a sentence naming the field, what was expected and what came */
export function readCard(config: Record<string, unknown>, generation: Record<string, unknown> = {}): Card {
  const architecture = config.model_type
  if (architecture !== 'llama' && architecture !== 'qwen2' && architecture !== 'qwen3') {
    throw new Error(
      `Read config.json: model_type is ${JSON.stringify(architecture)}; this lab runs "llama", "qwen2" and "qwen3".`,
    )
  }
  const number = (field: string, fallback?: number): number => {
    const value = config[field] ?? fallback
    if (typeof value !== 'number' || !Number.isFinite(value)) {
      throw new Error(`Read config.json: expected a number at ${field}, got ${JSON.stringify(config[field])}.`)
    }
    return value
  }
  // transformers 5 writes rope_parameters; checkpoints from before have rope_theta and rope_scaling.
  const rope = (config.rope_parameters ?? {}) as Record<string, unknown>
  refuseUnknownParts(config, architecture)
  const heads = number('num_attention_heads')
  const kvHeads = number('num_key_value_heads', heads)
  if (heads % kvHeads !== 0) {
    throw new Error(`Read config.json: ${heads} query heads do not divide among ${kvHeads} key/value heads.`)
  }
  const width = number('hidden_size')
  return {
    architecture,
    vocabulary: number('vocab_size'),
    width,
    layers: number('num_hidden_layers'),
    heads,
    kvHeads,
    headWidth: number('head_dim', width / heads),
    ffnWidth: number('intermediate_size'),
    normEpsilon: number('rms_norm_eps', 1e-6),
    ropeTheta: number('rope_theta', typeof rope.rope_theta === 'number' ? rope.rope_theta : 10000),
    ropeScaling: readScaling({ ...rope, ...((config.rope_scaling ?? {}) as Record<string, unknown>) }),
    queryKeyNorm: architecture === 'qwen3',
    queryKeyValueBias: architecture === 'qwen2',
    tiedHead: config.tie_word_embeddings === true,
    maxLength: number('max_position_embeddings', 2048),
    stopTokens: stopTokens(generation.eos_token_id ?? config.eos_token_id),
  }
}

// What would change the computation without changing a shape must not be passed over.
function refuseUnknownParts(config: Record<string, unknown>, architecture: string): void {
  const refuse = (field: string, why: string): never => {
    throw new Error(`Read config.json: ${field} is ${JSON.stringify(config[field])}; ${why}.`)
  }
  if (config.hidden_act !== undefined && config.hidden_act !== 'silu') refuse('hidden_act', 'expected "silu"')
  if (config.quantization_config) refuse('quantization_config', 'use the checkpoint that is stored in F32, F16 or BF16')
  if (config.mlp_bias === true) refuse('mlp_bias', 'biases in the feed-forward layers are not supported')
  if (config.attention_bias === true && architecture !== 'qwen2')
    refuse('attention_bias', 'a bias after attention is not supported')
  const sliding = Array.isArray(config.layer_types) && config.layer_types.some((type) => type !== 'full_attention')
  if (sliding) refuse('layer_types', 'only full attention is supported')
  if (config.use_sliding_window === true) refuse('use_sliding_window', 'sliding-window attention is not supported')
}

function readScaling(rope: Record<string, unknown>): RopeScaling | null {
  const type = rope.rope_type ?? rope.type ?? 'default'
  if (type === 'default') return null
  if (type !== 'llama3') {
    throw new Error(
      `Read config.json: rope scaling ${JSON.stringify(type)} is not supported; this lab computes "default" and "llama3" rotary positions.`,
    )
  }
  const number = (field: string): number => {
    const value = rope[field]
    if (typeof value === 'number' && value > 0) return value
    throw new Error(
      `Read config.json: rope scaling "llama3" needs a positive number at ${field}, got ${JSON.stringify(value)}.`,
    )
  }
  const scaling = {
    factor: number('factor'),
    lowFrequencyFactor: number('low_freq_factor'),
    highFrequencyFactor: number('high_freq_factor'),
    originalLength: number('original_max_position_embeddings'),
  }
  if (scaling.lowFrequencyFactor >= scaling.highFrequencyFactor) {
    throw new Error(
      `Read config.json: rope scaling "llama3" needs low_freq_factor below high_freq_factor, got ${scaling.lowFrequencyFactor} and ${scaling.highFrequencyFactor}.`,
    )
  }
  return scaling
}

/** Radians per position of each pair of a head's numbers, fastest first: [headWidth / 2]. */
export function ropeFrequencies({ headWidth, ropeTheta, ropeScaling }: Card): Float64Array {
  return Float64Array.from({ length: headWidth / 2 }, (_, i) => {
    const frequency = 1 / ropeTheta ** ((2 * i) / headWidth)
    if (!ropeScaling) return frequency
    const { factor, lowFrequencyFactor: low, highFrequencyFactor: high, originalLength } = ropeScaling
    const turns = (originalLength * frequency) / (2 * Math.PI)
    const kept = Math.min(1, Math.max(0, (turns - low) / (high - low)))
    return kept * frequency + ((1 - kept) * frequency) / factor
  })
}

function stopTokens(eos: unknown): number[] {
  const list = Array.isArray(eos) ? eos : [eos]
  return list.filter((id): id is number => typeof id === 'number')
}

/** Every weight of the checkpoint: its Hugging Face name and shape, [out, in] for projections. */
export function weightShapes(card: Card): Map<string, number[]> {
  const { width, headWidth } = card
  const shapes = new Map<string, number[]>([['model.embed_tokens.weight', [card.vocabulary, width]]])
  for (let layer = 0; layer < card.layers; layer++) {
    const prefix = `model.layers.${layer}`
    shapes.set(`${prefix}.input_layernorm.weight`, [width])
    for (const [name, [out, input]] of Object.entries(projectionShapes(card))) {
      const path = projectionPath(layer, name as Projection)
      shapes.set(`${path}.weight`, [out, input])
      if (card.queryKeyValueBias && (name === 'q_proj' || name === 'k_proj' || name === 'v_proj'))
        shapes.set(`${path}.bias`, [out])
    }
    if (card.queryKeyNorm) {
      shapes.set(`${prefix}.self_attn.q_norm.weight`, [headWidth])
      shapes.set(`${prefix}.self_attn.k_norm.weight`, [headWidth])
    }
    shapes.set(`${prefix}.post_attention_layernorm.weight`, [width])
  }
  shapes.set('model.norm.weight', [width])
  if (!card.tiedHead) shapes.set('lm_head.weight', [card.vocabulary, width])
  return shapes
}

export function projectionPath(layer: number, projection: Projection): string {
  const block = ['gate_proj', 'up_proj', 'down_proj'].includes(projection) ? 'mlp' : 'self_attn'
  return `model.layers.${layer}.${block}.${projection}`
}
