// The slope of one token in words and numbers: the formula of the chosen loss with this token's values put in. The
// formulas are those of workers/rl/objectives.ts; the recorded slope decides whether a mask let the token go.

import type { RunConfig } from '../../configs/schema.ts'
import { fixed, number } from '../format.ts'

export interface TokenAtHand {
  logMu: number
  /** log π when the update was computed. */
  logp: number
  slope: number
  advantage: number
}

export interface Explanation {
  formula: string
  numbers: string
  remark: string
}

export function explainSlope(token: TokenAtHand, loss: RunConfig['loss'], lossTokens: number | null): Explanation {
  const d = token.logp - token.logMu
  const ratio = Math.exp(d)
  const advantage = loss.adv_tau * token.advantage
  const perSequence = loss.type === 'ratio_mask' && loss.ratio_type === 'sequence'
  const drift = loss.type === 'ratio_mask' ? loss.kl_tau * ratio * d : 2 * loss.kl_tau * d
  const divisor = perSequence ? 'rows × tokens of the row' : 'loss tokens of the step'
  const driftName = Math.abs(drift) > 1e-6 + 1e-3 * Math.abs(advantage) ? ' + pull back to the sampler' : ''
  const formula = `slope = −advantage × ratio${driftName} ÷ ${divisor}`

  // Let go when what was recorded lies far nearer to the pull alone than to the whole formula.
  const whole = -advantage * ratio + drift
  const scaled = lossTokens === null ? null : token.slope * lossTokens
  const masked =
    scaled !== null && !perSequence && advantage !== 0 && Math.abs(scaled - drift) < 0.1 * Math.abs(scaled - whole)
  const remark =
    advantage === 0
      ? 'An advantage of 0 pushes nothing: the group gave no reason to.'
      : masked
        ? 'The mask let go of this token: its probability had moved far enough.'
        : Math.abs(d) < 1e-3
          ? 'The ratio is 1 because the policy that learns is the one that sampled.'
          : `The ratio π/μ is ${fixed(ratio)}: the policy has moved since it sampled this token.`
  const driftNumber = driftName ? ` ${drift < 0 ? '−' : '+'} ${number(Math.abs(drift))}` : ''
  const numbers =
    lossTokens === null || perSequence
      ? `${number(token.slope)}`
      : `(${fixed(-advantage, 3)} × ${masked ? 'masked' : fixed(ratio, 3)}${driftNumber}) ÷ ${number(lossTokens)} = ${number(token.slope)}`
  return { formula, numbers, remark }
}
