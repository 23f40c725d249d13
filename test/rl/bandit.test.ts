// The algorithm end to end, without a network: a policy that is a table of logits learns to spell a word for each task.

import { describe, expect, test } from 'vitest'
import { RandomStream } from '../../workers/random.ts'
import { groupAdvantages } from '../../workers/rl/advantages.ts'
import { makeBatch, split } from '../../workers/rl/batch.ts'
import { diagnose } from '../../workers/rl/diagnosis.ts'
import { rejections } from '../../workers/rl/filter.ts'
import { lossAndSlopes } from '../../workers/rl/loss.ts'
import { type LossStats, mergeStats, noStats } from '../../workers/rl/lossStats.ts'
import type { LossConfig } from '../../workers/rl/objectives.ts'
import type { Group } from '../../workers/rl/rollouts.ts'
import { learningRate } from '../../workers/rl/schedule.ts'
import { stepMetrics } from '../../workers/rl/stepMetrics.ts'
import { LOSS } from './made.ts'

const TASKS = 4
const LETTERS = 5
const WORD = 3

interface Knobs {
  seed: number
  microBatchSize: number
  /** Updates on each batch; from the second on, the policy is no longer the one that sampled. */
  updates: number
  learning_rate: number
  loss: Partial<LossConfig>
  /** Pull to the uniform policy at the start. */
  beta: number
}

/** One softmax over letters per task and place: logits[task][place·LETTERS + letter]. */
class TablePolicy {
  readonly logits = Array.from({ length: TASKS }, () => new Float64Array(WORD * LETTERS))
  readonly gradient = Array.from({ length: TASKS }, () => new Float64Array(WORD * LETTERS))

  probabilities(task: number, place: number): number[] {
    const logits = [...this.logits[task].subarray(place * LETTERS, (place + 1) * LETTERS)]
    const top = Math.max(...logits)
    const weights = logits.map((logit) => Math.exp(logit - top))
    const sum = weights.reduce((a, b) => a + b)
    return weights.map((weight) => weight / sum)
  }

  // ∂log π(letter)/∂logit_k = [k = letter] − π_k
  addGradient(task: number, place: number, letter: number, slope: number): void {
    this.probabilities(task, place).forEach((p, k) => {
      this.gradient[task][place * LETTERS + k] += slope * (Number(k === letter) - p)
    })
  }

  descend(rate: number): void {
    this.logits.forEach((logits, task) => {
      for (let i = 0; i < logits.length; i++) logits[i] -= rate * this.gradient[task][i]
      this.gradient[task].fill(0)
    })
  }
}

const entropyOf = (probabilities: number[]) => -probabilities.reduce((sum, p) => sum + p * Math.log(p), 0)

/** The word to spell: letters task, task+1, task+2, going round. */
const wanted = (task: number, place: number) => (task + place) % LETTERS

function answer(policy: TablePolicy, task: number, attempt: number, version: number, random: RandomStream) {
  const letters = Array.from({ length: WORD }, (_, place) => {
    let left = random.next()
    const letter = policy.probabilities(task, place).findIndex((p) => {
      left -= p
      return left < 0
    })
    return letter < 0 ? LETTERS - 1 : letter
  })
  const of = <T>(value: (place: number) => T) => letters.map((_, place) => value(place))
  const right = letters.filter((letter, place) => letter === wanted(task, place)).length
  return {
    task,
    attempt,
    reward: right / WORD,
    error: null,
    ids: Int32Array.of(task, ...letters),
    sampled: Uint8Array.of(0, ...of(() => 1)),
    logMu: Float32Array.of(0, ...of((place) => Math.log(policy.probabilities(task, place)[letters[place]]))),
    entropy: Float32Array.of(0, ...of((place) => entropyOf(policy.probabilities(task, place)))),
    version: Int32Array.of(0, ...of(() => version)),
    turns: 1,
    truncated: false,
  }
}

