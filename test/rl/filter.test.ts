import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { advantagesOf } from '../../workers/rl/advantages.ts'
import { type FilterConfig, rejections } from '../../workers/rl/filter.ts'
import { group } from './made.ts'

const OFF: FilterConfig = {
  difficulty_filter: { enabled: false, min_reward_variance: 0, min_reward: null, max_reward: null },
  buffer: { online_difficulty_filtering: false },
  curriculum: { advantage_range: null },
}

function reasonFor(rewards: (number | null)[], config: Partial<FilterConfig>): string | null {
  const members = group(...rewards)
  const advantages = advantagesOf(members, { type: 'grpo', divide_by_deviation: false, length_penalty: null })
  return rejections([members], [advantages], { ...OFF, ...config })[0]
}

test('with every filter off a group passes, even one without spread', () => {
  expect(reasonFor([1, 1, 1], {})).toBeNull()
})

test('a group without a single reward is always rejected', () => {
  expect(reasonFor([null, null], {})).toMatch(/every rollout of the group errored/)
})

describe('[difficulty_filter]', () => {
  // The example of the documents.
  const difficulty_filter = { enabled: true, min_reward_variance: 0.1, min_reward: 0.05, max_reward: 0.95 }

  test('keeps a group with spread', () => {
    // variance of (1, 0) = 0.25 ≥ 0.1, mean 0.5
    expect(reasonFor([1, 0], { difficulty_filter })).toBeNull()
  })

  test('rejects too little spread', () => {
    // variance of (0.6, 0.4) = 0.01 < 0.1
    expect(reasonFor([0.6, 0.4], { difficulty_filter })).toBe(
      "Too alike: the rewards' variance 0.0100 is below min_reward_variance 0.1.",
    )
  })

  test('the variance may equal its least value', () => {
    // variance of (1, 0) is exactly 0.25
    const exact = { ...difficulty_filter, min_reward_variance: 0.25 }
    expect(reasonFor([1, 0], { difficulty_filter: exact })).toBeNull()
  })

  test('the mean must lie strictly between its bounds', () => {
    const bounds = { enabled: true, min_reward_variance: 0, min_reward: 0.25, max_reward: 0.75 }
    // means 0.25, 0.75, 0.5
    expect(reasonFor([0.5, 0], { difficulty_filter: bounds })).toMatch(/^Too hard: the mean reward 0.2500/)
    expect(reasonFor([1, 0.5], { difficulty_filter: bounds })).toMatch(/^Too easy: the mean reward 0.7500/)
    expect(reasonFor([1, 0], { difficulty_filter: bounds })).toBeNull()
  })

  test('a missing bound does not bind', () => {
    const open = { enabled: true, min_reward_variance: 0, min_reward: null, max_reward: null }
    expect(reasonFor([0, 0], { difficulty_filter: open })).toBeNull()
  })

  test('does nothing while it is not enabled', () => {
    expect(reasonFor([1, 1], { difficulty_filter: { ...difficulty_filter, enabled: false } })).toBeNull()
  })
})

describe('[buffer] online_difficulty_filtering', () => {
  const buffer = { online_difficulty_filtering: true }

  test('rejects means of exactly 0 and 1, and nothing between', () => {
    expect(reasonFor([0, 0], { buffer })).toBe('Too hard for now: the mean reward is exactly 0.')
    expect(reasonFor([1, 1], { buffer })).toBe('Too easy by now: the mean reward is exactly 1.')
    expect(reasonFor([0, 1], { buffer })).toBeNull()
    expect(reasonFor([0.5, 0.5], { buffer })).toBeNull()
  })

  test('errored rollouts have no say', () => {
    expect(reasonFor([1, null, 1], { buffer })).toMatch(/^Too easy/)
  })
})

describe('[curriculum] advantage_range', () => {
  test('with its defaults rejects a group whose advantages are all zero', () => {
    const curriculum = { advantage_range: { reject_min: 0, reject_max: 0 } }
    expect(reasonFor([0.3, 0.3, 0.3], { curriculum })).toBe('Nothing stands out: every advantage lies within [0, 0].')
    expect(reasonFor([0.3, 0.31], { curriculum })).toBeNull()
  })

  test('one advantage outside the range saves the group', () => {
    // mean(1, 0, 0, 0) = 0.25: advantages 0.75, −0.25, −0.25, −0.25
    const curriculum = { advantage_range: { reject_min: -0.5, reject_max: 0.5 } }
    expect(reasonFor([1, 0, 0, 0], { curriculum })).toBeNull()
    // mean(0.6, 0.4) = 0.5: advantages ±0.1
    expect(reasonFor([0.6, 0.4], { curriculum })).toMatch(/Nothing stands out/)
  })
})

test('for rewards of 0 or 1, the buffer, the gate and a variance above zero reject the same groups', () => {
  const forms: Partial<FilterConfig>[] = [
    { buffer: { online_difficulty_filtering: true } },
    { curriculum: { advantage_range: { reject_min: 0, reject_max: 0 } } },
    { difficulty_filter: { enabled: true, min_reward_variance: 1e-9, min_reward: null, max_reward: null } },
  ]
  fc.assert(
    fc.property(fc.array(fc.constantFrom(0, 1), { minLength: 1, maxLength: 16 }), (rewards) => {
      const spread = rewards.includes(0) && rewards.includes(1)
      for (const form of forms) expect(reasonFor(rewards, form) === null).toBe(spread)
    }),
  )
})
