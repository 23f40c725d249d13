// The invariants of design.md §4 that a policy must hold, whichever implementation it is.

import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Device } from '../../workers/gpu/device.ts'
import { openNodeDevice } from '../../workers/gpu/node.ts'
import type { Model } from '../../workers/policy/load.ts'
import type { AdapterChoice, OptimizerStep, Policy, Row } from '../../workers/policy/policy.ts'
import { noiseKey, RandomStream } from '../../workers/random.ts'
import { POLICIES } from './implementations.ts'
import { flatTargets, perturb, prompt, randomRows, rowOf, samplingOptions } from './policies.ts'
import { randomModel } from './randomModel.ts'

const ADAMW: OptimizerStep = {
  type: 'adamw',
  learningRate: 0.01,
  beta1: 0.9,
  beta2: 0.95,
  epsilon: 1e-8,
  weightDecay: 0,
  maxGradientNorm: 1,
}
const WORDS = ['a', 'hello', 'abc def', 'hello', 'zz', 'a longer prompt than the others', 'x', 'hello', '12345', 'y']

// Kernels are compiled in software where there is no GPU.
vi.setConfig({ testTimeout: 180_000 })

let device: Device
let model: Model
beforeAll(async () => {
  device = await openNodeDevice('wasm')
  model = await randomModel()
})
afterAll(() => device.dispose())

function norm(values: Float32Array): number {
  return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0))
}

async function gradientOf(policy: Policy, rows: Row[], slopes: Float32Array, perPass: number): Promise<Float32Array> {
  policy.clearGradient()
  let at = 0
  for (let first = 0; first < rows.length; first += perPass) {
    const part = rows.slice(first, first + perPass)
    const { pass } = await policy.logprobs(part, { adapter: 'live', keep: true })
    await policy.backward(pass!, slopes.slice(at, at + flatTargets(part)))
    at += flatTargets(part)
  }
  const gradient = await policy.gradient()
  policy.clearGradient()
  return gradient
}

