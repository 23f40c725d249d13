// Runs one kernel on the device of a test and reads its outputs back.

import { type Kernel, Pipelines } from '../../workers/gpu/kernel.ts'
import { provideWebGPU } from '../../workers/gpu/node.ts'

let opened: Promise<GPUDevice> | null = null
let pipelines: Pipelines | null = null

/** The machine's WebGPU device through Dawn: a GPU where there is one, software elsewhere. */
export function testDevice(): Promise<GPUDevice> {
  opened ??= open()
  return opened
}

async function open(): Promise<GPUDevice> {
  if (!(await provideWebGPU())) throw new Error('Opened no WebGPU: install the optional package webgpu and Chromium.')
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: 'high-performance' })
  if (!adapter)
    throw new Error('Opened no WebGPU: there is no adapter; apt-get install -y chromium brings a software one.')
  const { limits } = adapter
  const wanted = ['shader-f16', 'subgroups', 'timestamp-query'].filter((name) => adapter.features.has(name))
  return adapter.requestDevice({
    requiredFeatures: wanted as GPUFeatureName[],
    requiredLimits: {
      maxStorageBuffersPerShaderStage: limits.maxStorageBuffersPerShaderStage,
      maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
      maxBufferSize: limits.maxBufferSize,
      maxComputeWorkgroupStorageSize: limits.maxComputeWorkgroupStorageSize,
    },
  })
}

export type Data = Float32Array | Uint32Array | Int32Array

/**
 * @param buffers one per binding; what is bound for writing is read back afterwards
 * @returns the written buffers in order of binding, as the type they came in
 */
export async function runKernel(
  kernel: Kernel,
  buffers: Data[],
  workgroups: readonly [number, number?, number?],
): Promise<Data[]> {
  const device = await testDevice()
  device.pushErrorScope('validation')
  pipelines ??= new Pipelines(device)
  const { pipeline, layout } = pipelines.get(kernel)
  const made = buffers.map((data, i) => {
    const usage =
      (kernel.bindings[i] === 'uniform' ? GPUBufferUsage.UNIFORM : GPUBufferUsage.STORAGE) |
      GPUBufferUsage.COPY_DST |
      GPUBufferUsage.COPY_SRC
    const buffer = device.createBuffer({ size: Math.max(16, Math.ceil(data.byteLength / 16) * 16), usage })
    device.queue.writeBuffer(buffer, 0, data as BufferSource)
    return buffer
  })
  const encoder = device.createCommandEncoder()
  const pass = encoder.beginComputePass()
  pass.setPipeline(pipeline)
  pass.setBindGroup(
    0,
    device.createBindGroup({ layout, entries: made.map((buffer, binding) => ({ binding, resource: { buffer } })) }),
  )
  pass.dispatchWorkgroups(workgroups[0], workgroups[1] ?? 1, workgroups[2] ?? 1)
  pass.end()
  const written = [...made.keys()].filter((i) => kernel.bindings[i] === 'write')
  const staging = written.map((i) => {
    const copy = device.createBuffer({ size: made[i].size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST })
    encoder.copyBufferToBuffer(made[i], 0, copy, 0, made[i].size)
    return copy
  })
  device.queue.submit([encoder.finish()])
  const error = await device.popErrorScope()
  if (error) throw new Error(`${kernel.name}: ${error.message}`)
  const results = await Promise.all(
    staging.map(async (copy, n) => {
      await copy.mapAsync(GPUMapMode.READ)
      const type = buffers[written[n]].constructor as Float32ArrayConstructor
      const values = new type(copy.getMappedRange().slice(0), 0, buffers[written[n]].length)
      copy.destroy()
      return values
    }),
  )
  for (const buffer of made) buffer.destroy()
  return results
}

/** The largest |got − expected| / (1 + |expected|). */
export function worst(got: ArrayLike<number>, expected: ArrayLike<number>): number {
  let result = 0
  for (let i = 0; i < expected.length; i++) {
    const error = Math.abs(got[i] - expected[i]) / (1 + Math.abs(expected[i]))
    if (!(error <= result)) result = error
  }
  return result
}
