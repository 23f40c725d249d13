import { describe, expect, it } from 'vitest'
import { runConfig } from '../../configs/schema.ts'
import { explainSlope } from '../../web/learn/slope.ts'
import { lossAndSlopes } from '../../workers/rl/loss.ts'

const N = 4592

/** The slope that the loss itself gives a token, as one row of one token among N. */
function recorded(type: 'default' | 'ipo' | 'ratio_mask' | 'ppo', logp: number, logMu: number, advantage: number) {
  const loss = runConfig.parse({ loss: { type } }).loss
  const tokens = { logp: [logp], logMu: [logMu], advantages: [advantage], offsets: [0, 1], entropy: [0] }
  const { slopes } = lossAndSlopes(tokens, loss, { lossTokens: N, lossRows: 1 })
  return { slope: slopes[0], loss, token: { logp, logMu, advantage, slope: slopes[0] } }
}

describe('the words for a slope', () => {
  it('give the numbers of an on-policy token', () => {
    // −0.22 × 1 ÷ 4,592 = −4.79e-5
    const { token, loss } = recorded('default', -0.41, -0.41, 0.22)
    const said = explainSlope(token, loss, N)
    expect(said.formula).toBe('slope = −advantage × ratio ÷ loss tokens of the step')
    expect(said.numbers).toBe('(−0.220 × 1.000) ÷ 4,592 = −4.8e−5')
    expect(said.remark).toContain('the policy that learns is the one that sampled')
  })

  it.each(['default', 'ipo', 'ppo', 'ratio_mask'] as const)('notice that the %s loss let a token go', (type) => {
    // π/μ = e⁵ and π − μ = 0.67: far beyond every bound for a token that is pushed up
    const { token, loss } = recorded(type, -0.4, -5.4, 0.5)
    expect(explainSlope(token, loss, N).remark).toContain('let go')
  })

  it.each(['default', 'ipo', 'ppo', 'ratio_mask'] as const)(
    'do not say so of a token that the %s loss kept',
    (type) => {
      const { token, loss } = recorded(type, -0.41, -0.45, 0.5)
      const said = explainSlope(token, loss, N)
      expect(said.remark).not.toContain('let go')
      expect(said.remark).toContain('1.04')
    },
  )

  it('say that an advantage of 0 pushes nothing', () => {
    const { token, loss } = recorded('default', -0.41, -0.41, 0)
    expect(explainSlope(token, loss, N).remark).toContain('pushes nothing')
  })
})
