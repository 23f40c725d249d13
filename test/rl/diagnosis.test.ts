import { describe, expect, test } from 'vitest'
import { type DiagnosisConfig, diagnose, type Finding } from '../../workers/rl/diagnosis.ts'
import type { Metrics } from '../../workers/rl/stepMetrics.ts'

const CONFIG: DiagnosisConfig = {
  batch_size: 128,
  rollouts_per_example: 8,
  learning_rate: 1e-3,
  max_async_level: 0,
  oversampling_factor: 1,
  max_grad_norm: 1,
  sampling: { max_tokens: 64, temperature: 1, top_p: 1, top_k: -1, min_p: 0, repetition_penalty: 1 },
  buffer: { online_difficulty_filtering: false },
  kl_penalty: { enabled: false, beta: 0.1, target_kl: null },
  loss: { entropy_coefficient: 0 },
}

const HEALTHY: Metrics = {
  'reward/std': 0.3,
  'reward/min': 0,
  'reward/max': 1,
  'group/alike': 0.1,
  'group/distinct': 0.9,
  solved_all: 0,
  solved_none: 0,
  'sampling_entropy/mean': 0.4,
  'num_output_tokens/mean': 20,
  'importance_ratio/mean': 1,
  'mismatch_kl/all/mean': 1e-6,
  'is_masked/mean': 0,
  'has_error/mean': 0,
  'is_truncated/mean': 0,
  'optim/skipped': 0,
  'optim/grad_norm': 0.5,
}

/** One step per reward; `change` gives what differs from a healthy step. */
function run(
  rewards: number[],
  change: (step: number) => Metrics = () => ({}),
  config: Partial<DiagnosisConfig> = {},
): Finding[] {
  const steps = rewards.map((reward, step) => ({
    step,
    metrics: { ...HEALTHY, 'reward/mean': reward, ...change(step) },
  }))
  return diagnose(steps, { ...CONFIG, ...config })
}

function ids(findings: Finding[]): string[] {
  return findings.map((finding) => finding.id)
}

function only(findings: Finding[], id: string): Finding {
  const found = findings.filter((finding) => finding.id === id)
  expect(found, `${id} among ${ids(findings)}`).toHaveLength(1)
  return found[0]
}

// The curve of reverse-text in docs: what a good run looks like.
const RISING = [0.43, 0.47, 0.52, 0.6, 0.69, 0.75, 0.8, 0.84, 0.87, 0.88, 0.88, 0.89, 0.88, 0.89]

test('a healthy rising run has no finding', () => {
  expect(run(RISING)).toEqual([])
})

test('an empty run has no finding', () => {
  expect(diagnose([], CONFIG)).toEqual([])
})

describe('where it starts', () => {
  test('a baseline under 0.05 is too hard, one over 0.8 too easy, and between them it is silent', () => {
    expect(ids(run([0.02]))).toEqual(['baseline_too_hard'])
    expect(ids(run([0.85]))).toEqual(['baseline_too_easy'])
    expect(ids(run([0.05]))).toEqual([])
    expect(ids(run([0.8]))).toEqual([])
  })

  test('the first held-out evaluation counts before the first step', () => {
    expect(ids(run([0.02], () => ({ 'eval/reward/mean': 0.3 })))).toEqual([])
  })
})

