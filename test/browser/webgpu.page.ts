// What the Chromium of the tests offers, asked inside a page or a worker.

export async function describeAdapter() {
  const adapter = await navigator.gpu?.requestAdapter()
  if (!adapter) return null
  const device = await adapter.requestDevice()
  // One dispatch: y[i] = 2·i.
  const bytes = 4 * 64
  const output = device.createBuffer({ size: bytes, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC })
  const staging = device.createBuffer({ size: bytes, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST })
  const code = `@group(0) @binding(0) var<storage, read_write> y : array<f32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3u) { y[id.x] = 2.0 * f32(id.x); }`
  const compute = { module: device.createShaderModule({ code }), entryPoint: 'main' }
  const pipeline = await device.createComputePipelineAsync({ layout: 'auto', compute })
  const entries = [{ binding: 0, resource: { buffer: output } }]
  const encoder = device.createCommandEncoder()
  const pass = encoder.beginComputePass()
  pass.setPipeline(pipeline)
  pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }))
  pass.dispatchWorkgroups(1)
  pass.end()
  encoder.copyBufferToBuffer(output, 0, staging, 0, bytes)
  device.queue.submit([encoder.finish()])
  await staging.mapAsync(GPUMapMode.READ)
  const values = [...new Float32Array(staging.getMappedRange())]
  device.destroy()
  return {
    vendor: adapter.info.vendor,
    architecture: adapter.info.architecture,
    features: [...adapter.features].sort(),
    isolated: crossOriginIsolated,
    inWorker: typeof document === 'undefined',
    values,
  }
}
