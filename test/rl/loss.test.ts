import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { k3, k3Slope, nextBeta } from '../../workers/rl/divergence.ts'
import { firstNonFinite, type LossTokens, lossAndSlopes } from '../../workers/rl/loss.ts'
import { mergeStats } from '../../workers/rl/lossStats.ts'
import { deviationOf, meanOf } from '../../workers/rl/moments.ts'
import type { LossConfig } from '../../workers/rl/objectives.ts'
import { LOSS } from './made.ts'

const { log, exp } = Math

/** One row of tokens given by probabilities now (π) and when sampled (μ), and one advantage for all. */
function row(now: number[], then: number[], advantage: number): LossTokens {
  return {
    logp: now.map(log),
    logMu: then.map(log),
    advantages: now.map(() => advantage),
    offsets: [0, now.length],
  }
}

function slopesOf(tokens: LossTokens, config: Partial<LossConfig>, lossTokens = 1): number[] {
  return [...lossAndSlopes(tokens, { ...LOSS, ...config }, { lossTokens, lossRows: 1 }).slopes]
}

function near(values: ArrayLike<number>, expected: number[], digits = 5) {
  expect(values.length).toBe(expected.length)
  expected.forEach((value, i) => {
    expect(values[i]).toBeCloseTo(value, digits)
  })
}

describe('on the policy that sampled', () => {
  test.each(['default', 'ipo', 'ratio_mask', 'ppo'] as const)('%s: the slope is −A/N, plain REINFORCE', (type) => {
    // r = 1, d = 0, nothing masked, no drift: −2/4 each, even with kl_tau
    near(slopesOf(row([0.5, 0.9], [0.5, 0.9], 2), { type, kl_tau: 0.5 }, 4), [-0.5, -0.5])
  })
})

describe('default: the binary total-variation mask', () => {
  test('a kept token weighs its advantage by the ratio', () => {
    // π 0.6, μ 0.5: r = 1.2, π−μ = 0.1 ≤ 0.2. Value −1·1.2/2 = −0.6, slope the same.
    const tokens = row([0.6], [0.5], 1)
    const { loss, slopes } = lossAndSlopes(tokens, LOSS, { lossTokens: 2, lossRows: 1 })
    expect(loss).toBeCloseTo(-0.6, 9)
    near(slopes, [-0.6])
  })

  test('an encouraged token is let go once its probability has risen by more than dppo_mask_high', () => {
    // 0.75 − 0.5 = 0.25 > 0.2 is let go; falling, 0.25 − 0.5 = −0.25, it is not: −1·0.5
    near(slopesOf(row([0.75, 0.25], [0.5, 0.5], 1), {}), [0, -0.5])
  })

  test('a discouraged token is let go once its probability has fallen by more than dppo_mask_low', () => {
    // A = −1: at 0.25 let go; at 0.75 kept: +1·1.5
    near(slopesOf(row([0.25, 0.75], [0.5, 0.5], -1), {}), [0, 1.5])
  })

  test('the two thresholds are separate', () => {
    near(slopesOf(row([0.75], [0.5], 1), { dppo_mask_high: 0.3 }), [-1.5])
    near(slopesOf(row([0.25], [0.5], -1), { dppo_mask_low: 0.3 }), [0.5])
  })

  test('drift holds masked tokens too', () => {
    // Masked, so only kl_tau·d² with d = log 1.5 = 0.405465: value 0.1·0.164402, slope 2·0.1·0.405465
    const { loss, slopes } = lossAndSlopes(
      row([0.75], [0.5], 1),
      { ...LOSS, kl_tau: 0.1 },
      { lossTokens: 1, lossRows: 1 },
    )
    expect(loss).toBeCloseTo(0.0164402, 6)
    near(slopes, [0.081093])
  })

  test('adv_tau scales the advantage and not the drift', () => {
    // −3·1·1.2 + 2·0.1·log 1.2 = −3.6 + 0.0364643
    near(slopesOf(row([0.6], [0.5], 1), { adv_tau: 3, kl_tau: 0.1 }), [-3.5635357])
  })
})

