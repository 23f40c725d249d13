// What the answers look like: all the same, ever longer, cut off, errored, or without anything to compare.

import { mean } from '../moments.ts'
import { advise, afterCollapse, largerGroups, lowerLearningRate, percent, shown } from './advice.ts'
import type { Rule } from './finding.ts'
import { FEW, WINDOW } from './series.ts'

export const entropyCollapse: Rule = (run, config) => {
  const key = run.has('sampling_entropy/mean') ? 'sampling_entropy/mean' : 'entropy/all/mean'
  const [before, now] = [run.first(key, FEW), run.now(key)]
  if (before === null || now === null || now > 0.02 || now > 0.1 * before || run.isSolved()) return null
  return {
    id: 'entropy_collapse',
    severity: 'problem',
    sentence: `Entropy has fallen from ${shown(before)} to ${shown(now)} nats although the task is not solved: the policy has stopped trying other answers.`,
    evidence: { before, now },
    advice: afterCollapse(config),
  }
}

export const identicalOutputs: Rule = (run, config) => {
  const distinct = run.now('group/distinct')
  const least = 1 / config.rollouts_per_example
  if (distinct === null || config.rollouts_per_example < 4 || distinct > 1.5 * least || run.isSolved()) return null
  return {
    id: 'identical_outputs',
    severity: 'problem',
    sentence: `Nearly all answers to a question are the same (${(distinct * config.rollouts_per_example).toFixed(1)} different ones among ${config.rollouts_per_example}), so there is nothing to compare.`,
    evidence: { 'group/distinct': distinct, rollouts_per_example: config.rollouts_per_example },
    advice: afterCollapse(config),
  }
}

export const lengthExplosion: Rule = (run, config) => {
  const key = 'num_output_tokens/mean'
  const [before, now] = [run.first(key, FEW), run.now(key)]
  if (before === null || now === null || now < 2 * before || now < 0.5 * config.sampling.max_tokens) return null
  return {
    id: 'length_explosion',
    severity: 'warning',
    sentence: `Completions have grown from ${Math.round(before)} to ${Math.round(now)} tokens, of ${config.sampling.max_tokens} allowed.`,
    evidence: { before, now, max_tokens: config.sampling.max_tokens },
    advice: [
      advise('Read some: repetition that scores well is a gap in the rubric.'),
      advise('Let length cost a little.', { 'advantage.length_penalty.output': 0.25 }),
      lowerLearningRate(config),
    ],
  }
}

export const noSpread: Rule = (run, config) => {
  const alike = mean(run.last('group/alike', WINDOW))
  if (run.last('group/alike', WINDOW).length < FEW || alike < 0.5) return null
  const groups = config.batch_size / config.rollouts_per_example
  const count = Math.round(alike * groups)
  const [solved, failed] = [mean(run.last('solved_all', WINDOW)), mean(run.last('solved_none', WINDOW))]
  const mostly =
    solved >= 0.5 * alike ? 'solved by all' : failed >= 0.5 * alike ? 'failed by all' : 'given equal scores'
  return {
    id: 'no_spread',
    severity: run.isSolved() ? 'note' : 'warning',
    sentence: `In ${count} of ${groups} groups all answers score alike, most of them ${mostly}: they teach nothing.`,
    evidence: { groups, alike: count, solved_all: solved, solved_none: failed },
    advice: [
      ...(config.buffer.online_difficulty_filtering
        ? []
        : [
            advise('If rewards are 0 or 1: leave such groups out and draw others instead.', {
              'buffer.online_difficulty_filtering': true,
              oversampling_factor: Math.max(2, config.oversampling_factor),
            }),
          ]),
      largerGroups(config),
      solved >= 0.5 * alike
        ? advise('Move on to harder examples.')
        : advise('Give part of the reward for part of the way, so that failures differ.'),
      ...(config.sampling.temperature < 1
        ? [advise('Sample at a higher temperature.', { 'sampling.temperature': 1 })]
        : []),
    ],
  }
}

export const errors: Rule = (run) => {
  const share = run.now('has_error/mean')
  // More than one in twenty is a smell, say prime-rl's docs.
  if (share === null || share <= 0.05) return null
  return {
    id: 'errors',
    severity: share > 0.5 ? 'problem' : 'warning',
    sentence: `${percent(share)} of the rollouts errored and taught nothing.`,
    evidence: { 'has_error/mean': share },
    advice: [
      advise(
        'Open an errored rollout: its error names the function or the deadline. A judge that answers late wants fewer requests at once, or a longer deadline.',
      ),
    ],
  }
}

export const truncated: Rule = (run, config) => {
  const share = run.now('is_truncated/mean')
  if (share === null || share <= 0.2) return null
  return {
    id: 'truncated',
    severity: 'warning',
    sentence: `${percent(share)} of the answers were cut off before they ended.`,
    evidence: { 'is_truncated/mean': share, max_tokens: config.sampling.max_tokens },
    advice: [
      advise('Allow longer answers.', { 'sampling.max_tokens': config.sampling.max_tokens * 2 }),
      advise('Or ask for shorter ones in the prompt, or let length cost a little.'),
    ],
  }
}
