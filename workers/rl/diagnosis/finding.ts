// What a rule reads, and what it answers.

import type { Series } from './series.ts'

/** The knobs that advice speaks of; a RunConfig is one. */
export interface DiagnosisConfig {
  batch_size: number
  rollouts_per_example: number
  learning_rate: number
  max_async_level: number
  oversampling_factor: number
  max_grad_norm: number | null
  sampling: {
    max_tokens: number
    temperature: number
    top_p: number
    top_k: number
    min_p: number
    repetition_penalty: number
  }
  buffer: { online_difficulty_filtering: boolean }
  kl_penalty: { enabled: boolean; beta: number; target_kl: number | null }
  loss: { entropy_coefficient: number }
}

export interface Finding {
  id: string
  severity: 'note' | 'warning' | 'problem'
  sentence: string
  /** The numbers the sentence rests on. */
  evidence: Record<string, number>
  advice: Advice[]
}

export interface Advice {
  sentence: string
  /** Dotted keys of the config and their new values; empty when the remedy is not a knob. */
  delta: Record<string, number | boolean>
}

export type Rule = (run: Series, config: DiagnosisConfig) => Finding | null
