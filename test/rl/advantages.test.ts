import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type AdvantageConfig, advantagesOf, groupAdvantages } from '../../workers/rl/advantages.ts'
import { group, rollout } from './made.ts'

const GRPO: AdvantageConfig = { type: 'grpo', divide_by_deviation: false, length_penalty: null }

function near(values: (number | null)[], expected: (number | null)[]) {
  expect(values).toHaveLength(expected.length)
  values.forEach((value, i) => {
    const wanted = expected[i]
    if (value === null || wanted === null) expect(value).toBe(wanted)
    else expect(value).toBeCloseTo(wanted, 6)
  })
}

describe('grpo', () => {
  test('an advantage is the reward minus the mean of its group', () => {
    // mean(1, 0, 0.5, 0.5) = 0.5
    near(advantagesOf(group(1, 0, 0.5, 0.5), GRPO), [0.5, -0.5, 0, 0])
  })

  test('each group has its own mean', () => {
    // mean(1, 0) = 0.5, mean(3, 5) = 4
    expect(groupAdvantages([group(1, 0), group(3, 5)], GRPO)).toEqual([
      [0.5, -0.5],
      [-1, 1],
    ])
  })

  test('an errored rollout gets null and stays out of the mean', () => {
    // mean(1, 0) = 0.5; with a silent zero for the second it would be 1/3
    near(advantagesOf(group(1, null, 0), GRPO), [0.5, null, -0.5])
  })

  test('a reward beside an error does not count', () => {
    const broken = rollout(9, { error: 'The judge timed out.' })
    near(advantagesOf([rollout(1), broken, rollout(0)], GRPO), [0.5, null, -0.5])
  })

  test('a group of errors has no advantages at all', () => {
    near(advantagesOf(group(null, null), GRPO), [null, null])
  })

  test('divided by the deviation, advantages have the deviation 1', () => {
    // mean 0.5, variance ((0.5)² + (0.5)²)/2 = 0.25, deviation 0.5: ±0.5 / 0.500001 ≈ ±1
    near(
      advantagesOf(group(1, 0), { ...GRPO, divide_by_deviation: true }).map((a) => a && Math.round(a * 1e4) / 1e4),
      [1, -1],
    )
  })

  test('answers that all scored alike have exactly zero advantage, whatever their number', () => {
    fc.assert(
      fc.property(fc.double({ min: -10, max: 10, noNaN: true }), fc.integer({ min: 1, max: 64 }), (reward, size) => {
        const advantages = advantagesOf(group(...Array(size).fill(reward)), GRPO)
        expect(advantages.every((advantage) => advantage === 0)).toBe(true)
      }),
    )
  })

  test('advantages of a group add up to zero', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 32 }), (rewards) => {
        const sum = advantagesOf(group(...rewards), GRPO).reduce<number>((total, a) => total + (a ?? 0), 0)
        expect(Math.abs(sum)).toBeLessThan(1e-9)
      }),
    )
  })
})

describe('length_penalty', () => {
  const weights = { output: 0.25, input: 0.1, turns: 0.1 }

  test('of two right answers the shorter one is better', () => {
    // Rewards 1 and 1, mean 1; outputs 2 and 4 of at most 4; inputs 2 and 2 of 2; turns 1 and 1 of 1.
    // R′ = 1 − 1·(0.25·2/4 + 0.1 + 0.1) = 0.675  and  1 − 1·(0.25·4/4 + 0.1 + 0.1) = 0.55
    // mean R′ = 0.6125, advantages ±0.0625
    const answers = [rollout(1, { answer: 2 }), rollout(1, { answer: 4 })]
    near(advantagesOf(answers, { ...GRPO, length_penalty: weights }), [0.0625, -0.0625])
  })

  test('turns and given tokens count too', () => {
    // Rewards 1, 1: R′ = 1 − (0.25 + 0.1·2/8 + 0.1·1/4) = 0.7  and  1 − (0.25 + 0.1·8/8 + 0.1·4/4) = 0.55
    const answers = [rollout(1, { prompt: 2, turns: 1 }), rollout(1, { prompt: 8, turns: 4 })]
    near(advantagesOf(answers, { ...GRPO, length_penalty: weights }), [0.075, -0.075])
  })

  test('where nobody scores, length costs nothing', () => {
    const answers = [rollout(0, { answer: 2 }), rollout(0, { answer: 9 })]
    near(advantagesOf(answers, { ...GRPO, length_penalty: weights }), [0, 0])
  })
})

describe('max_rl', () => {
  test('the difference is divided by the mean, so that rare successes weigh more', () => {
    // mean(1, 0, 0, 0) = 0.25: (1 − 0.25)/0.25 = 3, (0 − 0.25)/0.25 = −1
    near(advantagesOf(group(1, 0, 0, 0), { ...GRPO, type: 'max_rl' }), [3, -1, -1, -1])
  })

  test('a mean of zero or less gives zeros', () => {
    near(advantagesOf(group(1, -3), { ...GRPO, type: 'max_rl' }), [0, 0])
  })
})

test('none: the advantage is the reward itself', () => {
  expect(advantagesOf(group(1, 0.25, null), { ...GRPO, type: 'none' })).toEqual([1, 0.25, null])
})
