import { describe, expect, test } from 'vitest'
import { advantagesOf } from '../../workers/rl/advantages.ts'
import { makeBatch } from '../../workers/rl/batch.ts'
import { lossAndSlopes } from '../../workers/rl/loss.ts'
import { METRICS, metricOf } from '../../workers/rl/metrics.ts'
import type { Group } from '../../workers/rl/rollouts.ts'
import { addTotals, evaluationMetrics, type StepRecord, stepMetrics } from '../../workers/rl/stepMetrics.ts'
import { BATCH, group, LOSS, rollout } from './made.ts'

function recordOf(groups: Group[], rest: Partial<StepRecord> = {}): StepRecord {
  const advantages = groups.map((members) =>
    advantagesOf(members, { type: 'grpo', divide_by_deviation: false, length_penalty: null }),
  )
  return {
    groups,
    advantages,
    batch: makeBatch(groups, advantages, BATCH),
    rejections: groups.map(() => null),
    version: 0,
    seconds: { ask: 1, answer: 5, judge: 1, learn: 3, total: 10 },
    totals: { tokens: 0, rollouts: 0, tasks: 0 },
    ...rest,
  }
}

describe('the table', () => {
  test('no key, prime-rl name or alias names two metrics', () => {
    const names = METRICS.flatMap(({ key, primeRl, aliases }) => [
      ...new Set([key, ...(primeRl === null ? [] : [primeRl]), ...aliases]),
    ])
    expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([])
  })

  test('every metric that the documents name is found', () => {
    const found = [
      ['train/reward', 'reward/mean'],
      ['train/loss', 'loss/mean'],
      ['train/learning_rate', 'optim/lr'],
      ['train/kl_divergence', 'ref_kl/mean'],
      ['rollout/mean_length', 'num_output_tokens/mean'],
      ['rollout/generation_time', 'time/answer'],
      ['reward/mean', 'reward/mean'],
      ['reward/std', 'reward/std'],
      ['policy/entropy', 'entropy/all/mean'],
      ['policy/kl', 'mismatch_kl/all/mean'],
    ]
    for (const [name, key] of found) expect(metricOf(name)?.key, name).toBe(key)
  })

  test('a key with a name in it is found by its pattern', () => {
    expect(metricOf('reward/reverse-text/mean')?.key).toBe('reward/<env>/mean')
    expect(metricOf('eval/reverse-text/pass@8')?.key).toBe('eval/<env>/pass@<k>')
    expect(metricOf('train/agg/all/solver/reward/mean')?.key).toBe('reward/mean')
    expect(metricOf('nobody/knows')).toBeUndefined()
  })

  test('every key that a step or an evaluation reports has a row', () => {
    const groups = [
      [rollout(1, { environment: 'a', stop: 'token', metrics: { exact: 1 } }), rollout(0, { environment: 'a' })],
      [rollout(1, { environment: 'b' }), rollout(0.5, { environment: 'b' })],
    ]
    const tokens = { logp: [-1], logMu: [-1], advantages: [1], entropy: [1], logRef: [-1], offsets: [0, 1] }
    const record = recordOf(groups, {
      loss: lossAndSlopes(tokens, LOSS, { lossTokens: 1, lossRows: 1 }),
      update: { learningRate: 1e-3, gradientNorm: 1, skipped: 0, beta: 0.1 },
      peakBytes: 2 ** 30,
      gpuSeconds: 0.5,
    })
    const keys = [...Object.keys(stepMetrics(record)), ...Object.keys(evaluationMetrics(groups))]
    expect(keys.filter((key) => metricOf(key) === undefined)).toEqual([])
    // And every row without a free name in its key is reported by one of the two.
    const silent = METRICS.filter(({ key }) => !key.includes('<') && !keys.includes(key)).map(({ key }) => key)
    expect(silent).toEqual(['masked_mismatch_kl/mean'])
  })

  test('docs/metrics.md is this table', async () => {
    const cell = (text: string) => text.replaceAll('|', '\\|')
    const code = (text: string) => `\`${cell(text)}\``
    const families = [...new Set(METRICS.map((metric) => metric.family))]
    const tables = families.map((family) => {
      const rows = METRICS.filter((metric) => metric.family === family).map(
        ({ key, unit, meaning, primeRl, aliases }) =>
          `| ${code(key)} | ${unit} | ${cell(meaning)} | ${primeRl === null ? '' : primeRl === key ? 'same' : code(primeRl)} | ${aliases.map(code).join(' ')} |`,
      )
      return [
        `## ${family}`,
        '',
        '| key | unit | meaning | prime-rl | other names |',
        '| --- | --- | --- | --- | --- |',
        ...rows,
      ].join('\n')
    })
    const page = [
      '# Metrics',
      'Written from `workers/rl/metrics.ts`; after a change there, `npx vitest run test/rl/metrics.test.ts -u` writes it again.\n' +
        'Names of prime-rl are those of August 2026 unless marked. `<…>` stands for any name. Numbers that are not finite are not reported.',
      ...tables,
    ].join('\n\n')
    await expect(`${page}\n`).toMatchFileSnapshot('../../docs/metrics.md')
  })
})