describe('the reward', () => {
  test('flat near zero, with the larger group as a change to the config', () => {
    const finding = only(
      run(Array(5).fill(0.01), () => ({ 'reward/max': 0.1 })),
      'flat_near_zero',
    )
    expect(finding.severity).toBe('problem')
    expect(finding.evidence['reward/mean']).toBeCloseTo(0.01, 9)
    expect(finding.advice.at(-1)?.delta).toEqual({ rollouts_per_example: 16, batch_size: 256 })
  })

  test('four steps near zero are not enough to say so', () => {
    expect(ids(run(Array(4).fill(0.01)))).not.toContain('flat_near_zero')
  })

  test('a fall by a quarter of the range from its best is a drop', () => {
    // Best three in a row 0.7; the last three (0.5 + 0.4 + 0.3)/3 = 0.4: a fall of 0.3 ≥ 0.25
    const finding = only(run([0.5, 0.7, 0.7, 0.7, 0.5, 0.4, 0.3]), 'reward_drop')
    expect(finding.evidence).toEqual({ best: expect.closeTo(0.7, 9), now: expect.closeTo(0.4, 9) })
    expect(finding.advice[1].delta).toEqual({ learning_rate: 0.00033 })
  })

  test('swings far beyond what the draw of questions explains', () => {
    // Changes of ±0.4: deviation ≈ 0.4. Chance: √(2/16)·0.3 = 0.106.
    const swinging = Array.from({ length: 10 }, (_, step) => (step % 2 === 0 ? 0.3 : 0.7))
    const finding = only(
      run(swinging, () => ({}), { max_async_level: 1, max_grad_norm: null }),
      'unstable_swings',
    )
    expect(finding.evidence.chance).toBeCloseTo(0.106066, 6)
    const deltas = finding.advice.map((advice) => advice.delta)
    expect(deltas).toContainEqual({ max_async_level: 0 })
    expect(deltas).toContainEqual({ max_grad_norm: 1 })
    expect(deltas).toContainEqual({ rollouts_per_example: 16, batch_size: 256 })
  })

  test('the same swings in small batches of noisy rewards are chance', () => {
    // Two questions a step: √(2/2)·0.5 = 0.5; changes of 0.4 are below twice that.
    const swinging = Array.from({ length: 10 }, (_, step) => (step % 2 === 0 ? 0.3 : 0.7))
    const noisy = run(swinging, () => ({ 'reward/std': 0.5 }), { batch_size: 16 })
    expect(ids(noisy)).not.toContain('unstable_swings')
  })

  test('twenty calm steps without progress are slow', () => {
    const calm = Array.from({ length: 20 }, (_, step) => 0.4 + 0.01 * (step % 2))
    const finding = only(run(calm), 'slow_learning')
    expect(finding.severity).toBe('note')
    expect(finding.advice.at(-1)?.delta).toEqual({ learning_rate: 0.002 })
    expect(ids(run(calm.slice(1)))).toEqual([])
  })

  test('a run that stays solved is not slow but solved', () => {
    const findings = run(Array(20).fill(0.97))
    expect(ids(findings)).toContain('solved')
    expect(ids(findings)).not.toContain('slow_learning')
  })

  test('held-out reward that falls while training rises', () => {
    const held = [0.5, 0.6, 0.6, 0.55, 0.5, 0.45]
    const findings = run([0.4, 0.5, 0.6, 0.7, 0.75, 0.8], (step) => ({ 'eval/reward/mean': held[step] }))
    expect(only(findings, 'held_out_falls').evidence).toMatchObject({ best: 0.6, now: 0.45 })
  })
})

describe('the answers', () => {
  const falling = (step: number) => ({ 'sampling_entropy/mean': step < 3 ? 0.5 : 0.001 })

  test('entropy that vanishes before the task is solved is a collapse', () => {
    const finding = only(run(Array(6).fill(0.4), falling), 'entropy_collapse')
    expect(finding.evidence).toEqual({ before: expect.closeTo(0.5, 9), now: expect.closeTo(0.001, 9) })
    expect(finding.advice.map((advice) => advice.delta)).toContainEqual({ 'loss.entropy_coefficient': 0.001 })
  })

  test('entropy that vanishes because the task is solved is not', () => {
    expect(ids(run([0.5, 0.7, 0.9, 0.97, 0.98, 0.98], falling))).toEqual(['solved'])
  })

  test('groups of identical answers', () => {
    // One different answer among 8 is 0.125 ≤ 1.5/8
    const finding = only(
      run(Array(4).fill(0.4), () => ({ 'group/distinct': 0.125 })),
      'identical_outputs',
    )
    expect(finding.sentence).toContain('1.0 different ones among 8')
  })

  test('completions that double towards the limit', () => {
    const longer = run(Array(6).fill(0.5), (step) => ({ 'num_output_tokens/mean': step < 3 ? 20 : 50 }))
    expect(only(longer, 'length_explosion').evidence).toEqual({ before: 20, now: 50, max_tokens: 64 })
    const stillShort = run(Array(6).fill(0.5), (step) => ({ 'num_output_tokens/mean': step < 3 ? 5 : 15 }))
    expect(ids(stillShort)).toEqual([])
  })

  test('most groups without spread, with their number and why', () => {
    // 0.75 of 16 groups is 12; mostly failed by all.
    const finding = only(
      run(Array(5).fill(0.2), () => ({ 'group/alike': 0.75, solved_none: 0.7 })),
      'no_spread',
    )
    expect(finding.sentence).toBe(
      'In 12 of 16 groups all answers score alike, most of them failed by all: they teach nothing.',
    )
    expect(finding.advice[0].delta).toEqual({ 'buffer.online_difficulty_filtering': true, oversampling_factor: 2 })
  })

  test('more than one error in twenty, and more than one answer in five cut off', () => {
    expect(
      only(
        run([0.5, 0.5, 0.5], () => ({ 'has_error/mean': 0.06 })),
        'errors',
      ).severity,
    ).toBe('warning')
    expect(
      only(
        run([0.5, 0.5, 0.5], () => ({ 'has_error/mean': 0.6 })),
        'errors',
      ).severity,
    ).toBe('problem')
    expect(ids(run([0.5, 0.5, 0.5], () => ({ 'has_error/mean': 0.04, 'is_truncated/mean': 0.19 })))).toEqual([])
    const cut = only(
      run([0.5, 0.5, 0.5], () => ({ 'is_truncated/mean': 0.3 })),
      'truncated',
    )
    expect(cut.advice[0].delta).toEqual({ 'sampling.max_tokens': 128 })
  })
})

