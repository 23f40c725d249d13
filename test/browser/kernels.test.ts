import { describe, expect, it } from 'vitest'
import { inPage } from './harness.ts'
import type { kernels, policyOn } from './kernels.page.ts'

const MODULE = 'test/browser/kernels.page.ts'
type Answer = Awaited<ReturnType<typeof policyOn>>

describe('on WebGPU, in a worker', () => {
  it('products and row reductions equal plain arithmetic on odd shapes', async () => {
    const checks = await inPage<Awaited<ReturnType<typeof kernels>>>(MODULE, 'kernels', [], { where: 'worker' })
    expect(checks.length).toBe(44)
    for (const { name, worst } of checks) expect(worst, name).toBeLessThan(2e-5)
  })

  it('each policy says and learns what the plain one says and learns on wasm', async () => {
    const onGpu = await inPage<Answer>(MODULE, 'policyOn', ['webgpu', '/wasm/'], { where: 'worker' })
    const onWasm = await inPage<Answer>(MODULE, 'policyOn', ['wasm', '/wasm/'], { where: 'worker' })
    const [other] = onWasm
    expect(onGpu.map(({ name }) => name)).toEqual(['plain', 'compiled'])
    for (const { name, tokens, logp, entropy, gradient } of onGpu) {
      expect(tokens, name).toEqual(other.tokens)
      for (const t of logp.keys()) {
        expect(Math.abs(logp[t] - other.logp[t]), name).toBeLessThan(1e-4)
        expect(Math.abs(entropy[t] - other.entropy[t]), name).toBeLessThan(1e-4)
      }
      const size = Math.hypot(...gradient)
      expect(Math.hypot(...gradient.map((g, j) => g - other.gradient[j])) / size, name).toBeLessThan(1e-4)
    }
  })
})
