// The estimate of a run's memory against what the plain policy really holds, by tfjs's own count.

import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { load } from '../../configs/load.ts'
import { estimateMemory } from '../../configs/memory.ts'
import type { Device } from '../../workers/gpu/device.ts'
import { openNodeDevice } from '../../workers/gpu/node.ts'
import { openModel } from '../../workers/policy/load.ts'
import { createPlainPolicy } from '../../workers/policy/plain/index.ts'
import { noiseKey } from '../../workers/random.ts'
import { samplingOptions } from './policies.ts'

let device: Device
beforeAll(async () => {
  device = await openNodeDevice('wasm')
})
afterAll(() => device.dispose())

describe('the estimate for the plain policy', () => {
  it.each([
    ['lab-nano', { seq_len: 128, micro_batch_size: 8, batch_size: 32 }],
    ['lab-tiny', { seq_len: 96, micro_batch_size: 4, batch_size: 16 }],
  ])('is within a fifth of what %s holds', async (name, values) => {
    const read = async (path: string, range?: { start: number; end: number }) => {
      const bytes = new Uint8Array(await readFile(new URL(`../../models/${name}/${path}`, import.meta.url)))
      return range ? bytes.subarray(range.start, range.end) : bytes
    }
    const { config } = load({
      ...values,
      model: name,
      rollouts_per_example: 8,
      env: [{ id: 'reverse-text' }],
      sampling: { max_tokens: 32 },
    })
    const model = await openModel(read, name)
    const { r, alpha, target_modules: targetModules } = config!.lora
    const { seq_len: length, micro_batch_size: rows, batch_size: slots } = values
    const policy = await createPlainPolicy({
      ...{ model, device, trainable: 'adapters', seed: 1, lora: { r, alpha, targetModules } },
      ...{ slots, rowsPerPass: rows },
    })
    const ids = Int32Array.from({ length }, (_, i) => 40 + (i % 60))
    const asked = ids.slice(0, length - 8)
    const sampler = policy.sampler(samplingOptions(model, { stopTokens: [], maxLength: length }))
    await sampler.complete(
      Array.from({ length: slots }, (_, i) => ({
        sequence: i,
        ids: asked,
        noise: noiseKey(1, 'train', i, 0),
        maxTokens: 8,
      })),
    )
    sampler.dispose()
    const targets = Int32Array.from({ length: length - 1 }, (_, i) => i + 1)
    const { logp, pass } = await policy.logprobs(
      Array.from({ length: rows }, () => ({ ids, targets, temperature: 1 })),
      { adapter: 'live', keep: true },
    )
    await policy.backward(pass!, new Float32Array(logp.length).fill(0.01))
    await policy.update({
      ...{ type: 'adamw', learningRate: 1e-4, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0 },
      maxGradientNorm: 1,
    } as const)
    const { gpuPeakBytes } = policy.memory()
    policy.dispose()
    const { total } = estimateMemory(config!, model.card, 'plain')
    expect(Math.abs(total / gpuPeakBytes - 1)).toBeLessThan(0.2)
  })
})
