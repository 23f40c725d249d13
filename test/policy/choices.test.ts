// What a learner decides at a run's first start is plain JSON, and the next start keeps it: the variants of kernels too.

import { describe, expect, it, vi } from 'vitest'
import { load } from '../../configs/load.ts'
import type { Device } from '../../workers/gpu/device.ts'
import { offeredBy } from '../../workers/gpu/variants.ts'
import { openLearner, type Realm } from '../../workers/host/learner.ts'
import { testDevice } from '../gpu/runKernel.ts'
import { randomFiles, readFrom } from './randomModel.ts'

vi.setConfig({ testTimeout: 180_000 })

const gpu = await testDevice()

const realm: Realm = {
  library: () => Promise.reject(new Error('This test stores nothing.')),
  modelFiles: async () => readFrom(randomFiles()),
  openDevice: async (): Promise<Device> => ({
    backend: 'webgpu',
    adapter: 'that of the tests',
    software: true,
    features: [],
    memoryLimitBytes: null,
    selfTest: { passed: true, sentence: '' },
    gpu,
    lost: new Promise(() => {}),
    dispose() {},
  }),
}

function configOf(engine: string) {
  const { config } = load({
    model: 'lab-tiny',
    env: [{ id: 'reverse-text' }],
    lora: { r: 4, alpha: 8 },
    browser: { engine, slots: 4, token_budget: 256 },
  })
  return config!
}

describe('the choices of a start', () => {
  it.skipIf(offeredBy(gpu).lanes === 0)('are kept by the next one', async () => {
    const config = configOf('compiled')
    const first = await openLearner(realm, config, null)
    expect(first.choices).toMatchObject({ engine: 'compiled', slots: 4, variants: {} })
    first.dispose()
    const saved = JSON.parse(JSON.stringify({ ...first.choices, variants: { 'norm/32': 'subgroups' } }))
    const next = await openLearner(realm, config, saved)
    expect(next.choices).toEqual(saved)
    next.dispose()
  })

  it('hold for saves from before kernels had variants: those are plain', async () => {
    const config = configOf('compiled')
    const first = await openLearner(realm, config, null)
    first.dispose()
    const { variants: _, ...saved } = first.choices
    const next = await openLearner(realm, config, saved)
    expect(next.choices).toEqual({ ...saved, variants: {} })
    next.dispose()
  })
})
