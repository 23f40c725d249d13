// Where the reward starts, whether it moves, and whether it can be trusted.

import { mean } from '../moments.ts'
import { advise, fresherAnswers, largerGroups, lowerLearningRate, pullToReference, rounded, shown } from './advice.ts'
import type { Rule } from './finding.ts'
import { averages, deviation, differences, FEW, LONG, PATIENCE, WINDOW } from './series.ts'

export const baseline: Rule = (run) => {
  const before = run.first('eval/reward/mean', 1) ?? run.first('reward/mean', 1)
  if (before === null) return null
  const evidence = { baseline: before }
  if (before < 0.05)
    return {
      id: 'baseline_too_hard',
      severity: 'warning',
      sentence: `The policy starts at a reward of ${shown(before)}. Below 0.05 it hardly ever does the right thing, and there is little to amplify.`,
      evidence,
      advice: [
        advise('Make the task easier, or start from a stronger model: 0.1 to 0.7 is a good place to begin.'),
        advise('Read some samples: the rubric, the parser or the prompt may ask for something else than you think.'),
      ],
    }
  if (before > 0.8)
    return {
      id: 'baseline_too_easy',
      severity: 'note',
      sentence: `The policy starts at a reward of ${shown(before)}. Above 0.8 there is little left to learn.`,
      evidence,
      advice: [advise('Choose harder examples, or a smaller model.')],
    }
  return null
}

export const flatNearZero: Rule = (run, config) => {
  const rewards = run.last('reward/mean', WINDOW)
  const best = run.last('reward/max', WINDOW)
  if (rewards.length < WINDOW || mean(rewards) > 0.02) return null
  return {
    id: 'flat_near_zero',
    severity: 'problem',
    sentence: `The reward has stayed near zero for ${WINDOW} steps (mean ${shown(mean(rewards))}, best answer ${shown(Math.max(...best))}).`,
    evidence: { 'reward/mean': mean(rewards), 'reward/max': Math.max(...best), steps: WINDOW },
    advice: [
      advise('Read the answers beside the rubric: does a right answer score, and does the prompt say how to give it?'),
      advise('Make the task easier, or give part of the reward for part of the way.'),
      advise('Ask each question more often, so that a rare success is seen.', {
        rollouts_per_example: config.rollouts_per_example * 2,
        batch_size: config.batch_size * 2,
      }),
    ],
  }
}

export const rewardDrop: Rule = (run, config) => {
  const rewards = run.values('reward/mean')
  if (rewards.length < 2 * FEW) return null
  const now = mean(rewards.slice(-FEW))
  const best = Math.max(...averages(rewards, FEW))
  const fall = best - now
  if (fall < 0.25 * run.rewardRange()) return null
  return {
    id: 'reward_drop',
    severity: 'problem',
    sentence: `The reward has fallen from ${shown(best)} to ${shown(now)}.`,
    evidence: { best, now },
    advice: [
      advise('Go back to a save from before the fall.'),
      lowerLearningRate(config),
      ...pullToReference(config),
      largerGroups(config),
    ],
  }
}

export const unstableSwings: Rule = (run, config) => {
  const rewards = run.last('reward/mean', PATIENCE)
  if (rewards.length < PATIENCE) return null
  const changes = differences(rewards)
  const swing = deviation(changes)
  // What chance alone would give: a mean over P prompts, twice, each with the deviation of single rewards.
  const prompts = config.batch_size / config.rollouts_per_example
  const chance = Math.sqrt(2 / prompts) * mean(run.last('reward/std', PATIENCE))
  if (swing < Math.max(2 * chance, 0.1 * run.rewardRange())) return null
  return {
    id: 'unstable_swings',
    severity: 'warning',
    sentence: `The reward swings by ${shown(swing)} from step to step; different questions alone would explain ${shown(chance)}.`,
    evidence: { swing, chance },
    advice: [
      lowerLearningRate(config),
      largerGroups(config),
      ...fresherAnswers(config),
      ...(config.max_grad_norm === null ? [advise('Clip the gradient.', { max_grad_norm: 1 })] : []),
      ...pullToReference(config),
    ],
  }
}

export const slowLearning: Rule = (run, config) => {
  const rewards = run.last('reward/mean', LONG)
  if (rewards.length < LONG || run.isSolved()) return null
  const [before, now] = [mean(rewards.slice(0, WINDOW)), mean(rewards.slice(-WINDOW))]
  const calm = deviation(differences(rewards)) < 0.1 * run.rewardRange()
  if (now - before > 0.02 * run.rewardRange() || before - now > 0.1 * run.rewardRange() || now <= 0.02 || !calm)
    return null
  return {
    id: 'slow_learning',
    severity: 'note',
    sentence: `The run is stable, but the reward went only from ${shown(before)} to ${shown(now)} in ${LONG} steps.`,
    evidence: { before, now, steps: LONG },
    advice: [
      advise(
        'First look at the task: rewards that tell degrees apart, and questions that are sometimes answered well.',
      ),
      advise('Then raise the learning rate, step by step.', { learning_rate: rounded(config.learning_rate * 2) }),
    ],
  }
}

export const heldOutFalls: Rule = (run, config) => {
  const held = run.values('eval/reward/mean')
  if (held.length < FEW) return null
  const [best, now] = [Math.max(...held), held[held.length - 1]]
  const trained = run.now('reward/mean') ?? 0
  const start = run.first('reward/mean', FEW) ?? 0
  if (best - now < 0.1 * run.rewardRange() || trained <= start) return null
  return {
    id: 'held_out_falls',
    severity: 'warning',
    sentence: `The reward rises in training but has fallen from ${shown(best)} to ${shown(now)} on held-out tasks.`,
    evidence: { best, now, training: trained },
    advice: [
      advise('Train on more, and more varied, examples.'),
      advise('Read the best-scored training answers: do they deserve it?'),
      ...pullToReference(config),
    ],
  }
}

export const solved: Rule = (run) => {
  if (!run.isSolved()) return null
  const now = run.now('reward/mean') ?? 0
  return {
    id: 'solved',
    severity: 'note',
    sentence: `The task is nearly solved (reward ${shown(now)}): more steps will teach little.`,
    evidence: { 'reward/mean': now },
    advice: [advise('Move on to harder examples, or stop here.')],
  }
}