describe('the update', () => {
  test('a ratio away from 1 for the very policy that sampled is a disagreement of numbers', () => {
    const off = () => ({ 'importance_ratio/mean': 1.1, 'off_policy/max': 0 })
    expect(only(run([0.5, 0.5, 0.5], off), 'ratio_off').severity).toBe('problem')
  })

  test('with top_p below 1 the first advice is to sample from the whole distribution', () => {
    const off = () => ({ 'mismatch_kl/all/mean': 0.02, 'off_policy/max': 0 })
    const findings = run([0.5, 0.5, 0.5], off, { sampling: { ...CONFIG.sampling, top_p: 0.9 } })
    expect(only(findings, 'ratio_off').advice[0].delta).toMatchObject({ 'sampling.top_p': 1 })
  })

  test('for stale rollouts it is drift, and fresher answers help', () => {
    const off = () => ({ 'importance_ratio/mean': 1.1, 'off_policy/max': 1 })
    const finding = only(run([0.5, 0.5, 0.5], off, { max_async_level: 1 }), 'off_policy_drift')
    expect(finding.advice[0].delta).toEqual({ max_async_level: 0 })
  })

  test('many masked tokens', () => {
    expect(
      only(
        run([0.5, 0.5, 0.5], () => ({ 'is_masked/mean': 0.2 })),
        'many_masked',
      ).sentence,
    ).toContain('20 %')
  })

  test('a skipped update', () => {
    expect(run([0.5], () => ({ 'optim/skipped': 1 }))[0].id).toBe('not_finite')
  })

  test('a gradient ten times the usual', () => {
    const spike = run(Array(6).fill(0.5), (step) => ({ 'optim/grad_norm': step === 5 ? 6 : 0.5 }))
    expect(only(spike, 'gradient_spike').evidence).toEqual({ now: 6, usual: 0.5 })
  })

  test('twice as far from the reference as the target allows', () => {
    const kl_penalty = { enabled: true, beta: 0.1, target_kl: 0.01 }
    const far = run([0.5, 0.5, 0.5], () => ({ 'ref_kl/mean': 0.03 }), { kl_penalty })
    expect(only(far, 'far_from_reference').advice[0].delta).toEqual({ 'kl_penalty.beta': 0.2 })
  })
})

test('problems come first, then warnings, then notes', () => {
  const findings = run(Array(5).fill(0.01), () => ({ 'has_error/mean': 0.1, 'optim/skipped': 1 }))
  const order = ['problem', 'warning', 'note']
  const ranks = findings.map((finding) => order.indexOf(finding.severity))
  expect(ranks).toEqual([...ranks].sort())
  expect(findings.length).toBeGreaterThan(2)
})

test('every finding has a sentence with its numbers, and advice', () => {
  const findings = run(Array(5).fill(0.01), () => ({ 'has_error/mean': 0.1, 'optim/skipped': 1, 'group/alike': 0.9 }))
  for (const finding of findings) {
    expect(finding.sentence).toMatch(/\d/)
    expect(finding.advice.length).toBeGreaterThan(0)
    expect(Object.keys(finding.evidence).length).toBeGreaterThan(0)
  }
})