test('ipo lets a token go whichever way its probability moved', () => {
  // |0.65 − 0.5| = 0.15 > 0.1 both for A = 1 and A = −1; 0.55 is kept: ∓1.1
  near(slopesOf(row([0.65, 0.55, 0.35], [0.5, 0.5, 0.5], 1), { type: 'ipo' }), [0, -1.1, 0])
  near(slopesOf(row([0.65, 0.55, 0.35], [0.5, 0.5, 0.5], -1), { type: 'ipo' }), [0, 1.1, 0])
})

describe('ratio_mask', () => {
  const type = 'ratio_mask'

  test('the coefficient r·(A − kl_tau·d) is a constant: the slope is minus it, the value minus it times log π', () => {
    // r = 1.2, d = 0.182322: 1.2·(1 − 0.5·0.182322) = 1.090607; log 0.6 = −0.510826; value +0.557110
    const { loss, slopes } = lossAndSlopes(
      row([0.6], [0.5], 1),
      { ...LOSS, type, kl_tau: 0.5 },
      { lossTokens: 1, lossRows: 1 },
    )
    near(slopes, [-1.090607])
    expect(loss).toBeCloseTo(0.55711, 5)
  })

  test('a token whose ratio lies outside its bounds is left out alone', () => {
    // Ratios 0.9/0.1 = 9 > 8, 0.05/0.5 = 0.1 < 0.125, 1. Geometric mean (0.9)^(1/3): within bounds.
    near(slopesOf(row([0.9, 0.05, 0.5], [0.1, 0.5, 0.5], 1), { type }), [0, 0, -1])
  })

  test('a row whose geometric mean lies outside its bounds is left out whole', () => {
    // Ratios 1.5 and 1.5: geometric mean 1.5 > 1.4; and 0.5 and 0.5 < 0.6
    near(slopesOf(row([0.75, 0.75], [0.5, 0.5], 1), { type, geo_mask_high: 1.4 }), [0, 0])
    near(slopesOf(row([0.25, 0.25], [0.5, 0.5], 1), { type, geo_mask_low: 0.6 }), [0, 0])
  })

  test('one ratio outside the sequence bounds leaves the whole row out', () => {
    // Ratios 2 and 1: the greatest, 2 > 1.9. Ratios 0.5 and 1: the least, 0.5 < 0.6.
    near(slopesOf(row([0.8, 0.5], [0.4, 0.5], 1), { type, sequence_mask_high: 1.9 }), [0, 0])
    near(slopesOf(row([0.2, 0.5], [0.4, 0.5], 1), { type, sequence_mask_low: 0.6 }), [0, 0])
  })

  test('rows are masked one by one', () => {
    const tokens = {
      logp: [0.8, 0.5, 0.5].map(log),
      logMu: [0.4, 0.5, 0.5].map(log),
      advantages: [1, 1, 1],
      offsets: [0, 2, 3],
    }
    near(slopesOf(tokens, { type, sequence_mask_high: 1.9 }), [0, 0, -1])
  })

  test('with a sequence ratio, every token carries the product of the ratios, and rows weigh alike', () => {
    // Row 1: ratios 1.2 and 1.5, product 1.8, two tokens, two rows: −1.8/(2·2) = −0.45 each.
    // Row 2: ratio 1, one token: −1/(2·1) = −0.5.
    const tokens = {
      logp: [0.6, 0.75, 0.5].map(log),
      logMu: [0.5, 0.5, 0.5].map(log),
      advantages: [1, 1, 1],
      offsets: [0, 2, 3],
    }
    const { slopes } = lossAndSlopes(tokens, { ...LOSS, type, ratio_type: 'sequence' }, { lossTokens: 3, lossRows: 2 })
    near(slopes, [-0.45, -0.45, -0.5])
  })

  test('the product is clipped at sequence_clip_high', () => {
    // Ratios 1.5 and 1.5: 2.25 clipped to 2, over two tokens of one row
    near(slopesOf(row([0.75, 0.75], [0.5, 0.5], 1), { type, ratio_type: 'sequence', sequence_clip_high: 2 }), [-1, -1])
  })

  test('a product too large for a number stays finite', () => {
    const drift = {
      logp: Array(900).fill(-1),
      logMu: Array(900).fill(-2),
      advantages: Array(900).fill(1),
      offsets: [0, 900],
    }
    const { loss } = lossAndSlopes(drift, { ...LOSS, type, ratio_type: 'sequence' }, { lossTokens: 900, lossRows: 1 })
    expect(Number.isFinite(loss)).toBe(true)
  })
})

