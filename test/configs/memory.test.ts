// What a run takes of memory: numbers worked out by hand, and the plain policy held against its own ledger.

import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { load } from '../../configs/load.ts'
import { baseDtypeOf, estimateMemory, misfit, trainedParameters } from '../../configs/memory.ts'
import type { RunConfig } from '../../configs/schema.ts'
import { parameterCount } from '../../models/architecture.ts'
import { knownModel, models } from '../../models/index.ts'
import { adapterLayout } from '../../workers/policy/adapter.ts'
import { type Card, readCard, weightShapes } from '../../workers/policy/card.ts'

function config(values: Record<string, unknown> = {}): RunConfig {
  const loaded = load({ env: [{ id: 'reverse-text' }], batch_size: 64, rollouts_per_example: 8, ...values })
  if (loaded.problems) throw new Error(loaded.problems[0].sentence)
  return loaded.config
}

const qwen = knownModel('Qwen/Qwen2.5-0.5B-Instruct')!.architecture
const unlimited = { totalBytes: null, largestBufferBytes: null }

describe('the models that are known', () => {
  // As their model cards and checkpoints have it.
  it.each([
    ['HuggingFaceTB/SmolLM2-135M-Instruct', 134_515_008],
    ['HuggingFaceTB/SmolLM2-360M-Instruct', 361_821_120],
    ['Qwen/Qwen2.5-0.5B-Instruct', 494_032_768],
    ['Qwen/Qwen3-0.6B', 596_049_920],
    ['meta-llama/Llama-3.2-1B-Instruct', 1_235_814_400],
  ])('%s has %i parameters', (id, count) => {
    const { architecture } = knownModel(id)!
    expect(parameterCount(architecture)).toBe(count)
    const weights = [...weightShapes(architecture as Card).values()]
    expect(weights.reduce((sum, shape) => sum + shape.reduce((a, b) => a * b), 0)).toBe(count)
  })

  it.each(['lab-nano', 'lab-tiny'])('%s is as its folder says', async (id) => {
    const folder = new URL(`../../models/${id}/`, import.meta.url)
    const card = readCard(JSON.parse(await readFile(new URL('config.json', folder), 'utf8')))
    expect(card).toMatchObject(knownModel(id)!.architecture)
    expect((await readFile(new URL('model.safetensors', folder))).length).toBe(knownModel(id)!.bytes)
  })

  it('stand in the order of their size', () => {
    const sizes = models.map(({ architecture }) => parameterCount(architecture))
    expect(sizes).toEqual([...sizes].sort((a, b) => a - b))
  })
})

describe('an estimate', () => {
  it('of frozen weights goes by what they are held as', () => {
    const weights = (base_dtype: string) =>
      estimateMemory(config({ model: 'Qwen/Qwen2.5-0.5B-Instruct', browser: { base_dtype } }), qwen, 'compiled').weights
    // 151936·896 = 136,134,656 in the embedding, which is the head too; a layer's matrices hold 896·896·2 + 2·128·896 +
    // 3·896·4864 = 14,909,440, times 24 = 357,826,560.
    expect(weights('f32')).toBe((136_134_656 + 357_826_560) * 4)
    expect(weights('f16')).toBe((136_134_656 + 357_826_560) * 2)
    // A scale of four bytes to 32 numbers; the embedding stays at int8 where the rest is int4.
    expect(weights('int8')).toBe((136_134_656 + 357_826_560) * 1.125)
    expect(weights('int4')).toBe(136_134_656 * 1.125 + 357_826_560 * 0.625)
  })

  it('of the cache goes by slots and length', () => {
    const { cache, slots, length } = estimateMemory(
      config({ batch_size: 64, seq_len: 512, sampling: { max_tokens: 128 } }),
      qwen,
      'compiled',
    )
    // 256 tokens are left to a prompt: 256 + 128 of at most 512.
    expect([slots, length]).toEqual([64, 384])
    // 64 sequences · 384 positions · 24 layers · 2 (keys, values) · 2 heads · 64 · 4 bytes, and logits of 64 rows.
    expect(cache).toBe(64 * 384 * 24 * 2 * 2 * 64 * 4 + 64 * 151936 * 4)
  })

  it('of what is trained is that of the adapters, nine times over, and two more where steps are asynchronous', () => {
    const chosen = config({ lora: { r: 16 } })
    const layout = adapterLayout(qwen as Card, { r: 16, alpha: 32, targetModules: chosen.lora.target_modules })
    expect(trainedParameters(chosen, qwen)).toBe(layout.size)
    expect(estimateMemory(chosen, qwen, 'compiled').optimizer).toBe(layout.size * 4 * 9)
    const ahead = config({ lora: { r: 16 }, max_async_level: 1 })
    expect(estimateMemory(ahead, qwen, 'compiled').optimizer).toBe(layout.size * 4 * 11)
    expect(trainedParameters(config({ lora: { enabled: false } }), qwen)).toBe(494_032_768)
  })

  it('falls with each knob that saves memory', () => {
    const total = (values: Record<string, unknown>) => estimateMemory(config(values), qwen, 'compiled').total
    const token_budget = 2048
    const all = total({ browser: { recompute: 'none', token_budget } })
    const elementwise = total({ browser: { recompute: 'elementwise', token_budget } })
    expect(elementwise).toBeLessThan(all)
    expect(total({ browser: { recompute: 'layer', token_budget } })).toBeLessThan(elementwise)
    expect(total({ browser: { recompute: 'none', token_budget, slots: 8 } })).toBeLessThan(all)
    expect(total({ browser: { recompute: 'none', token_budget: 1024 } })).toBeLessThan(all)
    // Where the budget is left open, a pass holds what 1.5 GiB hold, whatever is computed again.
    const { activations } = estimateMemory(config(), qwen, 'compiled')
    expect(Math.abs(activations / (1.5 * 2 ** 30) - 1)).toBeLessThan(0.05)
    // The plain policy goes by rows instead.
    const plain = (micro_batch_size: number) => estimateMemory(config({ micro_batch_size }), qwen, 'plain').total
    expect(plain(2)).toBeLessThan(plain(4))
  })

  it('holds small models as they are, and large ones in half', () => {
    expect(baseDtypeOf(config(), knownModel('lab-tiny')!.architecture, 'compiled')).toBe('f32')
    expect(baseDtypeOf(config(), qwen, 'compiled')).toBe('f16')
    // 1.0 GB of weights as f16, 0.6 as int8, beside some 2 GB that stay the same.
    const others = estimateMemory(config(), qwen, 'compiled').total - 2 * 493_961_216
    const within = (memory_gb: number) => baseDtypeOf(config({ browser: { memory_gb } }), qwen, 'compiled')
    expect(within((others + 1.1e9) / 1e9)).toBe('f16')
    expect(within((others + 0.7e9) / 1e9)).toBe('int8')
    expect(within((others + 0.45e9) / 1e9)).toBe('int4')
    expect(within(0.1)).toBe('f16')
    expect(baseDtypeOf(config(), qwen, 'plain')).toBe('f32')
    expect(baseDtypeOf(config({ lora: { enabled: false } }), qwen, 'compiled')).toBe('f32')
  })
})

