// What the update meets: ratios, masks, gradients, and the distance to the reference.

import { advise, fresherAnswers, lowerLearningRate, percent, rounded, shown, wholeDistribution } from './advice.ts'
import type { Rule } from './finding.ts'
import { LONG, median, WINDOW } from './series.ts'

export const notFinite: Rule = (run, config) => {
  const skipped = run.values('optim/skipped').at(-1) ?? 0
  if (skipped === 0) return null
  return {
    id: 'not_finite',
    severity: 'problem',
    sentence: `${skipped} updates were skipped because a number was infinite or undefined.`,
    evidence: { 'optim/skipped': skipped },
    advice: [lowerLearningRate(config), advise('Go back to the last good save.')],
  }
}

export const ratioOff: Rule = (run, config) => {
  const ratio = run.now('importance_ratio/mean')
  const mismatch = run.now('mismatch_kl/all/mean')
  if (ratio === null || mismatch === null) return null
  // 0.01 is the most that prime-rl's own checks accept.
  if (Math.abs(ratio - 1) <= 0.05 && mismatch <= 0.01) return null
  const stale = (run.now('off_policy/max') ?? 0) > 0
  const evidence = { 'importance_ratio/mean': ratio, 'mismatch_kl/all/mean': mismatch }
  if (!stale)
    return {
      id: 'ratio_off',
      severity: 'problem',
      sentence: `Sampling and learning disagree about the same policy: mean ratio ${ratio.toFixed(3)} instead of 1, drift ${shown(mismatch)} nats.`,
      evidence,
      advice: [
        ...wholeDistribution(config.sampling),
        advise('Keep more digits where sampling and learning differ: a wider type for the frozen weights.'),
      ],
    }
  return {
    id: 'off_policy_drift',
    severity: 'warning',
    sentence: `The policy has moved away from the one that sampled: mean ratio ${ratio.toFixed(3)}, drift ${shown(mismatch)} nats.`,
    evidence,
    advice: [...fresherAnswers(config), lowerLearningRate(config)],
  }
}

export const manyMasked: Rule = (run, config) => {
  const masked = run.now('is_masked/mean')
  if (masked === null || masked < 0.1) return null
  return {
    id: 'many_masked',
    severity: 'warning',
    sentence: `The loss leaves out ${percent(masked)} of the tokens because their probabilities have moved too far since sampling.`,
    evidence: { 'is_masked/mean': masked },
    advice: [lowerLearningRate(config), ...fresherAnswers(config)],
  }
}

export const gradientSpike: Rule = (run, config) => {
  const norms = run.last('optim/grad_norm', LONG)
  if (norms.length < WINDOW) return null
  const usual = median(norms.slice(0, -1))
  const now = norms[norms.length - 1]
  if (usual === 0 || now < 10 * usual) return null
  return {
    id: 'gradient_spike',
    severity: 'warning',
    sentence: `The gradient norm jumped to ${shown(now)}; ${shown(usual)} is usual for this run.`,
    evidence: { now, usual },
    advice: [
      config.max_grad_norm === null
        ? advise('Clip the gradient.', { max_grad_norm: rounded(2 * usual) })
        : advise('Clip the gradient harder.', { max_grad_norm: rounded(Math.min(config.max_grad_norm, 2 * usual)) }),
      lowerLearningRate(config),
    ],
  }
}

export const farFromReference: Rule = (run, config) => {
  const distance = run.now('ref_kl/mean')
  const target = config.kl_penalty.target_kl
  if (distance === null || target === null || distance < 2 * target) return null
  return {
    id: 'far_from_reference',
    severity: 'warning',
    sentence: `The policy is ${shown(distance)} nats from the reference; the target is ${shown(target)}.`,
    evidence: { 'ref_kl/mean': distance, target_kl: target },
    advice: [advise('Pull harder.', { 'kl_penalty.beta': rounded(config.kl_penalty.beta * 2) })],
  }
}
