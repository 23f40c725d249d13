// A model folder in memory with random weights, opened the way every model is.

import { BYTE_VOCABULARY, byteTokenizerConfig, byteTokenizerJson, qwen3Config } from '../../models/byteLevel.ts'
import { readCard, weightShapes } from '../../workers/policy/card.ts'
import { type Model, openModel } from '../../workers/policy/load.ts'
import { MissingFile, type Read, writeSafetensors } from '../../workers/policy/weights.ts'
import { RandomStream } from '../../workers/random.ts'

export const SMALL = {
  hidden_size: 24,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 8,
  intermediate_size: 40,
  max_position_embeddings: 160,
  rope_theta: 10000,
  tie_word_embeddings: true,
  vocab_size: BYTE_VOCABULARY,
}

export function randomFiles(size: Partial<typeof SMALL> = {}, seed = 1, deviation = 0.3): Record<string, Uint8Array> {
  const config = qwen3Config({ ...SMALL, ...size }, 'float32')
  const random = new RandomStream(seed)
  const tensors = [...weightShapes(readCard(config))].map(([name, shape]) => {
    const stream = random.fork(name)
    const length = shape.reduce((product, n) => product * n, 1)
    const norm = name.endsWith('norm.weight')
    return {
      name,
      shape,
      data: Float32Array.from({ length }, () => (norm ? 1 + 0.1 * stream.normal() : deviation * stream.normal())),
    }
  })
  const json = (value: object) => new TextEncoder().encode(JSON.stringify(value))
  return {
    'config.json': json(config),
    'tokenizer.json': json(byteTokenizerJson()),
    'tokenizer_config.json': json(byteTokenizerConfig(160)),
    'model.safetensors': writeSafetensors(tensors, 'F32'),
  }
}

export function readFrom(files: Record<string, Uint8Array>): Read {
  return async (path, range) => {
    const bytes = files[path]
    if (!bytes) throw new MissingFile(`Read ${path}: there is no such file.`)
    return range ? bytes.subarray(range.start, range.end) : bytes
  }
}

export function randomModel(size: Partial<typeof SMALL> = {}, seed = 1): Promise<Model> {
  return openModel(readFrom(randomFiles(size, seed)), 'random')
}
