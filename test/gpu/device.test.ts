// A device that refuses a command is not computed with any further.

import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { Device } from '../../workers/gpu/device.ts'
import { openNodeDevice } from '../../workers/gpu/node.ts'

vi.setConfig({ testTimeout: 60_000 })

let device: Device
beforeEach(async () => {
  device = await openNodeDevice('webgpu')
})
afterEach(() => device.dispose())

it('says what it refused: a kernel that does not compile', async () => {
  const gpu = device.gpu!
  const module = gpu.createShaderModule({ code: '@compute @workgroup_size(1) fn main() { let x: u32 = 1.5; }' })
  gpu.createComputePipeline({ layout: 'auto', compute: { module, entryPoint: 'main' } })
  await gpu.queue.onSubmittedWorkDone()
  expect(await device.lost).toMatch(
    /^The GPU refused a command, .*: .+ Update the graphics driver, or set browser\.engine/,
  )
})

it('says what it refused: a buffer that no binding may hold', async () => {
  const gpu = device.gpu!
  const size = 2 ** 48
  gpu.createBuffer({ size, usage: GPUBufferUsage.STORAGE })
  await gpu.queue.onSubmittedWorkDone()
  expect(await device.lost).toMatch(/^The GPU (refused a command|has no memory left)/)
})

it('says nothing while all is well', async () => {
  const gpu = device.gpu!
  const buffer = gpu.createBuffer({ size: 64, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC })
  buffer.destroy()
  await gpu.queue.onSubmittedWorkDone()
  const said = await Promise.race([device.lost, new Promise((resolve) => setTimeout(resolve, 50, 'nothing'))])
  expect(said).toBe('nothing')
})