describe('a step', () => {
  test('rewards: mean, deviation, extremes, and the spread within groups', () => {
    // Rewards 1, 0, 0.5, 0.5: mean 0.5, squares 1 + 0 + 0.25 + 0.25 = 1.5: √(1.5/4 − 0.25) = √0.125 = 0.353553
    // Within groups: (1, 0) has 0.5, (0.5, 0.5) has 0: mean 0.25. |A|: (0.5 + 0.5 + 0 + 0)/4 = 0.25
    const metrics = stepMetrics(recordOf([group(1, 0), group(0.5, 0.5)]))
    expect(metrics['reward/mean']).toBeCloseTo(0.5, 9)
    expect(metrics['reward/std']).toBeCloseTo(0.353553, 6)
    expect(metrics['reward/min']).toBe(0)
    expect(metrics['reward/max']).toBe(1)
    expect(metrics['reward/group_std']).toBeCloseTo(0.25, 9)
    expect(metrics['advantage/absmean']).toBeCloseTo(0.25, 9)
  })

  test('errored rollouts are counted and left out of the rewards', () => {
    const metrics = stepMetrics(recordOf([group(1, null), group(1, 0)]))
    expect(metrics['reward/mean']).toBeCloseTo(2 / 3, 9)
    expect(metrics['has_error/mean']).toBe(0.25)
  })

  test('groups: solved by all, by none, by some; alike; distinct answers', () => {
    const same = [rollout(1), rollout(1)]
    const metrics = stepMetrics(recordOf([same, group(0, 0), group(1, 0), group(0.5, 0.5)]))
    expect([metrics.solved_all, metrics.solved_none, metrics.solved_some]).toEqual([0.25, 0.25, 0.5])
    expect(metrics['group/alike']).toBe(0.75)
    // All rollouts made here have the ids 1 … 5: one different answer among two.
    expect(metrics['group/distinct']).toBe(0.5)
  })

  test('lengths: sampled, given, all, with percentiles', () => {
    // Answers of 1, 2, 3, 4, 5 tokens: p10 at place 0.4 of 0 … 4 is 1.4, p90 at 3.6 is 4.6. Prompts of 2.
    const members = [1, 2, 3, 4, 5].map((answer) => rollout(answer, { answer }))
    const metrics = stepMetrics(recordOf([members]))
    expect(metrics['num_output_tokens/mean']).toBe(3)
    expect(metrics['num_output_tokens/p10']).toBeCloseTo(1.4, 9)
    expect(metrics['num_output_tokens/p90']).toBeCloseTo(4.6, 9)
    expect(metrics['num_input_tokens/mean']).toBe(2)
    expect(metrics['num_total_tokens/mean']).toBe(5)
  })

  test('truncation, stops and entropy of sampling', () => {
    const members = [rollout(1, { truncated: true, stop: 'max_tokens' }), rollout(0, { stop: 'token' })]
    const metrics = stepMetrics(recordOf([members]))
    expect(metrics['is_truncated/mean']).toBe(0.5)
    expect(metrics['stop_condition/max_tokens']).toBe(0.5)
    // 0.5 on every sampled token, whatever the prompts' lengths
    expect(metrics['sampling_entropy/mean']).toBeCloseTo(0.5, 9)
  })

  test('staleness counts updates since each sampled token', () => {
    // Version 3 learns; sampled tokens carry 2, 2, 3: lags 1, 1, 0. Given tokens carry 0 and do not count.
    const versions = Int32Array.of(0, 0, 2, 2, 3)
    const metrics = stepMetrics(recordOf([[rollout(1, { version: versions })]], { version: 3 }))
    expect(metrics['off_policy/mean']).toBeCloseTo(2 / 3, 9)
    expect(metrics['off_policy/max']).toBe(1)
  })

  test('the effective batch is what filters and ties have left', () => {
    // The second group is a tie: 2 rows of 4 rollouts, 6 loss tokens, 1 group left out.
    const metrics = stepMetrics(recordOf([group(1, 0), group(1, 1)]))
    expect(metrics['batch/rollouts']).toBe(2)
    expect(metrics['batch/effective']).toBe(0.5)
    expect(metrics['batch/loss_tokens']).toBe(6)
    expect(metrics['batch/rejected_groups']).toBe(1)
  })

  test('several environments each have their reward and their share of the batch', () => {
    const named = (environment: string, ...rewards: number[]) =>
      rewards.map((reward) => rollout(reward, { environment }))
    const metrics = stepMetrics(recordOf([named('a', 1, 0), named('b', 1, 1), named('b', 0, 0.5)]))
    expect(metrics['reward/a/mean']).toBe(0.5)
    expect(metrics['reward/b/mean']).toBeCloseTo(0.625, 9)
    expect(metrics['batch/a']).toBe(0.5)
  })

  test('time, throughput and totals', () => {
    // 2 rollouts of 5 tokens, 3 sampled: 10 tokens in 10 s, 6 sampled in 5 s.
    const totals = { tokens: 100, rollouts: 7, tasks: 3 }
    const record = recordOf([group(1, 0)], { totals })
    const metrics = stepMetrics(record)
    expect(metrics['perf/throughput']).toBe(1)
    expect(metrics['perf/sampling_throughput']).toBeCloseTo(1.2, 9)
    expect(metrics['progress/total_tokens']).toBe(110)
    expect(addTotals(totals, record.groups)).toEqual({ tokens: 110, rollouts: 9, tasks: 4 })
  })

  test('a number that is not finite is left out', () => {
    const metrics = stepMetrics(
      recordOf([group(1, 0)], { update: { learningRate: 1, gradientNorm: Number.NaN, skipped: 1 } }),
    )
    expect(metrics).not.toHaveProperty(['optim/grad_norm'])
    expect(metrics['optim/skipped']).toBe(1)
  })

  test('a step in which every rollout errored reports no reward', () => {
    const metrics = stepMetrics(recordOf([group(null, null)]))
    expect(metrics).not.toHaveProperty(['reward/mean'])
    expect(metrics['has_error/mean']).toBe(1)
  })
})

