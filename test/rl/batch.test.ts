import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { advantagesOf } from '../../workers/rl/advantages.ts'
import { type Batch, makeBatch, split } from '../../workers/rl/batch.ts'
import { lossAndSlopes } from '../../workers/rl/loss.ts'
import { BATCH, group, LOSS, rollout } from './made.ts'

const GRPO = { type: 'grpo', divide_by_deviation: false, length_penalty: null } as const

function batchOf(groups: ReturnType<typeof group>[], config = BATCH): Batch {
  return makeBatch(
    groups,
    groups.map((members) => advantagesOf(members, GRPO)),
    config,
  )
}

describe('a row', () => {
  test('targets are the sampled tokens, each with the advantage of its rollout', () => {
    // Two prompt tokens, then three sampled ones at 2, 3, 4. mean(1, 0) = 0.5.
    const { rows } = batchOf([group(1, 0)])
    expect([...rows[0].ids]).toEqual([1, 2, 3, 4, 5])
    expect([...rows[0].targets]).toEqual([2, 3, 4])
    expect([...rows[0].advantages]).toEqual([0.5, 0.5, 0.5])
    expect([...rows[1].advantages]).toEqual([-0.5, -0.5, -0.5])
    expect([...rows[0].logMu]).toEqual([-1, -1, -1])
  })

  test('tokens that the environment wrote in between are no targets', () => {
    const sampled = Uint8Array.of(0, 0, 1, 0, 1)
    const { rows } = batchOf([[rollout(1, { sampled }), rollout(0)]])
    expect([...rows[0].targets]).toEqual([2, 4])
  })

  test('a row is cut at seq_len, and what lies past it is not counted', () => {
    // Each row: 2 given + 6 sampled; cut at 5 leaves the targets 2, 3, 4. Two rows: 6 loss tokens.
    const long = [rollout(1, { answer: 6 }), rollout(0, { answer: 6 })]
    const batch = batchOf([long], { ...BATCH, seq_len: 5 })
    expect(batch.rows[0].ids).toHaveLength(5)
    expect([...batch.rows[0].targets]).toEqual([2, 3, 4])
    expect(batch.lossTokens).toBe(6)
  })

  test('a rollout that samples its very first token is refused with a sentence', () => {
    const sampled = Uint8Array.of(1, 1, 1, 1, 1)
    expect(() => batchOf([[rollout(1, { sampled }), rollout(0)]])).toThrow(/token 0 .* prompt of at least one token/s)
  })
})

describe('what is left out', () => {
  test('loss tokens are those of the rows that stay', () => {
    // Group 1: mean(1, 0, 0.5) = 0.5, so its third rollout has advantage 0 and is left out: 2 rows · 3 tokens.
    // Group 2: all alike, left out whole. Total 6.
    const batch = batchOf([group(1, 0, 0.5), group(1, 1, 1)])
    expect(batch.rows.map((row) => [row.group, row.rollout])).toEqual([
      [0, 0],
      [0, 1],
    ])
    expect(batch.lossTokens).toBe(6)
    expect(batch.lossRows).toBe(2)
    expect(batch.reasons[0]).toBeNull()
    expect(batch.reasons[1]).toBe('All answers scored 1.000: there is nothing to compare.')
  })

  test('without filter_zero_advantages ties stay and count', () => {
    const batch = batchOf([group(1, 0, 0.5), group(1, 1, 1)], { ...BATCH, filter_zero_advantages: false })
    expect(batch.lossTokens).toBe(18)
    expect(batch.reasons).toEqual([null, null])
  })

  test('ties stay where an entropy bonus or a reference penalty has a say', () => {
    const bonus = { ...BATCH, loss: { ...LOSS, entropy_coefficient: 0.01 } }
    expect(batchOf([group(1, 1)], bonus).lossRows).toBe(2)
    expect(batchOf([group(1, 1)], { ...BATCH, kl_penalty: { enabled: true } }).lossRows).toBe(2)
  })

  test('errored rollouts are left out, and a group of them says so', () => {
    const batch = batchOf([group(1, null, 0), group(null, null)])
    expect(batch.lossRows).toBe(2)
    expect(batch.reasons[1]).toBe('No answer has a reward: every rollout of the group errored.')
  })

  test('a group whose prompt fills seq_len says so', () => {
    const full = [rollout(1, { prompt: 9 }), rollout(0, { prompt: 9 })]
    expect(batchOf([full], { ...BATCH, seq_len: 9 }).reasons).toEqual(['No sampled token lies within seq_len.'])
  })
})

describe('the split into passes', () => {
  test('rows stay whole, longest first, at most as many as asked for', () => {
    const members = [3, 5, 1, 4].map((answer, attempt) => rollout(attempt, { answer }))
    const parts = split(batchOf([members]), { rows: 3, tokens: Number.POSITIVE_INFINITY })
    expect(parts.map((part) => part.rows.map((row) => row.targets.length))).toEqual([[5, 4, 3], [1]])
    expect([...parts[0].offsets]).toEqual([0, 5, 9, 12])
    expect(parts[0].advantages).toHaveLength(12)
  })

  test('an empty batch has no passes', () => {
    expect(split(batchOf([group(1, 1)]), { rows: 8, tokens: Number.POSITIVE_INFINITY })).toEqual([])
  })

  // Whatever the micro-batch size, each token's slope and the sum of the losses are the same.
  test.each(['default', 'ipo', 'ratio_mask', 'ppo'] as const)('does not change loss or slopes: %s', (type) => {
    const answer = fc.record({
      reward: fc.option(fc.integer({ min: 0, max: 4 }), { freq: 6 }),
      answer: fc.integer({ min: 1, max: 9 }),
      drift: fc.double({ min: -0.4, max: 0.4, noNaN: true }),
    })
    const groups = fc.array(fc.array(answer, { minLength: 2, maxLength: 6 }), { minLength: 1, maxLength: 5 })
    const ratio = fc.constantFrom('token' as const, 'sequence' as const)
    fc.assert(
      fc.property(groups, fc.integer({ min: 1, max: 40 }), ratio, (specs, size, ratio_type) => {
        const made = specs.map((members, task) =>
          members.map((spec, attempt) => rollout(spec.reward, { task, attempt, answer: spec.answer })),
        )
        const batch = batchOf(made)
        const config = { ...LOSS, type, ratio_type, kl_tau: 0.1 }
        const pass = (microBatchSize: number) => {
          const slopes = new Map<string, number[]>()
          let loss = 0
          for (const part of split(batch, { rows: microBatchSize, tokens: Number.POSITIVE_INFINITY })) {
            const logp = part.rows.flatMap((row) =>
              [...row.logMu].map((mu) => mu + specs[row.group][row.rollout].drift),
            )
            const result = lossAndSlopes({ ...part, logp }, config, batch)
            loss += result.loss
            part.rows.forEach((row, r) => {
              slopes.set(`${row.group}/${row.rollout}`, [...result.slopes.slice(part.offsets[r], part.offsets[r + 1])])
            })
          }
          return { loss, slopes }
        }
        const [whole, parts] = [pass(1000), pass(size)]
        expect(parts.slopes).toEqual(whole.slopes)
        expect(parts.loss).toBeCloseTo(whole.loss, 9)
      }),
    )
  })
})