function train(steps: number, knobs: Partial<Knobs>) {
  const { seed, microBatchSize, updates, learning_rate, loss, beta }: Knobs = {
    seed: 1,
    microBatchSize: 8,
    updates: 1,
    learning_rate: 40,
    loss: {},
    beta: 0,
    ...knobs,
  }
  const config = {
    batch_size: 64,
    rollouts_per_example: 16,
    learning_rate,
    max_steps: steps,
    max_async_level: 0,
    oversampling_factor: 1,
    max_grad_norm: null,
    seq_len: 16,
    filter_zero_advantages: true,
    scheduler: { type: 'constant', warmup_steps: 3, decay_steps: 0, min_lr: 0 },
    sampling: { max_tokens: 8, temperature: 1, top_p: 1, top_k: -1, min_p: 0, repetition_penalty: 1 },
    advantage: { type: 'grpo', divide_by_deviation: false, length_penalty: null },
    loss: { ...LOSS, ...loss },
    kl_penalty: { enabled: beta > 0, beta, target_kl: null },
    difficulty_filter: { enabled: false, min_reward_variance: 0, min_reward: null, max_reward: null },
    buffer: { online_difficulty_filtering: false },
    curriculum: { advantage_range: null },
  } as const
  const policy = new TablePolicy()
  const random = new RandomStream(seed)
  const series = []
  let totals = { tokens: 0, rollouts: 0, tasks: 0 }

  for (let step = 0; step < steps; step++) {
    const groups: Group[] = Array.from({ length: TASKS }, (_, task) =>
      Array.from({ length: config.rollouts_per_example }, (_, attempt) => answer(policy, task, attempt, step, random)),
    )
    const advantages = groupAdvantages(groups, config.advantage)
    const batch = makeBatch(groups, advantages, config)
    let seen: { loss: number; stats: LossStats } | undefined
    for (let update = 0; update < updates && batch.rows.length > 0; update++) {
      seen = { loss: 0, stats: noStats() }
      for (const part of split(batch, { rows: microBatchSize, tokens: Number.POSITIVE_INFINITY })) {
        const tokens = part.rows.flatMap((row) =>
          [...row.targets].map((t) => ({ task: row.ids[0], place: t - 1, letter: row.ids[t] })),
        )
        const now = tokens.map(({ task, place }) => policy.probabilities(task, place))
        const result = lossAndSlopes(
          {
            ...part,
            logp: tokens.map(({ letter }, i) => Math.log(now[i][letter])),
            entropy: now.map(entropyOf),
            logRef: tokens.map(() => Math.log(1 / LETTERS)),
          },
          config.loss,
          batch,
          beta,
        )
        tokens.forEach(({ task, place, letter }, i) => {
          policy.addGradient(task, place, letter, result.slopes[i])
        })
        seen = { loss: seen.loss + result.loss, stats: mergeStats(seen.stats, result.stats) }
      }
      policy.descend(learningRate(step, config))
    }
    const metrics = stepMetrics({
      groups,
      advantages,
      batch,
      rejections: rejections(groups, advantages, config),
      version: step,
      loss: seen,
      seconds: { ask: 0, answer: 1, judge: 0, learn: 1, total: 2 },
      totals,
    })
    totals = { ...totals, tokens: metrics['progress/total_tokens'] }
    series.push({ step, metrics })
  }
  return { policy, series, config, rewards: series.map((point) => point.metrics['reward/mean']) }
}

describe('a table of logits learns to spell', () => {
  // At the start each letter is right once in five: reward 0.2.
  test.each(['default', 'ipo', 'ratio_mask', 'ppo'] as const)('with the loss %s, from any of three seeds', (type) => {
    for (const seed of [1, 2, 3]) {
      const { rewards, series, config } = train(40, { seed, loss: { type, kl_tau: 1e-3 } })
      expect(rewards[0]).toBeLessThan(0.35)
      expect(rewards.at(-1)).toBeGreaterThan(0.95)
      // On the policy that sampled, the ratio is 1 up to the rounding of log μ to 32 bits.
      for (const { metrics } of series.filter((point) => point.metrics['importance_ratio/mean'] !== undefined))
        expect(metrics['importance_ratio/mean']).toBeCloseTo(1, 5)
      expect(diagnose(series, config).filter((finding) => finding.severity === 'problem')).toEqual([])
    }
  })

  test('with sequence ratios', () => {
    expect(train(40, { loss: { type: 'ratio_mask', ratio_type: 'sequence' } }).rewards.at(-1)).toBeGreaterThan(0.95)
  })

  test.each(['default', 'ipo', 'ppo'] as const)('with six updates on each batch, held by the mask of %s', (type) => {
    const { rewards, series } = train(25, { updates: 6, loss: { type, kl_tau: 1e-3 } })
    expect(rewards.at(-1)).toBeGreaterThan(0.95)
    // The last update of a step is off policy, so some token has been let go.
    expect(Math.max(...series.map(({ metrics }) => metrics['is_masked/mean'] ?? 0))).toBeGreaterThan(0.01)
  })
})

test('the policy after ten steps does not depend on the micro-batch size', () => {
  const whole = train(10, { microBatchSize: 64, updates: 2 }).policy
  const parts = train(10, { microBatchSize: 3, updates: 2 }).policy
  whole.logits.forEach((logits, task) => {
    logits.forEach((logit, i) => {
      expect(parts.logits[task][i]).toBeCloseTo(logit, 6)
    })
  })
})

test('a reward that nobody earns teaches nothing: the batch is empty and the policy stays', () => {
  const policy = new TablePolicy()
  const random = new RandomStream(1)
  const groups = [Array.from({ length: 8 }, (_, attempt) => ({ ...answer(policy, 0, attempt, 0, random), reward: 0 }))]
  const advantages = groupAdvantages(groups, { type: 'grpo', divide_by_deviation: false, length_penalty: null })
  const config = { seq_len: 16, filter_zero_advantages: true, sampling: { temperature: 1 }, loss: LOSS }
  const batch = makeBatch(groups, advantages, { ...config, kl_penalty: { enabled: false } })
  expect(split(batch, { rows: 8, tokens: Number.POSITIVE_INFINITY })).toEqual([])
})

test('an entropy bonus keeps the learned policy less sure', () => {
  const last = (knobs: Partial<Knobs>) => train(40, knobs).series.at(-1)?.metrics['sampling_entropy/mean'] ?? 0
  expect(last({ loss: { entropy_coefficient: 0.05 } })).toBeGreaterThan(2 * last({}))
})

test('a pull to the reference keeps the policy near it', () => {
  const last = (beta: number) => train(40, { beta }).series.at(-1)?.metrics['sampling_entropy/mean'] ?? 0
  expect(last(0.2)).toBeGreaterThan(2 * last(0))
})
