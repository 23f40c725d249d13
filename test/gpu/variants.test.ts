// Variants of kernels: every text is valid WGSL whatever a device offers, and where the device of these tests offers it,
// packed f16 read as such gives the same bits.

import { describe, expect, it } from 'vitest'
import { type Kernel, Pipelines } from '../../workers/gpu/kernel.ts'
import { attendCache, attendCacheFused } from '../../workers/gpu/kernels/attendCache.ts'
import { headChunk } from '../../workers/gpu/kernels/headChunk.ts'
import { type MatmulSpec, matmul, matmulWorkgroups } from '../../workers/gpu/kernels/matmul.ts'
import { norm, normBackward } from '../../workers/gpu/kernels/norm.ts'
import { halfValue } from '../../workers/gpu/kernels/weightFormat.ts'
import { offeredBy, Variants } from '../../workers/gpu/variants.ts'
import { RandomStream } from '../../workers/random.ts'
import { runKernel, testDevice } from './runKernel.ts'

const offered = offeredBy(await testDevice())

/** Computes nothing, offers everything and checks all that it is told. */
const strict = (await import('webgpu')).create(['backend=null'])

/** What a device that offers everything says of a kernel's text; null: nothing. */
async function complaint(pipelines: Pipelines, kernels: Kernel[]): Promise<string | null> {
  pipelines.device.pushErrorScope('validation')
  for (const kernel of kernels) pipelines.get(kernel)
  return (await pipelines.device.popErrorScope())?.message ?? null
}

const HEADS = { heads: 14, kvHeads: 2, headWidth: 64, stride: 1152, norm: false, epsilon: 1e-6 }
const PRODUCT: MatmulSpec = {
  name: 'test',
  K: 96,
  N: 72,
  direction: 'forward',
  format: 'f16',
  tile: { BM: 16, BN: 16, BK: 16, TM: 4, TN: 4, groups: 2, splits: 1 },
}

describe('the texts of variants', async () => {
  const adapter = await strict.requestAdapter()
  const device = await adapter!.requestDevice({ requiredFeatures: ['subgroups', 'shader-f16'] as GPUFeatureName[] })
  const pipelines = new Pipelines(device)

  it.each([4, 8, 16, 32])('reduce by shuffles among %i threads', async (lanes) => {
    const kernels: Kernel[] = [
      norm({ columns: 61, width: 64, epsilon: 1e-6, lanes }),
      normBackward({ columns: 61, width: 64, lanes }, true),
      headChunk({ vocabulary: 5000, columns: 4096, lanes }),
      headChunk({ vocabulary: 500, columns: 512, lanes }),
    ]
    for (const headWidth of [8, 32, 64, 128])
      for (const place of ['rows', 'slots'] as const) {
        const shape = { ...HEADS, headWidth, positions: 64, outStride: 14 * headWidth, place, shuffles: lanes }
        kernels.push(attendCache(shape), attendCacheFused(shape))
      }
    expect(await complaint(pipelines, kernels)).toBeNull()
  })

  it('read packed f16 as such, in both directions', async () => {
    const kernels = (['forward', 'gradient'] as const).map((direction) => matmul({ ...PRODUCT, direction, half: true }))
    expect(await complaint(pipelines, kernels)).toBeNull()
  })

  it('are refused when they are wrong', async () => {
    const wrong = { name: 'wrong', code: 'enable f16; fn main() {', bindings: [] }
    expect(await complaint(pipelines, [wrong])).toMatch(/WGSL/)
  })
})

it.skipIf(!offered.f16)('gives the same bits whichever way packed f16 is read', async () => {
  const random = new RandomStream(2)
  const M = 21
  const a = Float32Array.from({ length: 32 * PRODUCT.K }, () => random.normal())
  // Every kind of half: subnormals too, but neither infinities nor NaN.
  const words = Uint32Array.from({ length: (PRODUCT.K * PRODUCT.N) / 2 }, () => {
    const [low, high] = [random.integer(1 << 16), random.integer(1 << 16)]
    return (Number.isFinite(halfValue(low)) ? low : 0) | ((Number.isFinite(halfValue(high)) ? high : 0) << 16)
  })
  for (const direction of ['forward', 'gradient'] as const) {
    const results = await Promise.all(
      [false, true].map(async (half) => {
        const spec = { ...PRODUCT, direction, half }
        const [got] = await runKernel(matmul(spec), [a, words, new Float32Array(32 * 72)], matmulWorkgroups(spec, M))
        return [...got]
      }),
    )
    expect(results[1]).toEqual(results[0])
  }
})

it('compiles beside other work, and says what is wrong with a text', async () => {
  const pipelines = new Pipelines(await testDevice())
  await pipelines.prepare(norm({ columns: 61, width: 64, epsilon: 1e-6 }))
  await expect(pipelines.prepare({ name: 'wrong', code: 'fn main() {', bindings: [] })).rejects.toThrow()
})

describe('what is chosen', () => {
  it('is plain unless it is named and offered', () => {
    const everything = { lanes: 8, f16: true }
    const variants = new Variants(everything, { norm: 'subgroups', product: 'f16' })
    expect([variants.lanes('norm'), variants.lanes('draw'), variants.half('product'), variants.half('norm')]).toEqual([
      8,
      0,
      true,
      false,
    ])
    expect(new Variants({ lanes: 0, f16: false }, { norm: 'subgroups' }).lanes('norm')).toBe(0)
    expect(new Variants({ lanes: 8, f16: false }, { product: 'f16' }).half('product')).toBe(false)
  })

  it('counts on the smallest subgroup that a device may use', () => {
    const device = (features: string[], subgroupMinSize: number) =>
      ({ features: new Set(features), adapterInfo: { subgroupMinSize } }) as unknown as GPUDevice
    expect(offeredBy(device(['subgroups', 'shader-f16'], 8))).toEqual({ lanes: 8, f16: true })
    expect(offeredBy(device(['subgroups'], 64)).lanes).toBe(32)
    expect(offeredBy(device(['subgroups'], 2)).lanes).toBe(0)
    expect(offeredBy(device([], 32))).toEqual({ lanes: 0, f16: false })
  })
})
