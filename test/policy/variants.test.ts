// A policy whose kernels run in their variants agrees with the plain one, and its choices are a record that brings them back.

import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { offeredBy } from '../../workers/gpu/variants.ts'
import { createCompiledPolicy } from '../../workers/policy/compiled/index.ts'
import type { VariantRequest } from '../../workers/policy/compiled/variants.ts'
import type { Model } from '../../workers/policy/load.ts'
import { noiseKey } from '../../workers/random.ts'
import { testDevice } from '../gpu/runKernel.ts'
import { LORA, perturb, prompt, rowOf, samplingOptions } from './policies.ts'
import { randomModel } from './randomModel.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 })

const gpu = await testDevice()
const offered = offeredBy(gpu)

let model: Model
beforeAll(async () => {
  model = await randomModel()
})

function create(variants?: VariantRequest, device = gpu) {
  const common = { model, lora: LORA, seed: 5, slots: 4, tokensPerPass: 128 }
  return createCompiledPolicy({ ...common, device: { gpu: device, software: true }, variants })
}

describe.skipIf(offered.lanes === 0)('a policy that reduces by subgroup shuffles', () => {
  let policy: Awaited<ReturnType<typeof create>>
  beforeAll(async () => {
    policy = await create('subgroups')
    await perturb(policy)
  })
  afterAll(() => policy.dispose())

  it('names what it took, as plain JSON, and nothing that a device without them could not run', () => {
    const { choices, lines, notes } = policy.variants
    const families = Object.keys(choices).map((key) => key.split('/')[0])
    expect(families).toEqual(expect.arrayContaining(['attend.cache', 'norm', 'norm.backward', 'head.chunk']))
    expect(new Set(Object.values(choices))).toEqual(new Set(['subgroups']))
    expect(JSON.parse(JSON.stringify(choices))).toEqual(choices)
    expect(lines.every(({ note, difference }) => note === null && difference! < 5e-5)).toBe(true)
    expect(notes).toEqual([])
  })

  it('samples with the log-probabilities that it and the plain one learn from', async () => {
    const plain = await create('plain')
    await perturb(plain)
    expect(plain.variants.choices).toEqual({})
    const asked = ['a', 'hello', 'abc def'].map((text) => prompt(model, text))
    const sampler = policy.sampler(samplingOptions(model, { stopTokens: [] }))
    const turns = asked.map((ids, sequence) => ({
      ids,
      sequence,
      noise: noiseKey(1, 'train', sequence, 0),
      maxTokens: 40,
    }))
    const done = await sampler.complete(turns)
    sampler.dispose()
    const rows = done.map((completion, i) => rowOf(asked[i], completion, 1))
    const sampled = done.flatMap(({ logp }) => [...logp])
    const { pass, ...own } = await policy.logprobs(rows, { adapter: 'live', keep: true })
    const theirs = await plain.logprobs(rows, { adapter: 'live', keep: true })
    expect(sampled.length).toBe(120)
    for (const [i, logp] of sampled.entries()) {
      expect(Math.abs(logp - own.logp[i])).toBeLessThan(1e-4)
      expect(Math.abs(logp - theirs.logp[i])).toBeLessThan(1e-4)
    }
    const slopes = own.logp.map((_, i) => ((i % 5) - 2) / 100)
    await policy.backward(pass!, slopes)
    await plain.backward(theirs.pass!, slopes)
    const [g, h] = [await policy.gradient(), await plain.gradient()]
    const norm = (values: Float32Array) => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0))
    expect(norm(g.map((value, i) => value - h[i]))).toBeLessThan(1e-4 * norm(h))
    policy.clearGradient()
    plain.dispose()
  })

  it('is brought back by its record', async () => {
    const again = await create(policy.variants.choices)
    expect(again.variants.choices).toEqual(policy.variants.choices)
    expect(again.variants.notes).toEqual([])
    again.dispose()
  })
})

describe('choices of another device', () => {
  it('run plain where this one cannot, with a note', async () => {
    const policy = await create(
      { 'product.of.another/8x8': 'f16', 'norm/32': 'subgroups' },
      without('subgroups', 'shader-f16'),
    )
    expect(policy.variants.choices).toEqual({})
    expect(policy.variants.notes).toHaveLength(1)
    expect(policy.variants.notes[0]).toMatch(/does not offer .*norm\/32 \(subgroups\).*run plain/)
    policy.dispose()
  })

  it('are not tried again on a processor', async () => {
    const policy = await create('trial')
    expect(policy.variants).toEqual({ choices: {}, lines: [], notes: [], milliseconds: 0 })
    policy.dispose()
  })
})

/** The device, but for some of its features. */
function without(...features: string[]): GPUDevice {
  return new Proxy(gpu, {
    get(device, name) {
      if (name === 'features') return new Set([...device.features].filter((feature) => !features.includes(feature)))
      const value = Reflect.get(device, name)
      return typeof value === 'function' ? value.bind(device) : value
    },
  })
}