describe('a run that does not fit', () => {
  const model = 'Qwen/Qwen2.5-0.5B-Instruct'
  const limit = (gb: number) => ({ ...unlimited, totalBytes: gb * 1e9 })

  it('is left alone where nothing is known, or where there is room', () => {
    expect(misfit(config({ model }), qwen, unlimited, 'compiled')).toBeNull()
    expect(misfit(config({ model }), qwen, limit(80), 'compiled')).toBeNull()
  })

  it('is told the change that costs the least', () => {
    const chosen = config({ model, browser: { base_dtype: 'f32', slots: 16 }, micro_batch_size: 1 })
    const needs = estimateMemory(chosen, qwen, 'compiled').total
    const told = misfit(chosen, qwen, { ...unlimited, totalBytes: needs - 0.9e9 }, 'compiled')!
    expect(told.change).toEqual({ 'browser.base_dtype': 'f16' })
    expect(told.sentence).toMatch(
      /^Qwen\/Qwen2\.5-0\.5B-Instruct needs about [\d.]+ GB here, and [\d.]+ GB may be used \(weights 2\.0 GB, .*With browser\.base_dtype = "f16" it takes [\d.]+ GB\.$/,
    )
  })

  it('fits with every change that it is told', () => {
    let tried = 0
    for (const gb of [0.6, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 5, 8]) {
      const told = misfit(config({ model, micro_batch_size: 16 }), qwen, limit(gb), 'compiled')
      if (!told?.change || 'model' in told.change) continue
      tried++
      const values: Record<string, unknown> = { model, micro_batch_size: 16 }
      const browser: Record<string, unknown> = {}
      for (const [path, value] of Object.entries(told.change)) {
        if (path.startsWith('browser.')) browser[path.slice('browser.'.length)] = value
        else values[path] = value
      }
      expect(misfit(config({ ...values, browser }), qwen, limit(gb), 'compiled'), `${gb} GB`).toBeNull()
    }
    expect(tried).toBeGreaterThan(3)
  })

  it('is told of a smaller model where no knob helps', () => {
    const told = misfit(config({ model }), qwen, limit(0.7), 'compiled')!
    expect(told.change).toMatchObject({ model: 'HuggingFaceTB/SmolLM2-135M-Instruct' })
    expect(told.sentence).toMatch(/A smaller model would fit: model = "HuggingFaceTB\/SmolLM2-135M-Instruct"/)
    expect(misfit(config({ model }), qwen, limit(0.001), 'compiled')).toMatchObject({
      change: null,
      sentence: expect.stringMatching(/Nothing that this lab knows is small enough/),
    })
  })

  it('is told of a buffer that must lie in one piece', () => {
    const chosen = config({ model, browser: { base_dtype: 'f32', slots: 8 }, micro_batch_size: 1 })
    const told = misfit(chosen, qwen, { ...unlimited, largestBufferBytes: 2 ** 28 }, 'compiled')!
    expect(told.sentence).toMatch(/needs a buffer of 0\.5 GB, and the largest of this device is 0\.3 GB/)
    expect(told.change).toEqual({ 'browser.base_dtype': 'int8' })
  })
})
