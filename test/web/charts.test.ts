import { describe, expect, it } from 'vitest'
import { bandPath, linear, linePath, nearest, niceDomain, ticks } from '../../web/charts/scale.ts'
import { heldOutReward, inUnit } from '../../web/charts/series.ts'
import { shownToken, tints } from '../../web/charts/tokens.ts'
import type { EvaluationPoint } from '../../web/state/run.svelte.ts'

describe('scales', () => {
  it('map a domain onto pixels and back', () => {
    // 0 … 40 on 30 … 630: 15 pixels a step
    const x = linear([0, 40], [30, 630])
    expect(x(14)).toBe(240)
    expect(x.invert(240)).toBe(14)
  })

  it('give round ticks that do not drift', () => {
    expect(ticks([0, 1], 2)).toEqual([0, 0.5, 1])
    expect(ticks([0, 0.35], 3)).toEqual([0, 0.2])
    expect(ticks([0, 0.7], 7)).toEqual([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    expect(ticks([0, 40], 8)).toEqual([0, 5, 10, 15, 20, 25, 30, 35, 40])
  })

  it('find a domain for equal values, for none, and around zero', () => {
    expect(niceDomain([])).toEqual([0, 1])
    const [low, high] = niceDomain([3, 3, Number.NaN])
    expect(low).toBeLessThan(3)
    expect(high).toBeGreaterThan(3)
    expect(niceDomain([-0.0021, -0.0016], 0)[1]).toBeCloseTo(0)
  })

  it('leave a gap where a value is missing', () => {
    expect(
      linePath([
        [0, 1],
        [1, Number.NaN],
        [2, 3],
        [3, 4],
      ]),
    ).toBe('M0 1M2 3L3 4')
    expect(bandPath([{ x: 0, low: 1, high: 2 }])).toBe('')
  })

  it('find the nearest step', () => {
    expect(nearest([1, 2, 5], 3.4)).toBe(1)
    expect(nearest([], 3)).toBe(-1)
  })
})

describe('series', () => {
  it('average the held-out reward over environments of one step', () => {
    // (0.2 + 0.6) / 2 = 0.4
    const points: EvaluationPoint[] = [
      { step: 0, environment: 'a', metrics: { 'eval/a/avg@1': 0.2 } },
      { step: 0, environment: 'b', metrics: { 'eval/b/avg@1': 0.6 } },
      { step: 5, environment: 'all', metrics: { 'eval/reward/mean': 0.9, 'eval/a/avg@1': 0.1 } },
    ]
    expect(heldOutReward(points)).toEqual([
      { step: 0, value: 0.4 },
      { step: 5, value: 0.9 },
    ])
  })

  it('write a value in its unit', () => {
    expect(inUnit(0.0625, 'share')).toBe('6.25 %')
    expect(inUnit(8465, 'tokens/s')).toBe('8,465 tok/s')
    expect(inUnit(2.1e-7, 'nats')).toBe('2.1e−7')
  })
})

describe('tokens', () => {
  const token = { text: ['a', 'b', 'c'], sampled: [1, 1, 0], logMu: [-1, -0.5, 0], entropy: [1, 1, 0] }

  it('are tinted by the direction of the change, the strongest fully', () => {
    // |A|·Δ: 0.5·0.2 = 0.1 and 0.5·(−0.4) = −0.2; relative √(0.1/0.2) = 0.707 and −1; the third was not sampled
    const record = { ...token, logp: [-1, -0.5, 0], logpAfter: [-0.8, -0.9, 5], slope: [0, 0, 0] }
    const { kind, values } = tints(record, -0.5)
    expect(kind).toBe('change')
    expect(values[0]).toBeCloseTo(Math.SQRT1_2)
    expect(values[1]).toBeCloseTo(-1)
    expect(values[2]).toBe(0)
  })

  it('show a change by rounding alone as next to nothing', () => {
    const record = { ...token, logp: [-1, -0.5, 0], logpAfter: [-1 + 1e-7, -0.5 - 1e-7, 0], slope: null }
    expect(Math.max(...tints(record, 1).values.map(Math.abs))).toBeLessThan(0.01)
  })

  it('are tinted by their push where the change was not measured', () => {
    const record = { ...token, logp: [-1, -0.5, 0], logpAfter: null, slope: [-2e-5, 1e-5, 0] }
    expect(tints(record, 1).kind).toBe('push')
    expect(tints(record, 1).values[0]).toBe(1)
    expect(tints(record, 1).values[1]).toBeLessThan(0)
  })

  it('show whitespace and nothing at all', () => {
    expect(['a b', '\n', ''].map(shownToken)).toEqual(['a␣b', '⏎\n', '∅'])
  })
})
