// Reads a buffer back to JavaScript: one copy, one wait.

export async function readBuffer(
  device: GPUDevice,
  buffer: GPUBuffer,
  bytes: number,
  offset = 0,
): Promise<ArrayBuffer> {
  const staging = device.createBuffer({ size: bytes, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST })
  const encoder = device.createCommandEncoder()
  encoder.copyBufferToBuffer(buffer, offset, staging, 0, bytes)
  device.queue.submit([encoder.finish()])
  await staging.mapAsync(GPUMapMode.READ)
  const result = staging.getMappedRange().slice(0)
  staging.destroy()
  return result
}

export async function readFloats(device: GPUDevice, buffer: GPUBuffer, length: number): Promise<Float32Array> {
  return new Float32Array(await readBuffer(device, buffer, length * 4))
}
