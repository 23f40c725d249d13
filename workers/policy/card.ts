// What an architecture is, in numbers: read from a Hugging Face config.json and checked. Llama, Qwen2 and Qwen3 are one
// decoder family (RMSNorm, rotary positions, grouped queries, SwiGLU) with two switches: query/key norms and biases.

export interface Card {
  architecture: 'llama' | 'qwen2' | 'qwen3'
  vocabulary: number
  width: number
  layers: number
  heads: number
  kvHeads: number
  headWidth: number
  ffnWidth: number
  normEpsilon: number
  ropeTheta: number
  /** Query and key are RMS-normed per head before the rotation (Qwen3). */
  queryKeyNorm: boolean
  /** The q, k and v projections have biases (Qwen2). */
  queryKeyValueBias: boolean
  /** The head is the embedding, transposed. */
  tiedHead: boolean
  maxLength: number
  stopTokens: number[]
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
  const rope = (config.rope_parameters ?? {}) as { rope_theta?: number; rope_type?: string }
  const scaling = (config.rope_scaling ?? null) as { rope_type?: string; type?: string } | null
  const scalingType = scaling?.rope_type ?? scaling?.type ?? rope.rope_type ?? 'default'
  if (scalingType !== 'default') {
    throw new Error(
      `Read config.json: rope scaling "${scalingType}" is not supported; use a checkpoint with default rotary positions.`,
    )
  }
  if (config.hidden_act !== undefined && config.hidden_act !== 'silu') {
    throw new Error(`Read config.json: hidden_act is ${JSON.stringify(config.hidden_act)}; expected "silu".`)
  }
  if (config.use_sliding_window === true)
    throw new Error('Read config.json: sliding-window attention is not supported.')
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
    ropeTheta: number('rope_theta', rope.rope_theta ?? 10000),
    queryKeyNorm: architecture === 'qwen3',
    queryKeyValueBias: architecture === 'qwen2' || config.attention_bias === true,
    tiedHead: config.tie_word_embeddings === true,
    maxLength: number('max_position_embeddings', 2048),
    stopTokens: stopTokens(generation.eos_token_id ?? config.eos_token_id),
  }
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

/** [out, in] of each projection, as the checkpoint stores it. */
export function projectionShapes({
  width,
  heads,
  kvHeads,
  headWidth,
  ffnWidth,
}: Card): Record<Projection, [number, number]> {
  return {
    q_proj: [heads * headWidth, width],
    k_proj: [kvHeads * headWidth, width],
    v_proj: [kvHeads * headWidth, width],
    o_proj: [width, heads * headWidth],
    gate_proj: [ffnWidth, width],
    up_proj: [ffnWidth, width],
    down_proj: [width, ffnWidth],
  }
}

export const PROJECTIONS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const
export type Projection = (typeof PROJECTIONS)[number]

export function projectionPath(layer: number, projection: Projection): string {
  const block = ['gate_proj', 'up_proj', 'down_proj'].includes(projection) ? 'mlp' : 'self_attn'
  return `model.layers.${layer}.${block}.${projection}`
}

export function parameterCount(card: Card): number {
  let count = 0
  for (const shape of weightShapes(card).values()) count += shape.reduce((product, size) => product * size, 1)
  return count
}