describe('ppo', () => {
  const type = 'ppo'

  test('an encouraged token stops counting above 1 + clip_high, and its value stays at the clip', () => {
    // r = 1.5: min(1.5, 1.2)·1 = 1.2, slope 0
    const { loss, slopes } = lossAndSlopes(row([0.75], [0.5], 1), { ...LOSS, type }, { lossTokens: 1, lossRows: 1 })
    expect(loss).toBeCloseTo(-1.2, 9)
    near(slopes, [0])
  })

  test('a discouraged token stops counting below 1 − clip_low', () => {
    // r = 0.5, A = −1: min(−0.5, −0.8) = −0.8, slope 0; at r = 1.5: min(−1.5, −1.2) = −1.5, slope +1.5
    near(slopesOf(row([0.25, 0.75], [0.5, 0.5], -1), { type }), [0, 1.5])
  })

  test('a token moved the wrong way still counts', () => {
    // A = 1, r = 0.5: min(0.5, 0.8) = 0.5, slope −0.5
    near(slopesOf(row([0.25], [0.5], 1), { type }), [-0.5])
  })
})

describe('the reference penalty', () => {
  test('k3 is e^x − x − 1 with x = log q − log p', () => {
    // p = 0.5, q = 0.25: x = −log 2: 0.5 + 0.693147 − 1 = 0.193147; slope 1 − 0.5 = 0.5
    expect(k3(log(0.25), log(0.5))).toBeCloseTo(0.193147, 6)
    expect(k3Slope(log(0.25), log(0.5))).toBeCloseTo(0.5, 9)
    expect(k3(log(0.3), log(0.3))).toBe(0)
  })

  test('k3 averages to the divergence over tokens drawn from p', () => {
    // KL(p‖q) = 0.7·log(0.7/0.4) + 0.3·log(0.3/0.6) = 0.183787; Σ p·k3 must be the same
    const [p, q] = [
      [0.7, 0.3],
      [0.4, 0.6],
    ]
    const divergence = p[0] * log(p[0] / q[0]) + p[1] * log(p[1] / q[1])
    const estimate = p.reduce((sum, pk, k) => sum + pk * k3(log(q[k]), log(pk)), 0)
    expect(estimate).toBeCloseTo(divergence, 9)
    expect(estimate).toBeCloseTo(0.183787, 6)
  })

  test('it adds β·k3 to every token, masked ones included', () => {
    // Masked, so only β: 0.4·0.193147/2 and 0.4·0.5/2
    const tokens = { ...row([0.5], [0.2], 1), logRef: [log(0.25)] }
    const { loss, slopes, stats } = lossAndSlopes(tokens, LOSS, { lossTokens: 2, lossRows: 1 }, 0.4)
    expect(loss).toBeCloseTo(0.0386294, 6)
    near(slopes, [0.1])
    expect(meanOf(stats.ref_kl)).toBeCloseTo(0.193147, 6)
  })

  test('without log-probabilities of the reference it is refused with a sentence', () => {
    expect(() => lossAndSlopes(row([0.5], [0.5], 1), LOSS, { lossTokens: 1, lossRows: 1 }, 0.1)).toThrow(/Pass logRef/)
  })

  test('β grows while the distance is above its target and shrinks below it, by 2 % at most', () => {
    const config = { enabled: true, beta: 0.1, target_kl: 0.01 }
    // 0.05/0.01 − 1 = 4, clipped to 0.2: 0.1·1.02. 0.0105: error 0.05: 0.1·1.005. 0: clipped to −0.2: 0.1·0.98
    expect(nextBeta(0.1, 0.05, config)).toBeCloseTo(0.102, 9)
    expect(nextBeta(0.1, 0.0105, config)).toBeCloseTo(0.1005, 9)
    expect(nextBeta(0.1, 0, config)).toBeCloseTo(0.098, 9)
    expect(nextBeta(0.1, 0.05, { ...config, target_kl: null })).toBe(0.1)
    expect(nextBeta(0.1, 0.05, { ...config, enabled: false })).toBe(0.1)
  })
})

