// What can learn here: the bundled checkpoints, and models of the hub that are known to fit, with the numbers of their
// architecture, so that a page can say what a run needs before anything is fetched.

import type { Architecture } from './architecture.ts'

export interface KnownModel {
  /** As a config names it. */
  id: string
  title: string
  bundled: boolean
  architecture: Architecture
  /** Bytes of its weight files. */
  bytes: number
  licence: string
  /** Its owner asks for an account that has accepted the terms. */
  gated: boolean
  /** What it is good for. */
  about: string
}

const QWEN3 = { queryKeyNorm: true, queryKeyValueBias: false, tiedHead: true }
const QWEN2 = { queryKeyNorm: false, queryKeyValueBias: true, tiedHead: true }
const LLAMA = { queryKeyNorm: false, queryKeyValueBias: false, tiedHead: true }

/** Smallest first. */
export const models: readonly KnownModel[] = [
  {
    id: 'lab-nano',
    title: 'lab-nano',
    bundled: true,
    architecture: {
      ...QWEN3,
      ...{ vocabulary: 264, width: 64, layers: 2, heads: 4, kvHeads: 2, headWidth: 16, ffnWidth: 192, maxLength: 256 },
    },
    bytes: 233_624,
    licence: 'Apache-2.0',
    gated: false,
    about: 'Learns on any processor within minutes.',
  },
  {
    id: 'lab-tiny',
    title: 'lab-tiny',
    bundled: true,
    architecture: {
      ...QWEN3,
      ...{ vocabulary: 264, width: 256, layers: 6, heads: 8, kvHeads: 4, headWidth: 32, ffnWidth: 768, maxLength: 512 },
    },
    bytes: 9_586_976,
    licence: 'Apache-2.0',
    gated: false,
    about: 'Learns within a minute on a GPU.',
  },
  {
    id: 'HuggingFaceTB/SmolLM2-135M-Instruct',
    title: 'SmolLM2 135M',
    bundled: false,
    architecture: {
      ...LLAMA,
      ...{ vocabulary: 49152, width: 576, layers: 30, heads: 9, kvHeads: 3, headWidth: 64, ffnWidth: 1536 },
      maxLength: 8192,
    },
    bytes: 269_060_552,
    licence: 'Apache-2.0',
    gated: false,
    about: 'The smallest that writes sentences; for a GPU of a laptop.',
  },
  {
    id: 'HuggingFaceTB/SmolLM2-360M-Instruct',
    title: 'SmolLM2 360M',
    bundled: false,
    architecture: {
      ...LLAMA,
      ...{ vocabulary: 49152, width: 960, layers: 32, heads: 15, kvHeads: 5, headWidth: 64, ffnWidth: 2560 },
      maxLength: 8192,
    },
    bytes: 723_674_912,
    licence: 'Apache-2.0',
    gated: false,
    about: 'Follows instructions more often than its small sister.',
  },
  {
    id: 'Qwen/Qwen2.5-0.5B-Instruct',
    title: 'Qwen2.5 0.5B',
    bundled: false,
    architecture: {
      ...QWEN2,
      ...{ vocabulary: 151936, width: 896, layers: 24, heads: 14, kvHeads: 2, headWidth: 64, ffnWidth: 4864 },
      maxLength: 32768,
    },
    bytes: 988_097_824,
    licence: 'Apache-2.0',
    gated: false,
    about: 'The usual start of small GRPO runs: arithmetic, short code, function calls.',
  },
  {
    id: 'Qwen/Qwen3-0.6B',
    title: 'Qwen3 0.6B',
    bundled: false,
    architecture: {
      ...QWEN3,
      ...{ vocabulary: 151936, width: 1024, layers: 28, heads: 16, kvHeads: 8, headWidth: 128, ffnWidth: 3072 },
      maxLength: 40960,
    },
    bytes: 1_503_300_328,
    licence: 'Apache-2.0',
    gated: false,
    about: 'Thinks aloud before it answers, unless sampling.enable_thinking = false.',
  },
  {
    id: 'meta-llama/Llama-3.2-1B-Instruct',
    title: 'Llama 3.2 1B',
    bundled: false,
    architecture: {
      ...LLAMA,
      ...{ vocabulary: 128256, width: 2048, layers: 16, heads: 32, kvHeads: 8, headWidth: 64, ffnWidth: 8192 },
      maxLength: 131072,
    },
    bytes: 2_471_645_608,
    licence: 'Llama 3.2 Community',
    gated: true,
    about: 'The largest of this list; for a GPU with memory to spare.',
  },
]

export function knownModel(id: string): KnownModel | null {
  return models.find((model) => model.id === id) ?? null
}
