// What a token of prime-rl's export weighs: a line with the exporter's fields, as compact JSON of float32 numbers.

import { expect, test } from 'vitest'
import { EXPORTED_BYTES_PER_TOKEN } from '../../server/compile/trainer.ts'
import { RandomStream } from '../../workers/random.ts'

test('a line of the export comes to the bytes that the preview counts with', () => {
  const random = new RandomStream(1)
  const tokens = 2048
  const each = <T>(value: (i: number) => T) => Array.from({ length: tokens }, (_, i) => value(i))
  const { fround, exp, log } = Math
  const sampled = each(() => fround(0.6 * log(random.next())))
  const trained = sampled.map((value) => fround(value + 0.02 * (random.next() - 0.5)))
  const ratio = trained.map((value, i) => fround(value - sampled[i]))
  const line = {
    ...{ schema_version: 1, step: 12, export_step: 12, rank: 0, micro_step: 3, micro_sequence_idx: 0 },
    ...{ export_sequence_idx: 7, run_id: null, env_name: 'primeintellect/reverse-text' },
    token_ids: each(() => random.integer(151_936)),
    position_ids: each((i) => i),
    loss_mask: each((i) => i > 60),
    advantages: each(() => fround(0.37)),
    ...{ rl_weights: each(() => 1), ce_weights: each(() => null), ref_kl_weights: each(() => null) },
    inference_logprobs: sampled,
    trainer_logprobs: trained,
    entropy: each(() => fround(2 * random.next())),
    mismatch_kl: ratio.map((d) => fround(exp(d) - d - 1)),
    log_importance_ratio: ratio,
    importance_ratio: ratio.map((d) => fround(exp(d))),
    prob_delta: trained.map((value, i) => fround(exp(value) - exp(sampled[i]))),
    ...{ is_masked: each(() => false), is_masked_high: each(() => false), is_masked_low: each(() => false) },
  }
  const perToken = JSON.stringify(line).length / tokens
  expect(perToken / EXPORTED_BYTES_PER_TOKEN).toBeGreaterThan(0.95)
  expect(perToken / EXPORTED_BYTES_PER_TOKEN).toBeLessThan(1.1)
})