describe('the entropy bonus', () => {
  // Softmax over four tokens: ∇_k log π(a) = [a = k] − π_k and ∇_k H = −π_k·(log π_k + H).
  // Expected slope-weighted gradient Σ_a π(a)·slope(a)·∇ log π(a) must be −β·∇H: minimising the loss raises H.
  const probabilities = [0.5, 0.3, 0.15, 0.05]
  const H = -probabilities.reduce((sum, p) => sum + p * log(p), 0)
  const beta = 0.3

  test.each([
    ['without its baseline', undefined],
    ['with its baseline', probabilities.map(() => H)],
  ])('has the slope of −β·H in expectation, %s', (_, entropy) => {
    const tokens = { ...row(probabilities, probabilities, 0), entropy }
    const slopes = slopesOf(tokens, { entropy_coefficient: beta })
    for (let k = 0; k < 4; k++) {
      const gradient = probabilities.reduce(
        (sum, p, a) => sum + p * slopes[a] * (Number(a === k) - probabilities[k]),
        0,
      )
      expect(gradient).toBeCloseTo(beta * probabilities[k] * (log(probabilities[k]) + H), 6)
    }
  })

  test('joins the advantage, hand-worked', () => {
    // A′ = 1 − 0.1·(log 0.5 + 0.6) = 1 − 0.1·(−0.093147) = 1.0093147
    const tokens = { ...row([0.5], [0.5], 1), entropy: [0.6] }
    near(slopesOf(tokens, { entropy_coefficient: 0.1 }), [-1.0093147])
  })
})

// The slope is the derivative of the value, (L(log π + h) − L(log π − h)) / 2h, token by token. ratio_mask is not here:
// its coefficient is a constant by definition, so its value is not its slope's integral.
describe.each(['default', 'ipo', 'ppo'] as const)('%s: slopes are the derivatives of the value', (type) => {
  const token = fc.record({
    logMu: fc.double({ min: -6, max: -0.01, noNaN: true }),
    drift: fc.double({ min: -1, max: 1, noNaN: true }),
    advantage: fc.double({ min: -2, max: 2, noNaN: true }),
    reference: fc.double({ min: -6, max: -0.01, noNaN: true }),
  })

  test('for random tokens with drift and a reference', () => {
    fc.assert(
      fc.property(fc.array(token, { minLength: 1, maxLength: 6 }), (all) => {
        const config = { ...LOSS, type, kl_tau: 0.05 }
        const lossAt = (logp: number[]) =>
          lossAndSlopes(
            {
              logp,
              logMu: all.map((one) => one.logMu),
              advantages: all.map((one) => one.advantage),
              logRef: all.map((one) => one.reference),
              offsets: [0, all.length],
            },
            config,
            { lossTokens: all.length, lossRows: 1 },
            0.1,
          )
        const logp = all.map((one) => one.logMu + one.drift)
        const h = 1e-6
        const { slopes } = lossAt(logp)
        all.forEach((one, t) => {
          // At a mask's or clip's edge the value has no derivative.
          const change = exp(logp[t]) - exp(one.logMu)
          const edges = [0.2, -0.2, 0.1, -0.1].map((edge) => change - edge)
          const clips = [1.2, 0.8].map((edge) => exp(one.drift) - edge)
          fc.pre([...edges, ...clips].every((distance) => Math.abs(distance) > 1e-4))
          const moved = (by: number) => lossAt(logp.map((value, i) => (i === t ? value + by : value))).loss
          const derivative = (moved(h) - moved(-h)) / (2 * h)
          expect(slopes[t]).toBeCloseTo(derivative, 5 - Math.ceil(Math.log10(1 + Math.abs(derivative))))
        })
      }),
    )
  })
})

