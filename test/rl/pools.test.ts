import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { RandomStream } from '../../workers/random.ts'
import {
  difficultyOf,
  drawByDifficulty,
  emptyPools,
  mayBeDrawn,
  type PoolConfig,
  recordGroups,
  returnFractions,
} from '../../workers/rl/pools.ts'
import { exampleKey } from '../../workers/rl/rollouts.ts'
import { rollout } from './made.ts'

const CONFIG: PoolConfig = {
  buffer: { easy_threshold: 0.9, hard_threshold: 0.1, easy_fraction: 0, hard_fraction: 0 },
  curriculum: { sampler: 'standard' },
}

function groupOf(example: number, ...rewards: (number | null)[]) {
  return rewards.map((reward) => rollout(reward, { task: example, example, environment: 'sums' }))
}

describe('the buffer', () => {
  test('thresholds are inclusive, and pooled examples are not drawn again', () => {
    // means 0.9, 0.1, 0.5
    const groups = [groupOf(1, 0.9, 0.9), groupOf(2, 0.2, 0), groupOf(3, 1, 0)]
    const pools = recordGroups(emptyPools(), groups, CONFIG)
    expect(pools.easy).toEqual(['sums:1'])
    expect(pools.hard).toEqual(['sums:2'])
    expect(['sums:1', 'sums:2', 'sums:3'].map((key) => mayBeDrawn(pools, key))).toEqual([false, false, true])
  })

  test('without thresholds nothing is ever pooled', () => {
    const none = { ...CONFIG, buffer: { ...CONFIG.buffer, easy_threshold: null, hard_threshold: null } }
    expect(recordGroups(emptyPools(), [groupOf(1, 1, 1), groupOf(2, 0, 0)], none)).toEqual(emptyPools())
  })

  test('a group without rewards says nothing about its example', () => {
    expect(recordGroups(emptyPools(), [groupOf(1, null, null)], CONFIG)).toEqual(emptyPools())
  })

  test('an example is known wherever it comes back, and apart from its namesake elsewhere', () => {
    expect(exampleKey(rollout(1, { task: 99, example: 7, environment: 'sums' }))).toBe('sums:7')
    expect(exampleKey(rollout(1, { task: 5 }))).toBe(':5')
  })

  test('recording twice keeps one entry, and leaves the given pools as they were', () => {
    const once = recordGroups(emptyPools(), [groupOf(1, 1, 1)], CONFIG)
    expect(recordGroups(once, [groupOf(1, 1, 1)], CONFIG).easy).toEqual(['sums:1'])
    expect(once.easy).toHaveLength(1)
  })

  test('a resumed run takes back ⌊fraction · size⌋ examples of each pool', () => {
    fc.assert(
      fc.property(
        fc.nat(30),
        fc.nat(30),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.nat(),
        (easy, hard, fraction, seed) => {
          const names = (count: number, pool: string) => Array.from({ length: count }, (_, i) => `${pool}:${i}`)
          const pools = { easy: names(easy, 'e'), hard: names(hard, 'h'), means: {} }
          const random = new RandomStream(seed)
          const buffer = { ...CONFIG.buffer, easy_fraction: fraction, hard_fraction: 0.5 }
          const resumed = returnFractions(pools, buffer, () => random.next())
          expect(resumed.easy).toHaveLength(easy - Math.floor(easy * fraction))
          expect(resumed.hard).toHaveLength(hard - Math.floor(hard / 2))
          expect(resumed.easy.every((key) => pools.easy.includes(key))).toBe(true)
          expect(pools.easy).toHaveLength(easy)
        },
      ),
    )
  })

  test('pools survive being saved as JSON', () => {
    const pools = recordGroups(emptyPools(), [groupOf(1, 1, 1), groupOf(2, 0, 0)], CONFIG)
    expect(JSON.parse(JSON.stringify(pools))).toEqual(pools)
  })
})

describe('the difficulty_pool sampler', () => {
  const config: PoolConfig = {
    buffer: { easy_threshold: null, hard_threshold: null, easy_fraction: 0, hard_fraction: 0 },
    curriculum: { sampler: 'difficulty_pool' },
  }

  test('pools are hard up to 0.25, normal up to 0.75, easy above; what was never asked is unseen', () => {
    const groups = [groupOf(1, 0.25), groupOf(2, 0.26), groupOf(3, 0.75), groupOf(4, 0.76), groupOf(5, 2)]
    const pools = recordGroups(emptyPools(), groups, config)
    expect([1, 2, 3, 4, 5, 6].map((example) => difficultyOf(pools, `sums:${example}`))).toEqual([
      { name: 'hard', weight: 0.2 },
      { name: 'normal', weight: 1 },
      { name: 'normal', weight: 1 },
      { name: 'easy', weight: 0.2 },
      { name: 'easy', weight: 0.2 },
      { name: 'unseen', weight: 1 },
    ])
  })

  test('the newest mean counts', () => {
    const first = recordGroups(emptyPools(), [groupOf(1, 0, 0)], config)
    expect(difficultyOf(recordGroups(first, [groupOf(1, 1, 0)], config), 'sums:1').name).toBe('normal')
  })

  test('examples are drawn in proportion to their weights', () => {
    // Weights hard 0.2, normal 1, unseen 1: total 2.2, so the bounds are 0.2/2.2 = 0.0909 and 1.2/2.2 = 0.5454
    const pools = recordGroups(emptyPools(), [groupOf(1, 0), groupOf(2, 0.5)], config)
    const keys = ['sums:1', 'sums:2', 'sums:3']
    const draws = [0, 0.09, 0.092, 0.545, 0.546, 0.999999].map((uniform) => drawByDifficulty(pools, keys, uniform))
    expect(draws).toEqual([0, 0, 1, 1, 2, 2])
  })

  test('there must be something to draw from', () => {
    expect(() => drawByDifficulty(emptyPools(), [], 0.5)).toThrow(/finite dataset/)
  })

  test('the standard sampler keeps no means', () => {
    expect(recordGroups(emptyPools(), [groupOf(1, 0.5)], CONFIG).means).toEqual({})
  })
})