describe.each(POLICIES)('the $name policy', ({ create, trains, updates }) => {
  it.each([1, 0.6])(
    'gives a token the same log-probability when it samples and when it learns (T = %s)',
    async (temperature) => {
      const policy = await create({ model, device })
      await perturb(policy)
      const sampler = policy.sampler(samplingOptions(model, { temperature }))
      const prompts = WORDS.map((word) => prompt(model, word))
      const completions = await sampler.complete(
        prompts.map((ids, i) => ({ sequence: i, ids, noise: noiseKey(1, 'train', i, 0), maxTokens: 20 })),
      )
      sampler.dispose()
      const { logp, entropy } = await policy.logprobs(
        completions.map((completion, i) => rowOf(prompts[i], completion, temperature)),
        { adapter: 'live' },
      )
      const mu = completions.flatMap((completion) => [...completion.logp])
      const sampled = completions.flatMap((completion) => [...completion.entropy])
      expect(mu.length).toBeGreaterThan(100)
      for (const i of mu.keys()) {
        expect(Math.abs(mu[i] - logp[i])).toBeLessThan(1e-4)
        expect(Math.abs(sampled[i] - entropy[i])).toBeLessThan(1e-4)
      }
      policy.dispose()
    },
  )

  it('samples the same tokens whatever else decodes beside them', async () => {
    const tokens: string[][] = []
    for (const [slots, order] of [
      [64, 'forwards'],
      [3, 'forwards'],
      [1, 'forwards'],
      [4, 'backwards'],
    ] as const) {
      const policy = await create({ model, device, slots })
      await perturb(policy)
      const turns = WORDS.map((word, i) => ({
        sequence: i,
        ids: prompt(model, word),
        noise: noiseKey(7, 'train', i, 2),
        maxTokens: 24,
      }))
      const sampler = policy.sampler(samplingOptions(model))
      const completions = await sampler.complete(order === 'forwards' ? turns : turns.toReversed())
      sampler.dispose()
      policy.dispose()
      const sorted = completions.toSorted((a, b) => a.sequence - b.sequence)
      tokens.push(sorted.map(({ ids }) => ids.join()))
    }
    for (const other of tokens.slice(1)) expect(other).toEqual(tokens[0])
    // The same prompt with other noise says something else.
    expect(tokens[0][1]).not.toEqual(tokens[0][3])
  })

  it('goes on with a later turn as if the whole conversation had been given at once', async () => {
    const policy = await create({ model, device })
    await perturb(policy)
    const noise = noiseKey(3, 'train', 0, 0)
    const sampler = policy.sampler(samplingOptions(model))
    const asked = prompt(model, 'first')
    const [first] = await sampler.complete([{ sequence: 0, ids: asked, noise, maxTokens: 6 }])
    const suffix = Int32Array.from(
      model.template.renderSuffix([{ role: 'user', content: 'second' }], first.stop === 'token'),
    )
    const [second] = await sampler.complete([{ sequence: 0, ids: suffix, noise, maxTokens: 6 }])
    const [again] = await sampler.complete([
      { sequence: 1, ids: Int32Array.from([...asked, ...first.ids, ...suffix]), noise, maxTokens: 6 },
    ])
    expect([...second.ids]).toEqual([...again.ids])
    sampler.dispose()
    policy.dispose()
  })

  it('names the likeliest tokens at each position, with the log-probabilities that they would have had', async () => {
    const policy = await create({ model, device })
    await perturb(policy)
    const temperature = 0.8
    const sampler = policy.sampler(samplingOptions(model, { temperature, alternatives: 5 }))
    const prompts = ['ab', 'other'].map((word) => prompt(model, word))
    const completions = await sampler.complete(
      prompts.map((ids, i) => ({ sequence: i, ids, noise: noiseKey(2, 'train', i, 0), maxTokens: 5 })),
    )
    sampler.dispose()
    const rows: Row[] = []
    const expected: number[] = []
    completions.forEach(({ ids, logp, alternatives }, i) => {
      expect(alternatives).toHaveLength(ids.length)
      alternatives!.forEach((list, t) => {
        expect(list.map((one) => one.logp)).toEqual(list.map((one) => one.logp).toSorted((a, b) => b - a))
        expect(new Set(list.map(({ token }) => token)).size).toBe(5)
        const drawn = list.find(({ token }) => token === ids[t])
        if (drawn) expect(drawn.logp).toBe(logp[t])
        for (const one of list) {
          const row = [...prompts[i], ...ids.subarray(0, t), one.token]
          rows.push({ ids: Int32Array.from(row), targets: Int32Array.of(row.length - 1), temperature })
          expected.push(one.logp)
        }
      })
    })
    const { logp } = await policy.logprobs(rows, { adapter: 'live' })
    expect(expected.length).toBeGreaterThan(25)
    for (const [i, value] of expected.entries()) expect(Math.abs(logp[i] - value)).toBeLessThan(1e-4)
    policy.dispose()
  })

  it('keeps samplers apart that take turns', async () => {
    const policy = await create({ model, device, slots: 4 })
    const turns = (count: number) => (sequence: number, i: number) => ({
      sequence,
      ids: i === 0 ? prompt(model, WORDS[sequence]) : new Int32Array(0),
      noise: noiseKey(9, 'eval', sequence, 0),
      maxTokens: count,
    })
    const stopTokens: number[] = []
    const alone = policy.sampler(samplingOptions(model, { stopTokens }))
    const whole = await alone.complete([0, 1, 2].map((sequence) => turns(12)(sequence, 0)))
    alone.dispose()
    const samplers = [0, 1].map(() => policy.sampler(samplingOptions(model, { stopTokens })))
    const said: number[][][] = [
      [[], [], []],
      [[], [], []],
    ]
    for (let part = 0; part < 3; part++) {
      for (const [s, sampler] of samplers.entries()) {
        const order = s === 0 ? [0, 1, 2] : [2, 1, 0]
        const parts = await sampler.complete(order.map((sequence) => turns(4)(sequence, part)))
        for (const { sequence, ids } of parts) said[s][sequence].push(...ids)
      }
    }
    for (const sampler of samplers) sampler.dispose()
    for (const one of said) expect(one).toEqual(whole.map(({ ids }) => [...ids]))
    policy.dispose()
  })

  it('stops at a stop token, a stop string, the longest completion and the longest sequence', async () => {
    const policy = await create({ model, device })
    const sampler = policy.sampler(samplingOptions(model, { maxLength: 60 }))
    const all = await sampler.complete(
      WORDS.map((word, i) => ({
        sequence: i,
        ids: prompt(model, word),
        noise: noiseKey(1, 'train', i, 0),
        maxTokens: i === 5 ? 100 : 4,
      })),
    )
    expect(all[0].stop).toBe('max_tokens')
    expect(all[5].stop).toBe('max_length')
    expect(prompt(model, WORDS[5]).length + all[5].ids.length).toBe(60)
    sampler.dispose()
    const said = all[5].ids
    const stopping = policy.sampler(samplingOptions(model, { maxLength: 60, stopTokens: [said[2]] }))
    const [short] = await stopping.complete([
      { sequence: 5, ids: prompt(model, WORDS[5]), noise: noiseKey(1, 'train', 5, 0), maxTokens: 100 },
    ])
    expect(short.stop).toBe('token')
    expect(short.ids.at(-1)).toBe(said[2])
    expect(short.ids.length).toBe(said.indexOf(said[2]) + 1)
    stopping.dispose()
    policy.dispose()
  })

  it('computes one gradient whatever the size and the order of its passes', async () => {
    const policy = await create({ model, device })
    await perturb(policy)
    const rows = randomRows(11, model.card.vocabulary)
    const slopes = Float32Array.from({ length: flatTargets(rows) }, (_, i) => Math.sin(3 * i))
    const whole = await gradientOf(policy, rows, slopes, 11)
    for (const perPass of [1, 4, 7]) {
      const parts = await gradientOf(policy, rows, slopes, perPass)
      expect(norm(parts.map((value, i) => value - whole[i])) / norm(whole)).toBeLessThan(1e-4)
    }
    const offsets = rows.map((_, i) => flatTargets(rows.slice(0, i)))
    const turned = [...rows.keys()].toReversed()
    const backwards = Float32Array.from(
      turned.flatMap((i) => [...slopes.slice(offsets[i], offsets[i] + rows[i].targets.length)]),
    )
    const reversed = await gradientOf(
      policy,
      turned.map((i) => rows[i]),
      backwards,
      3,
    )
    expect(norm(reversed.map((value, i) => value - whole[i])) / norm(whole)).toBeLessThan(1e-4)
    policy.dispose()
  })

  it.each(trains)('agrees with central differences along random directions (%s)', async (trainable) => {
    const policy = await create({ model, device, trainable })
    if (trainable === 'adapters') await perturb(policy)
    const rows = randomRows(3, model.card.vocabulary, 9)
    const slopes = Float32Array.from({ length: flatTargets(rows) }, (_, i) => Math.cos(i))
    const gradient = await gradientOf(policy, rows, slopes, 3)
    const base = await policy.state()
    const value = async (step: number, direction: Float32Array) => {
      await policy.restore({ ...base, trainable: base.trainable.map((w, i) => w + step * direction[i]) })
      const { logp } = await policy.logprobs(rows, { adapter: 'live' })
      return logp.reduce((sum, l, i) => sum + l * slopes[i], 0)
    }
    const random = new RandomStream(23)
    for (let trial = 0; trial < (trainable === 'all' ? 1 : 3); trial++) {
      const noise = Float32Array.from(gradient, () => random.normal())
      // Half along the gradient, so that the derivative is never small against its rounding error.
      const direction = noise.map((n, i) => n / norm(noise) + gradient[i] / norm(gradient))
      const h = 2e-3
      const numeric = ((await value(h, direction)) - (await value(-h, direction))) / (2 * h)
      const analytic = gradient.reduce((sum, g, i) => sum + g * direction[i], 0)
      expect(Math.abs(numeric - analytic) / Math.abs(analytic)).toBeLessThan(1e-2)
    }
    policy.dispose()
  })

  it('keeps a snapshot and the reference apart from what it learns', async () => {
    const policy = await create({ model, device })
    const rows = randomRows(4, model.card.vocabulary)
    const reference = await policy.logprobs(rows, { adapter: 'none' })
    // A fresh adapter changes nothing: B is zero.
    const fresh = await policy.logprobs(rows, { adapter: 'live' })
    expect([...fresh.logp]).toEqual([...reference.logp])
    const snapshot = policy.snapshot()
    const { pass, logp } = await policy.logprobs(rows, { adapter: 'live', keep: true })
    await policy.backward(
      pass!,
      logp.map(() => -1 / logp.length),
    )
    const { gradientNorm } = await policy.update(ADAMW)
    expect(gradientNorm).toBeGreaterThan(0)
    expect(policy.version).toBe(1)
    const learned = await policy.logprobs(rows, { adapter: 'live' })
    const mean = (values: Float32Array) => values.reduce((sum, v) => sum + v, 0) / values.length
    expect(mean(learned.logp)).toBeGreaterThan(mean(logp))
    expect([...(await policy.logprobs(rows, { adapter: snapshot })).logp]).toEqual([...fresh.logp])
    expect([...(await policy.logprobs(rows, { adapter: 'none' })).logp]).toEqual([...reference.logp])
    const copy = policy.snapshot({ trainable: await snapshot.read(), version: snapshot.version })
    expect([...(await policy.logprobs(rows, { adapter: copy })).logp]).toEqual([...fresh.logp])
    expect(copy.version).toBe(0)
    copy.dispose()
    snapshot.dispose()
    policy.dispose()
  })

  it('answers from a snapshot while it learns, or after that, with the same tokens', async () => {
    const policy = await create({ model, device })
    await perturb(policy)
    const rows = randomRows(4, model.card.vocabulary)
    const turns = WORDS.map((word, sequence) => ({
      sequence,
      ids: prompt(model, word),
      noise: noiseKey(1, 'train', sequence, 0),
      maxTokens: 40,
    }))
    const answerFrom = async (adapter: AdapterChoice) => {
      const sampler = policy.sampler(samplingOptions(model, { adapter }))
      const completions = await sampler.complete(turns)
      sampler.dispose()
      return completions
    }
    const learn = async () => {
      const { pass, logp } = await policy.logprobs(rows, { adapter: 'live', keep: true })
      await policy.backward(
        pass!,
        logp.map(() => -1 / logp.length),
      )
      await policy.update(ADAMW)
    }
    const before = await answerFrom('live')
    const snapshot = policy.snapshot()
    let meanwhile = before
    if (policy.concurrent) {
      const answering = answerFrom(snapshot)
      await learn()
      meanwhile = await answering
    } else await learn()
    const afterwards = await answerFrom(snapshot)
    expect(meanwhile).toEqual(before)
    expect(afterwards).toEqual(before)
    expect(new Set(afterwards.flatMap(({ versions }) => [...versions]))).toEqual(new Set([0]))
    const after = await answerFrom('live')
    expect(after).not.toEqual(before)
    expect(new Set(after.flatMap(({ versions }) => [...versions]))).toEqual(new Set([1]))
    snapshot.dispose()
    policy.dispose()
  })

  it('goes on from a saved state exactly as if it had never stopped', async () => {
    const rows = randomRows(4, model.card.vocabulary)
    const learn = async (policy: Policy) => {
      const { pass, logp } = await policy.logprobs(rows, { adapter: 'live', keep: true })
      await policy.backward(
        pass!,
        logp.map((_, i) => -Math.cos(i) / logp.length),
      )
      await policy.update(ADAMW)
    }
    const unbroken = await create({ model, device })
    for (let step = 0; step < 4; step++) await learn(unbroken)
    const first = await create({ model, device })
    for (let step = 0; step < 2; step++) await learn(first)
    const saved = await first.state()
    first.dispose()
    const second = await create({ model, device })
    await second.restore(saved)
    for (let step = 0; step < 2; step++) await learn(second)
    expect(await second.state()).toEqual(await unbroken.state())
    second.dispose()
    unbroken.dispose()
  })

  it('takes one AdamW step as the paper writes it, after clipping', async () => {
    const policy = await create({ model, device })
    await perturb(policy)
    const rows = randomRows(3, model.card.vocabulary)
    const before = await policy.state()
    const { pass, logp } = await policy.logprobs(rows, { adapter: 'live', keep: true })
    await policy.backward(
      pass!,
      logp.map(() => 0.5),
    )
    const gradient = await policy.gradient()
    const { gradientNorm } = await policy.update({ ...ADAMW, weightDecay: 0.1, maxGradientNorm: 0.25 })
    expect(gradientNorm).toBeCloseTo(norm(gradient), 3)
    const after = await policy.state()
    for (let i = 0; i < gradient.length; i += 97) {
      const g = (gradient[i] * 0.25) / (norm(gradient) + 1e-6)
      // First step: m̂ = g and v̂ = g², so the quotient is g / (|g| + ε).
      const expected = before.trainable[i] * (1 - 0.01 * 0.1) - (0.01 * g) / (Math.abs(g) + 1e-8)
      expect(after.trainable[i]).toBeCloseTo(expected, 4)
    }
    policy.dispose()
  })

  it('refuses a pass that was used, slopes of another length and a second pass beside an open one', async () => {
    const policy = await create({ model, device })
    const rows = randomRows(2, model.card.vocabulary)
    const { pass, logp } = await policy.logprobs(rows, { adapter: 'live', keep: true })
    await expect(policy.logprobs(rows, { adapter: 'live', keep: true })).rejects.toThrow(/still open/)
    await expect(policy.backward(pass!, new Float32Array(1))).rejects.toThrow(/expected \d+ slopes/)
    await policy.backward(pass!, new Float32Array(logp.length))
    await expect(policy.backward(pass!, new Float32Array(logp.length))).rejects.toThrow(/already used/)
    policy.dispose()
  })

  it('skips an update whose gradient is not finite and says so', async () => {
    const policy = await create({ model, device })
    const rows = randomRows(2, model.card.vocabulary)
    const before = await policy.state()
    const { pass, logp } = await policy.logprobs(rows, { adapter: 'live', keep: true })
    await policy.backward(
      pass!,
      logp.map(() => Number.POSITIVE_INFINITY),
    )
    expect((await policy.update(ADAMW)).gradientNorm).toBeNaN()
    expect(await policy.state()).toEqual(before)
    policy.dispose()
  })

  it('holds no more tensors after many updates than after three', async () => {
    const policy = await create({ model, device })
    const rows = randomRows(4, model.card.vocabulary)
    const held: { tensors: number; gpuBytes: number }[] = []
    for (let step = 0; step < updates; step++) {
      const sampler = policy.sampler(samplingOptions(model))
      await sampler.complete([
        { sequence: 0, ids: prompt(model, 'abc'), noise: noiseKey(1, 'train', step, 0), maxTokens: 5 },
      ])
      sampler.dispose()
      const { pass, logp } = await policy.logprobs(rows, { adapter: 'live', keep: true })
      await policy.backward(
        pass!,
        logp.map(() => -0.01),
      )
      await policy.update(ADAMW)
      held.push(policy.memory())
    }
    expect(held.at(-1)!.tensors).toBe(held[2].tensors)
    expect(held.at(-1)!.gpuBytes).toBe(held[2].gpuBytes)
    policy.dispose()
  })
})
