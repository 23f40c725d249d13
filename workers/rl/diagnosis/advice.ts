// Advice that several rules give, as changes to the config, and how numbers are written in sentences.

import type { Advice, DiagnosisConfig } from './finding.ts'

/** A remedy; without a `delta` it is not a knob. */
export function advise(sentence: string, delta: Advice['delta'] = {}): Advice {
  return { sentence, delta }
}

export function lowerLearningRate({ learning_rate }: DiagnosisConfig): Advice {
  return advise('Lower the learning rate.', { learning_rate: rounded(learning_rate / 3) })
}

export function largerGroups({ rollouts_per_example, batch_size }: DiagnosisConfig): Advice {
  return advise('Ask each question more often: the group’s mean becomes a better baseline.', {
    rollouts_per_example: rollouts_per_example * 2,
    batch_size: batch_size * 2,
  })
}

export function fresherAnswers({ max_async_level }: DiagnosisConfig): Advice[] {
  return max_async_level === 0 ? [] : [advise('Learn from fresher answers.', { max_async_level: max_async_level - 1 })]
}

export function pullToReference({ kl_penalty }: DiagnosisConfig): Advice[] {
  return kl_penalty.enabled
    ? [advise('Pull harder to the reference.', { 'kl_penalty.beta': rounded(kl_penalty.beta * 2) })]
    : [advise('Pull the policy to its reference.', { 'kl_penalty.enabled': true, 'kl_penalty.target_kl': 0.01 })]
}

export function wholeDistribution({ top_p, top_k, min_p, repetition_penalty }: DiagnosisConfig['sampling']): Advice[] {
  if (top_p >= 1 && top_k <= 0 && min_p === 0 && repetition_penalty === 1) return []
  return [
    advise('Sample from the whole distribution: a cut or a penalty makes the ratio approximate.', {
      'sampling.top_p': 1,
      'sampling.top_k': -1,
      'sampling.min_p': 0,
      'sampling.repetition_penalty': 1,
    }),
  ]
}

export function afterCollapse(config: DiagnosisConfig): Advice[] {
  return [
    advise('Go back to a save from before the collapse.'),
    lowerLearningRate(config),
    advise('Reward uncertainty a little.', {
      'loss.entropy_coefficient': Math.max(0.001, rounded(config.loss.entropy_coefficient * 2)),
    }),
    ...pullToReference(config),
    ...(config.sampling.temperature < 1
      ? [advise('Sample at a higher temperature.', { 'sampling.temperature': 1 })]
      : []),
  ]
}

export function shown(value: number): string {
  return Math.abs(value) >= 0.01 || value === 0 ? value.toFixed(2) : value.toExponential(1)
}

export function percent(share: number): string {
  return `${Math.round(100 * share)} %`
}

/** Two significant digits: a value someone would type. */
export function rounded(value: number): number {
  return Number(value.toPrecision(2))
}