describe('what the loss saw', () => {
  test('shares of masked tokens, and the drift of masked and kept ones', () => {
    // A = 1: token 1 (0.75 from 0.5) is masked high, token 2 (0.5 from 0.5) kept.
    // Drift r − d − 1: 1.5 − log 1.5 − 1 = 0.094535 and 0; mean 0.047267
    const { stats } = lossAndSlopes(row([0.75, 0.5], [0.5, 0.5], 1), LOSS, { lossTokens: 2, lossRows: 1 })
    expect(meanOf(stats.is_masked)).toBe(0.5)
    expect(meanOf(stats.is_masked_high)).toBe(0.5)
    expect(meanOf(stats.is_masked_low)).toBe(0)
    expect(meanOf(stats.masked_advantage_positive)).toBe(0.5)
    expect(meanOf(stats.mismatch_kl)).toBeCloseTo(0.047267, 6)
    expect(meanOf(stats.masked_mismatch_kl)).toBeCloseTo(0.094535, 6)
    expect(meanOf(stats.unmasked_mismatch_kl)).toBe(0)
    // Ratios 1.5 and 1: mean 1.25, deviation 0.25, geometric mean √1.5 = 1.224745
    expect(meanOf(stats.ratio)).toBeCloseTo(1.25, 9)
    expect(deviationOf(stats.ratio)).toBeCloseTo(0.25, 9)
    expect(meanOf(stats.geo_seq_ratio)).toBeCloseTo(1.224745, 6)
  })

  test('two passes together saw what one pass over both would have seen', () => {
    const [first, second] = [row([0.75, 0.5], [0.5, 0.5], 1), row([0.25], [0.5], -1)]
    const both: LossTokens = {
      logp: [...Array.from(first.logp), ...Array.from(second.logp)],
      logMu: [...Array.from(first.logMu), ...Array.from(second.logMu)],
      advantages: [1, 1, -1],
      offsets: [0, 2, 3],
    }
    const counts = { lossTokens: 3, lossRows: 2 }
    const merged = mergeStats(lossAndSlopes(first, LOSS, counts).stats, lossAndSlopes(second, LOSS, counts).stats)
    expect(merged).toEqual(lossAndSlopes(both, LOSS, counts).stats)
  })
})

describe('the guard', () => {
  test('names row and token of the first number that is not finite', () => {
    expect(firstNonFinite([1, 2, Number.NaN, 4], [0, 1, 4])).toEqual({ row: 1, token: 1, value: Number.NaN })
    expect(firstNonFinite([1, Number.POSITIVE_INFINITY], [0, 2])).toEqual({
      row: 0,
      token: 1,
      value: Number.POSITIVE_INFINITY,
    })
    expect(firstNonFinite([1, 2], [0, 2])).toBeNull()
  })

  test('a log-probability that is not a number leaves a slope that the guard finds', () => {
    const tokens = { logp: [-1, Number.NaN], logMu: [-1, -1], advantages: [1, 1], offsets: [0, 2] }
    const { slopes } = lossAndSlopes(tokens, LOSS, { lossTokens: 2, lossRows: 1 })
    expect(firstNonFinite(slopes, tokens.offsets)?.token).toBe(1)
  })
})
