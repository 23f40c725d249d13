// The shapes of the performance anchors, with random weights that are made as they are read.

import { SLICE_BYTES } from '../../workers/gpu/packer.ts'
import type { Card } from '../../workers/policy/card.ts'
import { parameterCount, weightShapes } from '../../workers/policy/card.ts'
import type { Model } from '../../workers/policy/load.ts'

let again: Uint16Array<ArrayBuffer> | null = null

function card(
  vocabulary: number,
  width: number,
  layers: number,
  heads: number,
  kvHeads: number,
  ffnWidth: number,
): Card {
  return {
    architecture: 'llama',
    vocabulary,
    width,
    layers,
    heads,
    kvHeads,
    headWidth: width / heads,
    ffnWidth,
    normEpsilon: 1e-6,
    ropeTheta: 10000,
    ropeScaling: null,
    queryKeyNorm: false,
    queryKeyValueBias: false,
    tiedHead: true,
    maxLength: 4096,
    stopTokens: [],
  }
}

export const SHAPES: Record<string, Card> = {
  tiny: card(512, 256, 6, 8, 8, 768),
  /** SmolLM2-135M. */
  smol135: card(49152, 576, 30, 9, 3, 1536),
  /** Qwen2.5-0.5B. */
  qwen05: card(151936, 896, 24, 14, 2, 4864),
}

/**
 * Uniform in ±0.02·√3, the deviation of the anchors' normal weights; norms are one. As BF16 its rows cost nothing to make:
 * they are one stretch of numbers again and again.
 */
export function randomModel(name: string, dtype: 'F32' | 'BF16' = 'F32'): Model {
  const architecture = SHAPES[name]
  const shapes = weightShapes(architecture)
  let state = 1
  const rows = async (tensor: string, from: number, to: number) => {
    const columns = shapes
      .get(tensor)!
      .slice(1)
      .reduce((product, n) => product * n, 1)
    const values = new Float32Array((to - from) * columns)
    if (tensor.endsWith('norm.weight')) return values.fill(1)
    for (let i = 0; i < values.length; i++) {
      state = (Math.imul(state, 1664525) + 1013904223) | 0
      values[i] = (state / 2147483648) * 0.0346
    }
    return values
  }
  const bytesOf = async (tensor: string, from: number, to: number) => {
    if (dtype === 'F32') return new Uint8Array((await rows(tensor, from, to)).buffer)
    again ??= Uint16Array.from({ length: SLICE_BYTES / 2 }, (_, i) => 0x3c00 + (Math.imul(i, 0x9e3779b1) >>> 25))
    return new Uint8Array(again.buffer, 0, (to - from) * shapes.get(tensor)![1] * 2)
  }
  return {
    name,
    card: architecture,
    parameters: parameterCount(architecture),
    shapeOf: (tensor: string) => shapes.get(tensor)!,
    dtypeOf: () => dtype,
    rows,
    rawRows: bytesOf,
    weight: async (tensor: string) => rows(tensor, 0, shapes.get(tensor)![0]),
    stopTokens: [],
    hash: name,
  } as unknown as Model
}
