import fc from 'fast-check'
import { expect, test } from 'vitest'
import { learningRate, type SchedulerConfig } from '../../workers/rl/schedule.ts'

function rates(scheduler: Partial<SchedulerConfig>, max_steps: number, learning_rate = 1): number[] {
  const config = { type: 'constant' as const, warmup_steps: 0, decay_steps: 0, min_lr: 0, ...scheduler }
  return Array.from({ length: max_steps }, (_, step) =>
    learningRate(step, { learning_rate, max_steps, scheduler: config }),
  )
}

function near(values: number[], expected: number[]) {
  values.forEach((value, i) => {
    expect(value).toBeCloseTo(expected[i], 9)
  })
}

test('constant is constant', () => {
  near(rates({}, 3, 1e-4), [1e-4, 1e-4, 1e-4])
})

test('a rise over four steps reaches the peak with the fourth update, and the first is not zero', () => {
  near(rates({ warmup_steps: 4 }, 6), [0.25, 0.5, 0.75, 1, 1, 1])
})

test('a floor lifts the rise', () => {
  // 0.2 + 0.8·(1/2) = 0.6
  near(rates({ warmup_steps: 2, min_lr: 0.2 }, 3), [0.6, 1, 1])
})

test('linear: rise, level, and a fall over the last decay_steps', () => {
  // 8 steps, fall over the last 4: remaining/4 = 4/4, 3/4, 2/4, 1/4
  near(rates({ type: 'linear', warmup_steps: 2, decay_steps: 4 }, 8), [0.5, 1, 1, 1, 1, 0.75, 0.5, 0.25])
})

test('linear without decay_steps stays level to the end', () => {
  near(rates({ type: 'linear' }, 3), [1, 1, 1])
})

test('cosine falls from the peak towards the floor', () => {
  // 4 steps, floor 0.2: 0.2 + 0.8·(1 + cos(π·s/4))/2 for s = 0 … 3
  near(rates({ type: 'cosine', min_lr: 0.2 }, 4), [
    1,
    0.2 + 0.4 * (1 + Math.SQRT1_2),
    0.6,
    0.2 + 0.4 * (1 - Math.SQRT1_2),
  ])
})

test('a step past the last stays at the floor', () => {
  const scheduler = { type: 'cosine', warmup_steps: 0, decay_steps: 0, min_lr: 0.1 } as const
  expect(learningRate(9, { learning_rate: 1, max_steps: 4, scheduler })).toBeCloseTo(0.1, 9)
  expect(
    learningRate(9, { learning_rate: 1, max_steps: 4, scheduler: { ...scheduler, type: 'linear', decay_steps: 2 } }),
  ).toBeCloseTo(0.1, 9)
})

test('no schedule leaves the band between floor and peak, and every update has a rate above zero', () => {
  const schedules = fc.record({
    type: fc.constantFrom('constant' as const, 'linear' as const, 'cosine' as const),
    warmup_steps: fc.integer({ min: 0, max: 20 }),
    decay_steps: fc.integer({ min: 0, max: 20 }),
    min_lr: fc.double({ min: 0, max: 0.5, noNaN: true }),
  })
  fc.assert(
    fc.property(schedules, fc.integer({ min: 1, max: 60 }), (scheduler, steps) => {
      for (const rate of rates(scheduler, steps)) {
        expect(rate).toBeGreaterThan(0)
        expect(rate).toBeGreaterThanOrEqual(scheduler.min_lr - 1e-12)
        expect(rate).toBeLessThanOrEqual(1 + 1e-12)
      }
    }),
  )
})