describe('an evaluation', () => {
  const named = (...rewards: number[]) => rewards.map((reward) => rollout(reward, { environment: 'sums' }))

  test('pass@k is the chance that one of k of the n answers is right', () => {
    // Group 1: 1 of 4 right. pass@1 = 1/4, pass@2 = 1 − C(3,2)/C(4,2) = 1 − 3/6 = 1/2, pass@4 = 1.
    // Group 2: 0 of 4 right: 0, 0, 0. Means 1/8, 1/4, 1/2.
    const metrics = evaluationMetrics([named(1, 0, 0, 0), named(0, 0, 0, 0)])
    expect(metrics['eval/sums/avg@4']).toBeCloseTo(0.125, 9)
    expect(metrics['eval/sums/pass@1']).toBeCloseTo(0.125, 9)
    expect(metrics['eval/sums/pass@2']).toBeCloseTo(0.25, 9)
    expect(metrics['eval/sums/pass@4']).toBeCloseTo(0.5, 9)
  })

  test('rewards between 0 and 1 have no pass@k', () => {
    const metrics = evaluationMetrics([named(0.5, 1)])
    expect(metrics['eval/sums/avg@2']).toBe(0.75)
    expect(metrics).not.toHaveProperty(['eval/sums/pass@1'])
    expect(metrics['eval/reward/mean']).toBe(0.75)
    expect(metrics['eval/solved']).toBe(0.5)
  })
})
