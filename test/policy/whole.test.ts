// Decoding whole blocks of tokens in one dispatch, against what is learned and against the batched decoder.

import { describe, expect, it, vi } from 'vitest'
import type { WholeTiling } from '../../workers/gpu/kernels/decodeWhole.ts'
import type { WeightFormat } from '../../workers/gpu/kernels/weightFormat.ts'
import type { LoraOptions } from '../../workers/policy/adapter.ts'
import { createCompiledPolicy, type MadePolicy } from '../../workers/policy/compiled/index.ts'
import type { Decoder } from '../../workers/policy/compiled/whole.ts'
import type { Model } from '../../workers/policy/load.ts'
import type { Completion, SamplingOptions } from '../../workers/policy/policy.ts'
import { noiseKey } from '../../workers/random.ts'
import { testDevice } from '../gpu/runKernel.ts'
import { LORA, perturb, prompt, rowOf, samplingOptions, WHOLE } from './policies.ts'
import { randomModel, type SMALL } from './randomModel.ts'

// Kernels are compiled in software where there is no GPU.
vi.setConfig({ testTimeout: 180_000 })

const WORDS = ['a', 'hello', 'abc def', 'hello', 'zz', 'x', '12345']
const BATCHED: Decoder = { kind: 'batched' }

interface Case {
  size?: Partial<typeof SMALL>
  format?: WeightFormat
  lora?: LoraOptions
  tiling?: Partial<WholeTiling>
}

async function policyOf(model: Model, { format = 'f32', lora = LORA, tiling = {} }: Case = {}, slots = 5) {
  const device = { gpu: await testDevice(), software: true }
  const decoder: Decoder = { ...WHOLE, ...tiling }
  const common = { model, device, lora, seed: 5, slots, baseFormat: format, tokensPerPass: 512 }
  const policy = await createCompiledPolicy({ ...common, decoder })
  await perturb(policy)
  return policy
}

async function sample(policy: MadePolicy, model: Model, changes: Partial<SamplingOptions> = {}) {
  const sampler = policy.sampler(samplingOptions(model, changes))
  const turns = WORDS.map((word, i) => ({
    sequence: i,
    ids: prompt(model, word),
    noise: noiseKey(1, 'train', i, 0),
    maxTokens: 18 + i,
  }))
  const done = await sampler.complete(turns)
  sampler.dispose()
  return done
}

function worst(a: ArrayLike<number>, b: ArrayLike<number>): number {
  return Array.from(a).reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0)
}

function said(done: Completion[]): string[] {
  return done.map(({ ids, stop }) => `${ids.join()} ${stop}`)
}

const CASES: Record<string, Case> = {
  'two sequences a workgroup, packed f16, asked ahead': { format: 'f16', tiling: { rows: 2, pipelined: true } },
  'a head of its own, adapters on some, keys shared by a team': {
    size: { tie_word_embeddings: false, num_hidden_layers: 1 },
    lora: { r: 16, alpha: 32, targetModules: ['q_proj', 'v_proj', 'o_proj'] },
    tiling: { lanes: 2 },
  },
  'odd widths, four sequences a workgroup': {
    size: { hidden_size: 72, num_attention_heads: 6, num_key_value_heads: 3, intermediate_size: 200 },
    tiling: { rows: 4, threads: 128 },
  },
  'wide heads, one key head for all': {
    size: { num_attention_heads: 3, num_key_value_heads: 1, head_dim: 32, num_hidden_layers: 1 },
  },
}

describe('decoding whole blocks of tokens', () => {
  it.each(Object.entries(CASES))('gives a token the log-probability that is learned: %s', async (_, made) => {
    const model = await randomModel(made.size)
    const policy = await policyOf(model, made)
    const done = await sample(policy, model)
    const rows = done.map((completion, i) => rowOf(prompt(model, WORDS[i]), completion, 1))
    const { logp, entropy } = await policy.logprobs(rows, { adapter: 'live' })
    const mu = done.flatMap((completion) => [...completion.logp])
    const sampled = done.flatMap((completion) => [...completion.entropy])
    expect(mu.length).toBeGreaterThan(60)
    expect(worst(mu, logp)).toBeLessThan(1e-4)
    expect(worst(sampled, entropy)).toBeLessThan(1e-4)
    policy.dispose()
  })

  it('samples as the batched decoder does, plain and greedily, and leaves truncation to it', async () => {
    const model = await randomModel()
    const policy = await policyOf(model)
    const rules: Partial<SamplingOptions>[] = [{}, { temperature: 0 }, { topP: 0.6, repetitionPenalty: 1.3 }]
    const whole: Completion[][] = []
    for (const rule of rules) whole.push(await sample(policy, model, rule))
    expect(said(whole[2])).not.toEqual(said(whole[0]))
    policy.decoder = BATCHED
    for (const [i, rule] of rules.entries()) {
      const batched = await sample(policy, model, rule)
      expect(said(batched)).toEqual(said(whole[i]))
      for (const [s, { logp, entropy }] of batched.entries()) {
        expect(worst(logp, whole[i][s].logp)).toBeLessThan(1e-4)
        expect(worst(entropy, whole[i][s].entropy)).toBeLessThan(1e-4)
      }
    }
    policy.dispose()
  })

  it('says which models and tilings it is not for', async () => {
    const model = await randomModel()
    const refused = async (made: Case, reason: RegExp) => expect(policyOf(model, made)).rejects.toThrow(reason)
    await refused({ format: 'int8' }, /neither all f32 nor all f16/)
    await refused({ tiling: { threads: 4096 } }, /4096 threads/)
    await refused({ tiling: { rows: 4, threads: 4 } }, /not for so many threads/)
    const wide = await randomModel({ hidden_size: 2048, intermediate_size: 1024 })
    await expect(policyOf(wide)).rejects.toThrow(/weights take \d+ bytes/)
  })
})
