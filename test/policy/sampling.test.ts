// From logits to a token, in plain numbers.

import { describe, expect, it } from 'vitest'
import { drawToken, type TokenRule } from '../../workers/policy/sampling.ts'
import { noiseKey, RandomStream, threefry, uniform } from '../../workers/random.ts'

const RULE: TokenRule = { temperature: 1, topP: 1, topK: -1, minP: 0, repetitionPenalty: 1 }

/** How often each token is drawn by `draws` uniforms of one key. */
function counts(logits: number[], rule: TokenRule, draws: number, seen: number[] = []): number[] {
  const result = logits.map(() => 0)
  const key = noiseKey(11, 'train', 5, 0)
  for (let position = 0; position < draws; position++)
    result[drawToken(logits, uniform(key, position), rule, seen).token]++
  return result
}

describe('threefry', () => {
  it('gives the known answers of Random123 for 20 rounds', () => {
    expect(threefry(0, 0, 0, 0)).toEqual([0x6b200159, 0x99ba4efe])
    expect(threefry(0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff)).toEqual([0x1cb996fc, 0xbb002be7])
    expect(threefry(0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3)).toEqual([0xc4923a9c, 0x483df7a0])
  })

  it('gives a uniform that depends on every part of its key', () => {
    const base = uniform(noiseKey(1, 'train', 2, 3), 4)
    const others = [
      uniform(noiseKey(2, 'train', 2, 3), 4),
      uniform(noiseKey(1, 'eval', 2, 3), 4),
      uniform(noiseKey(1, 'train', 3, 3), 4),
      uniform(noiseKey(1, 'train', 2, 4), 4),
      uniform(noiseKey(1, 'train', 2, 3), 5),
    ]
    for (const other of others) expect(other).not.toBe(base)
    expect(uniform(noiseKey(1, 'train', 2, 3), 4)).toBe(base)
  })

  it('has a mean of one half and a variance of one twelfth', () => {
    const key = noiseKey(3, 'train', 0, 0)
    const values = Array.from({ length: 40_000 }, (_, i) => uniform(key, i))
    const mean = values.reduce((sum, v) => sum + v, 0) / values.length
    const variance = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / values.length
    // Standard errors: √(1/12 / 40000) = 0.0014, and about 0.0004.
    expect(Math.abs(mean - 0.5)).toBeLessThan(0.006)
    expect(Math.abs(variance - 1 / 12)).toBeLessThan(0.002)
  })

  it('forks streams by name: the same name again is the same stream, another is another', () => {
    const stream = new RandomStream(9)
    stream.next()
    expect(stream.fork('a', 1).next()).toBe(new RandomStream(9).fork('a', 1).next())
    expect(stream.fork('a', 1).next()).not.toBe(stream.fork('a', 2).next())
  })
})

describe('drawToken', () => {
  it('draws by the inverse of the cumulative distribution, in the order of ids', () => {
    // p = ¼, ½, ¼: the cells are (0, ¼], (¼, ¾], (¾, 1).
    const logits = [0, Math.log(2), 0]
    expect([0.2, 0.26, 0.74, 0.76].map((u) => drawToken(logits, u, RULE).token)).toEqual([0, 1, 1, 2])
  })

  it('gives log p and the entropy of the distribution before truncation', () => {
    const logits = [0, Math.log(2), 0]
    const { logp, entropy } = drawToken(logits, 0.5, { ...RULE, topK: 1 })
    expect(logp).toBeCloseTo(Math.log(0.5), 12)
    // −(¼ ln ¼ + ½ ln ½ + ¼ ln ¼) = 1.5 ln 2
    expect(entropy).toBeCloseTo(1.5 * Math.log(2), 12)
  })

  it('divides logits by the temperature, in the draw and in what it reports', () => {
    // Logits (0, ln 2) at T = ½ are (0, ln 4): p = ⅕, ⅘.
    expect(drawToken([0, Math.log(2)], 0.19, { ...RULE, temperature: 0.5 })).toMatchObject({
      token: 0,
      logp: expect.closeTo(Math.log(0.2), 10),
    })
    expect(drawToken([0, Math.log(2)], 0.21, { ...RULE, temperature: 0.5 }).token).toBe(1)
  })

  it('draws rare tokens as often as they are due (χ²)', () => {
    // 40 tokens with p from 0.0005 on; 40,000 draws expect at least 20 of each.
    const weights = Array.from({ length: 40 }, (_, i) => 1 + i * i)
    const total = weights.reduce((sum, w) => sum + w, 0)
    const draws = 40_000 * 12
    const got = counts(weights.map(Math.log), RULE, draws)
    const chi2 = weights.reduce((sum, w, i) => sum + (got[i] - (draws * w) / total) ** 2 / ((draws * w) / total), 0)
    // 39 degrees of freedom: 99.9 % lie below 72.
    expect(chi2).toBeLessThan(72)
    expect((draws * weights[0]) / total).toBeGreaterThan(20)
  })

  it('keeps the top k, the smallest set of mass p, and what is at least min_p of the best', () => {
    // p = 0.5, 0.3, 0.15, 0.05 at ids 2, 0, 3, 1.
    const logits = [0.3, 0.05, 0.5, 0.15].map(Math.log)
    const kept = (rule: Partial<TokenRule>) => counts(logits, { ...RULE, ...rule }, 2000).map((n) => n > 0)
    expect(kept({ topK: 2 })).toEqual([true, false, true, false])
    expect(kept({ topP: 0.79 })).toEqual([true, false, true, false])
    expect(kept({ topP: 0.81 })).toEqual([true, false, true, true])
    // 0.15 / 0.5 = 0.3
    expect(kept({ minP: 0.31 })).toEqual([true, false, true, false])
    expect(kept({ minP: 0.29 })).toEqual([true, false, true, true])
  })

  it('divides a seen token’s positive logit by the penalty and multiplies a negative one', () => {
    // Seen 0: ln 4 / 2 = ln 2, so p = 2/3 instead of 4/5.
    const share = counts([Math.log(4), 0], { ...RULE, repetitionPenalty: 2 }, 30_000, [0])[0] / 30_000
    expect(share).toBeCloseTo(2 / 3, 1.5)
    // Seen 1 with logit −1 becomes −2: p = e⁻² / (1 + e⁻²) = 0.119
    expect(counts([0, -1], { ...RULE, repetitionPenalty: 2 }, 30_000, [1])[1] / 30_000).toBeCloseTo(0.119, 1.5)
  })

  it('takes the likeliest token at temperature 0 and reports the distribution at 1', () => {
    expect(drawToken([1, 3, 2], 0.99, { ...RULE, temperature: 0 })).toMatchObject({
      token: 1,
      logp: expect.closeTo(-0.4076, 4),
    })
  })

  it('says that logits which are not finite give no token', () => {
    expect(drawToken([Number.NaN, 1], 0.5, RULE).token).toBe(-1)
    expect(drawToken([Number.POSITIVE_INFINITY, 1], 0.5, RULE).token).toBe(-1)
  })
})
