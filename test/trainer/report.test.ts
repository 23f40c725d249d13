import { expect, it } from 'vitest'
import { RandomStream } from '../../workers/random.ts'
import { short } from '../../workers/step/report.ts'

it('keeps six digits of a number of any size, as its decimal spelling would', () => {
  const random = new RandomStream(1)
  for (let i = 0; i < 20_000; i++) {
    const value = Math.fround(random.normal() * 10 ** (random.integer(40) - 24))
    // A tie may be rounded the other way: one unit of the sixth digit at most.
    expect(Math.abs(short(value) - Number(value.toPrecision(6)))).toBeLessThanOrEqual(Math.abs(value) * 1.0001e-5)
    // No digit stands behind the sixth.
    expect(Number(short(value).toPrecision(6))).toBe(short(value))
  }
  const values = [0, -0, 1, -1.5, 0.1, 123456, 1234567, 1e-30]
  expect(values.map(short)).toEqual([0, -0, 1, -1.5, 0.1, 123456, 1234570, 1e-30])
  expect(short(Number.NaN)).toBeNaN()
  expect(short(Number.POSITIVE_INFINITY)).toBe(Number.POSITIVE_INFINITY)
})
