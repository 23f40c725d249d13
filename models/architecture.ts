// A decoder of the Llama family in numbers: what its weights, and with them memory and speed, depend on.

export interface Architecture {
  vocabulary: number
  width: number
  layers: number
  heads: number
  kvHeads: number
  headWidth: number
  ffnWidth: number
  /** Query and key are normed per head (Qwen3). */
  queryKeyNorm: boolean
  /** The q, k and v projections have biases (Qwen2). */
  queryKeyValueBias: boolean
  /** The head is the embedding, transposed. */
  tiedHead: boolean
  maxLength: number
}

export const PROJECTIONS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const
export type Projection = (typeof PROJECTIONS)[number]

/** [out, in] of each projection of a layer, as a checkpoint stores it. */
export function projectionShapes(a: Architecture): Record<Projection, [number, number]> {
  const { width, heads, kvHeads, headWidth, ffnWidth } = a
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

/** Numbers of one layer's projections. */
export function projectionNumbers(a: Architecture): number {
  return Object.values(projectionShapes(a)).reduce((sum, [out, input]) => sum + out * input, 0)
}

export function parameterCount(a: Architecture): number {
  const norms = 2 * a.width + (a.queryKeyNorm ? 2 * a.headWidth : 0)
  const biases = a.queryKeyValueBias ? (a.heads + 2 * a.kvHeads) * a.headWidth : 0
  const embeddings = a.vocabulary * a.width * (a.tiedHead ? 1 : 2)
  return embeddings + a.layers * (projectionNumbers(a) + norms + biases) + a.width
}
