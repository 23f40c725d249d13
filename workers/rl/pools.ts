// What is known of each example's difficulty, and which examples are drawn because of it. Plain data that a save can
// hold; examples are named by `exampleKey`. Two systems: prime-rl's 2026-01 buffer takes examples out of the draw for
// good, its 2026-08 curriculum draws them more or less often.

import { mean } from './moments.ts'
import { exampleKey, type Group, scoredRewards } from './rollouts.ts'

export interface Pools {
  /** Examples taken out of the draw because they were too easy, or too hard. */
  easy: string[]
  hard: string[]
  /** Newest mean reward of each example's group; kept for the `difficulty_pool` sampler only. */
  means: Record<string, number>
}

export interface PoolConfig {
  buffer: BufferConfig
  curriculum: { sampler: 'standard' | 'difficulty_pool' }
}

/** Thresholds on a group's mean reward, inclusive; null switches one off. */
export interface BufferConfig {
  easy_threshold: number | null
  hard_threshold: number | null
  /** Share of the pool that goes back into the draw when a run is resumed. */
  easy_fraction: number
  hard_fraction: number
}

export function emptyPools(): Pools {
  return { easy: [], hard: [], means: {} }
}

/** The pools after these groups were scored. A group that moves to a pool is still learned from this once. */
export function recordGroups(pools: Pools, groups: Group[], { buffer, curriculum }: PoolConfig): Pools {
  const easy = new Set(pools.easy)
  const hard = new Set(pools.hard)
  const means = { ...pools.means }
  for (const group of groups) {
    const rewards = scoredRewards(group)
    if (rewards.length === 0) continue
    const [key, average] = [exampleKey(group[0]), mean(rewards)]
    if (buffer.easy_threshold !== null && average >= buffer.easy_threshold) easy.add(key)
    else if (buffer.hard_threshold !== null && average <= buffer.hard_threshold) hard.add(key)
    if (curriculum.sampler === 'difficulty_pool') means[key] = average
  }
  return { easy: [...easy], hard: [...hard], means }
}

/** False for an example that the buffer has taken out of the draw. */
export function mayBeDrawn(pools: Pools, key: string): boolean {
  return !pools.easy.includes(key) && !pools.hard.includes(key)
}

/**
 * The pools as a resumed run begins with them: ⌊fraction · size⌋ examples of each go back into the draw.
 * `uniform` gives numbers in [0, 1).
 */
export function returnFractions(pools: Pools, config: BufferConfig, uniform: () => number): Pools {
  return {
    ...pools,
    easy: withoutSome(pools.easy, config.easy_fraction, uniform),
    hard: withoutSome(pools.hard, config.hard_fraction, uniform),
  }
}

function withoutSome(keys: string[], fraction: number, uniform: () => number): string[] {
  const left = [...keys]
  for (let n = Math.floor(keys.length * fraction); n > 0; n--) left.splice(Math.floor(uniform() * left.length), 1)
  return left
}

// Thresholds are inclusive; the last pool takes whatever lies above.
const DIFFICULTIES = [
  { name: 'hard', upTo: 0.25, weight: 0.2 },
  { name: 'normal', upTo: 0.75, weight: 1 },
  { name: 'easy', upTo: Number.POSITIVE_INFINITY, weight: 0.2 },
] as const

export type Difficulty = 'unseen' | (typeof DIFFICULTIES)[number]['name']

/** How hard an example was when it was last asked, and its weight in the draw. */
export function difficultyOf(pools: Pools, key: string): { name: Difficulty; weight: number } {
  const average = pools.means[key]
  if (average === undefined) return { name: 'unseen', weight: 1 }
  const { name, weight } = DIFFICULTIES.find((pool) => average <= pool.upTo) ?? DIFFICULTIES[2]
  return { name, weight }
}

/** One of `keys`, with replacement, in proportion to its weight; `uniform` is in [0, 1). Returns its index. */
export function drawByDifficulty(pools: Pools, keys: readonly string[], uniform: number): number {
  if (keys.length === 0)
    throw new Error('Drawing by difficulty: there are no examples to draw from. The sampler needs a finite dataset.')
  const weights = keys.map((key) => difficultyOf(pools, key).weight)
  let left = uniform * weights.reduce((sum, weight) => sum + weight, 0)
  for (let i = 0; i < weights.length; i++) {
    left -= weights[i]
    if (left < 0) return i
  }
  return weights.length - 1
}
