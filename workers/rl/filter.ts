// Which groups are worth learning from. Every rejected group gets a reason in words. The three forms that trainers have
// had are all here: a table of bounds ([difficulty_filter]), prime-rl's 2026-01 buffer ([buffer]) and its 2026-08 gate
// ([curriculum]). Which tasks are drawn next is pools.ts; ties are left out later, row by row, by batch.ts.

import { mean, variance } from './moments.ts'
import { type Group, scoredRewards } from './rollouts.ts'

export interface FilterConfig {
  difficulty_filter: DifficultyFilterConfig
  buffer: { online_difficulty_filtering: boolean }
  curriculum: { advantage_range: AdvantageRange | null }
}

/** Keeps a group when variance ≥ `min_reward_variance` and `min_reward` < mean < `max_reward`; null is no bound. */
export interface DifficultyFilterConfig {
  enabled: boolean
  min_reward_variance: number
  min_reward: number | null
  max_reward: number | null
}

/** Rejects a group when all its advantages lie in [reject_min, reject_max]. */
export interface AdvantageRange {
  reject_min: number
  reject_max: number
}

/** Per group: why it is rejected, or null when it is kept. Errored rollouts (advantage null) have no say. */
export function rejections(groups: Group[], advantages: (number | null)[][], config: FilterConfig): (string | null)[] {
  return groups.map((group, g) => {
    const rewards = scoredRewards(group)
    if (rewards.length === 0) return 'No answer has a reward: every rollout of the group errored.'
    const scored = advantages[g].filter((advantage) => advantage !== null)
    return (
      outOfBounds(rewards, config.difficulty_filter) ??
      allOrNothing(rewards, config.buffer.online_difficulty_filtering) ??
      withinRange(scored, config.curriculum.advantage_range)
    )
  })
}

/** Why a group is too old to learn from by the policy of `version`, or null: prime-rl voids such a group as a whole. */
export function tooOld(
  group: Group,
  version: number,
  { max_off_policy_steps: most }: { max_off_policy_steps: number },
): string | null {
  const lag = group.reduce((oldest, rollout) => {
    return rollout.sampled.reduce((lag, flag, i) => (flag ? Math.max(lag, version - rollout.version[i]) : lag), oldest)
  }, 0)
  if (lag <= most) return null
  return `Too old: sampled ${lag} updates ago, and max_off_policy_steps is ${most}.`
}

function outOfBounds(rewards: number[], config: DifficultyFilterConfig): string | null {
  if (!config.enabled) return null
  const { min_reward_variance, min_reward, max_reward } = config
  const [average, spread] = [mean(rewards), variance(rewards)]
  if (spread < min_reward_variance)
    return `Too alike: the rewards' variance ${shown(spread)} is below min_reward_variance ${min_reward_variance}.`
  if (min_reward !== null && average <= min_reward)
    return `Too hard: the mean reward ${shown(average)} is not above min_reward ${min_reward}.`
  if (max_reward !== null && average >= max_reward)
    return `Too easy: the mean reward ${shown(average)} is not below max_reward ${max_reward}.`
  return null
}

// Meant for rewards of 0 or 1: a mean of exactly 0 or 1 says that all failed or all succeeded.
function allOrNothing(rewards: number[], enabled: boolean): string | null {
  if (!enabled) return null
  const average = mean(rewards)
  if (average === 0) return 'Too hard for now: the mean reward is exactly 0.'
  if (average === 1) return 'Too easy by now: the mean reward is exactly 1.'
  return null
}

function withinRange(advantages: number[], range: AdvantageRange | null): string | null {
  if (range === null) return null
  const { reject_min, reject_max } = range
  if (advantages.some((advantage) => advantage < reject_min || advantage > reject_max)) return null
  return `Nothing stands out: every advantage lies within [${reject_min}, ${reject_max}].`
}

function shown(value: number): string {
  return value.toFixed(4)
}
