// How much better an answer is than its siblings. The group is the baseline, so no critic is needed. One number per
// rollout; batch.ts gives it to each of the rollout's sampled tokens.
//
// R reward · m = mean(R) over the group's scored rollouts · A advantage

import { mean, variance } from './moments.ts'
import { type Group, isScored, type Rollout, sampledTokens, scoredRewards } from './rollouts.ts'

export interface AdvantageConfig {
  type: 'grpo' | 'max_rl' | 'none'
  divide_by_deviation: boolean
  length_penalty: LengthPenalty | null
}

/** Weights of the three lengths, each relative to the longest of the group. */
export interface LengthPenalty {
  output: number
  input: number
  turns: number
}

/** Rewards this close together, relative to the group's largest, differ by rounding only. */
const ROUNDING = 1e-12
const SMALLEST_DEVIATION = 1e-6

/** [P][G] advantages; null for a rollout that errored, which is kept out of its group's mean as well. */
export function groupAdvantages(groups: Group[], config: AdvantageConfig): (number | null)[][] {
  return groups.map((group) => advantagesOf(group, config))
}

export function advantagesOf(group: Group, config: AdvantageConfig): (number | null)[] {
  const scored = group.filter(isScored)
  const rewards = config.length_penalty
    ? lengthPenalised(scored, config.length_penalty)
    : scored.map((rollout) => rollout.reward)
  const advantages = FORMULAS[config.type](rewards)
  const scale = config.divide_by_deviation ? 1 / (Math.sqrt(variance(rewards)) + SMALLEST_DEVIATION) : 1
  let next = 0
  return group.map((rollout) => (isScored(rollout) ? advantages[next++] * scale : null))
}

const FORMULAS: Record<AdvantageConfig['type'], (rewards: number[]) => number[]> = {
  // A = R − m. Left out by default: division by the deviation, which makes a group of near-ties shout as loudly as a
  // group of real differences (Liu et al. 2025, «Dr. GRPO»; prime-rl leaves it out too).
  grpo: (rewards) => centred(rewards),

  // A = (R − m) / m, and 0 where m ≤ 0: hard tasks weigh more, as maximum likelihood would have it (MaxRL).
  max_rl: (rewards) => {
    const baseline = mean(rewards)
    return centred(rewards).map((difference) => (baseline > 0 ? difference / baseline : 0))
  },

  // A = R: plain REINFORCE, no baseline.
  none: (rewards) => rewards,
}

function centred(rewards: number[]): number[] {
  const baseline = mean(rewards)
  // The mean of equal numbers can miss them by a rounding error; a tie must be an exact zero to be left out.
  const tie = ROUNDING * Math.max(...rewards.map(Math.abs))
  return rewards.map((reward) => (Math.abs(reward - baseline) <= tie ? 0 : reward - baseline))
}

// R′ = R − m · (w_out·out/max out + w_in·in/max in + w_turns·turns/max turns), each maximum over the group, at least 1.
function lengthPenalised(scored: (Rollout & { reward: number })[], weights: LengthPenalty): number[] {
  const baseline = mean(scoredRewards(scored))
  const outputs = scored.map(sampledTokens)
  const inputs = scored.map((rollout, i) => rollout.ids.length - outputs[i])
  const turns = scored.map((rollout) => rollout.turns)
  const [mostOutput, mostInput, mostTurns] = [outputs, inputs, turns].map((lengths) => Math.max(1, ...lengths))
  return scored.map((rollout, i) => {
    const lengths =
      (weights.output * outputs[i]) / mostOutput +
      (weights.input * inputs[i]) / mostInput +
      (weights.turns * turns[i]) / mostTurns
    return rollout.reward - baseline * lengths
  })
}
