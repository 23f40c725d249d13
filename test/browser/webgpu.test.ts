import { describe, expect, it } from 'vitest'
import { inPage, openRealm } from './harness.ts'
import type { describeAdapter } from './webgpu.page.ts'

type Description = NonNullable<Awaited<ReturnType<typeof describeAdapter>>>

describe('the Chromium of the tests', () => {
  it.each(['worker', 'page'] as const)('computes on WebGPU in a %s', async (where) => {
    const description = await inPage<Description>('test/browser/webgpu.page.ts', 'describeAdapter', [], { where })
    expect(description.inWorker).toBe(where === 'worker')
    expect(description.isolated).toBe(true)
    expect(description.values).toEqual(Array.from({ length: 64 }, (_, i) => 2 * i))
  })

  it('hands an error of the called function to the test, with its message', async () => {
    const realm = await openRealm('worker')
    await expect(realm.call('test/browser/webgpu.page.ts', 'noSuchFunction')).rejects.toThrow('is not a function')
    await realm.close()
  })
})
