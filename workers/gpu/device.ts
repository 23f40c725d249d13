// Obtains something to compute on: a GPUDevice of our own under tfjs's WebGPU backend, or another tfjs backend where
// WebGPU is missing. Says what was found, tests it, and knows when it is lost. Knows nothing of models.

import { useSoftwareKernels } from './softwareKernels.ts'
import { tf } from './tfjs.ts'

export type Backend = 'webgpu' | 'webgl' | 'wasm' | 'cpu'

/** Tried in this order where nothing was asked for: the fastest that works. */
export const BACKENDS: readonly Backend[] = ['webgpu', 'webgl', 'wasm', 'cpu']

export interface Device {
  backend: Backend
  adapter: string
  /** WebGPU on the CPU: SwiftShader, llvmpipe, WARP. */
  software: boolean
  features: string[]
  memoryLimitBytes: number | null
  selfTest: { passed: boolean; sentence: string }
  /** Present on the WebGPU backend only. */
  gpu: GPUDevice | null
  /** Resolves with a sentence when the device is gone, or can no longer be believed. */
  lost: Promise<string>
  dispose(): void
}

export interface DeviceRequest {
  backend: Backend | 'auto'
  /** With `auto`: take a software WebGPU adapter too. */
  allowSoftware?: boolean
  /** Where the .wasm files of tfjs lie, with a trailing slash. */
  wasmFolder?: () => string
}

const SOFTWARE = /swiftshader|llvmpipe|lavapipe|softpipe|warp|basic render/i

const WANTED_FEATURES = ['shader-f16', 'subgroups', 'timestamp-query'] as const

/** Opens the first backend that starts and passes the self-test. Throws a sentence that lists what was tried. */
export async function openDevice(request: DeviceRequest): Promise<Device> {
  const tried: string[] = []
  for (const backend of request.backend === 'auto' ? BACKENDS : [request.backend]) {
    try {
      const device = await open(backend, request)
      if (device.selfTest.passed) return device
      tried.push(`${backend}: ${device.selfTest.sentence}`)
      device.dispose()
    } catch (error) {
      tried.push(`${backend}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  throw new Error(`Opened no device to compute on. Tried ${tried.join('; ')}`)
}

async function open(backend: Backend, request: DeviceRequest): Promise<Device> {
  let glRenderer: string | null = null
  if (backend === 'webgpu') return openWebGPU(request.backend === 'auto' && request.allowSoftware !== true)
  if (backend === 'webgl') {
    glRenderer = webglRenderer()
    if (glRenderer === null) throw new Error('there is no WebGL here.')
    // On a processor, wasm is several times faster than WebGL drawn in software.
    if (request.backend === 'auto' && SOFTWARE.test(glRenderer))
      throw new Error(`it is drawn in software (${glRenderer}).`)
    await import('@tensorflow/tfjs-backend-webgl')
  } else if (backend === 'wasm') {
    const wasm = await import('@tensorflow/tfjs-backend-wasm')
    if (request.wasmFolder) wasm.setWasmPaths(request.wasmFolder())
  } else {
    await import('@tensorflow/tfjs-backend-cpu')
  }
  if (!(await tf.setBackend(backend))) throw new Error('the backend did not start.')
  await tf.ready()
  return {
    backend,
    adapter: glRenderer ?? 'this processor',
    software: glRenderer === null || SOFTWARE.test(glRenderer),
    features: [],
    memoryLimitBytes: null,
    selfTest: await selfTest(),
    gpu: null,
    lost: new Promise(() => {}),
    dispose: () => tf.removeBackend(backend),
  }
}

async function openWebGPU(hardwareOnly: boolean): Promise<Device> {
  if (!globalThis.navigator?.gpu) throw new Error('this browser or program has no WebGPU.')
  const adapter = await requestAdapter()
  if (!adapter) throw new Error('WebGPU is there, but it offers no adapter.')
  const name = adapterName(adapter.info)
  const software = SOFTWARE.test(Object.values(plainInfo(adapter.info)).join(' '))
  if (software && hardwareOnly) throw new Error(`the only adapter is software (${name}); ask for "webgpu" to use it.`)

  const features = WANTED_FEATURES.filter((feature) => adapter.features.has(feature))
  const limits = adapter.limits
  const gpu = await adapter.requestDevice({
    requiredFeatures: features as GPUFeatureName[],
    requiredLimits: {
      maxBufferSize: limits.maxBufferSize,
      maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
      maxStorageBuffersPerShaderStage: limits.maxStorageBuffersPerShaderStage,
      maxComputeWorkgroupStorageSize: limits.maxComputeWorkgroupStorageSize,
      maxComputeWorkgroupsPerDimension: limits.maxComputeWorkgroupsPerDimension,
      maxComputeWorkgroupSizeX: limits.maxComputeWorkgroupSizeX,
      maxComputeInvocationsPerWorkgroup: limits.maxComputeInvocationsPerWorkgroup,
    },
  })
  const { WebGPUBackend } = await import('@tensorflow/tfjs-backend-webgpu')
  if (software) useSoftwareKernels()
  // Kernels are registered under the name of the backend, so ours takes the place of the one tfjs would make.
  if (tf.findBackendFactory('webgpu')) tf.removeBackend('webgpu')
  tf.registerBackend('webgpu', () => new WebGPUBackend(gpu, adapter.info), 5)
  // Small tensors stay on the GPU, and one matrix kernel serves every shape, so that a sum over K has one order
  // whatever the batch (3: MatMulPackedProgram).
  tf.env().set('WEBGPU_CPU_FORWARD', false)
  tf.env().set('WEBGPU_MATMUL_PROGRAM_TYPE', 3)
  // Buffers freed within an open batch come back only when it is submitted.
  tf.env().set('WEBGPU_DEFERRED_SUBMIT_BATCH_SIZE', 32)
  if (!(await tf.setBackend('webgpu'))) throw new Error('tfjs could not start on the device.')
  await tf.ready()
  return {
    backend: 'webgpu',
    adapter: name,
    software,
    features,
    // WebGPU does not say how much memory there is.
    memoryLimitBytes: null,
    selfTest: await selfTest(),
    gpu,
    lost: Promise.race([lossOf(gpu), errorOf(gpu)]),
    dispose() {
      tf.removeBackend('webgpu')
      gpu.destroy()
    },
  }
}

async function lossOf(gpu: GPUDevice): Promise<string> {
  const { message } = await gpu.lost
  return `The GPU device was lost${message ? `: ${message.split('\n')[0]}` : '.'}`
}

// A command that the device refuses leaves whatever it was to write as it was: numbers after it mean nothing.
function errorOf(gpu: GPUDevice): Promise<string> {
  return new Promise((resolve) => {
    gpu.onuncapturederror = ({ error }) => {
      const said = error.message.trim().split('\n')[0]
      const memory = typeof GPUOutOfMemoryError !== 'undefined' && error instanceof GPUOutOfMemoryError
      resolve(
        memory
          ? `The GPU has no memory left (${said}). Close other programs that use it, or lower browser.token_budget or browser.slots, or hold the frozen weights in a smaller browser.base_dtype.`
          : `The GPU refused a command, and what it computes from then on means nothing: ${said}. Update the graphics driver, or set browser.engine to "plain".`,
      )
    }
  })
}

function plainInfo({ vendor, architecture, device, description }: GPUAdapterInfo) {
  return { vendor, architecture, device, description }
}

// Browsers fill these in as they please: `device` may be a name or a number, `description` a name or a driver's version.
function adapterName(info: GPUAdapterInfo): string {
  const { vendor, architecture, device, description } = plainInfo(info)
  const model = [device, description].find(
    (text) => /[a-z]{3}/i.test(text) && !/^0x/i.test(text) && !/\d+\.\d+\.\d+/.test(text),
  )
  return model ?? ([vendor, architecture].filter(Boolean).join(' ') || 'unnamed adapter')
}

function webglRenderer(): string | null {
  if (typeof OffscreenCanvas === 'undefined') return null
  const gl = new OffscreenCanvas(1, 1).getContext('webgl2')
  if (!gl) return null
  const names = gl.getExtension('WEBGL_debug_renderer_info')
  return String(gl.getParameter(names ? names.UNMASKED_RENDERER_WEBGL : gl.RENDERER))
}

// The first answer may be null on some drivers; the second, for the fast adapter, is then real.
async function requestAdapter(): Promise<GPUAdapter | null> {
  for (const options of [
    { powerPreference: 'high-performance' },
    {},
    { powerPreference: 'high-performance' },
  ] as const) {
    const adapter = await navigator.gpu.requestAdapter(options)
    if (adapter) return adapter
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return null
}

/** A few operations against values worked out in JavaScript: a wrong driver is reported, not trained on. */
async function selfTest(): Promise<{ passed: boolean; sentence: string }> {
  const [m, k, n] = [9, 70, 37]
  const a = Float32Array.from({ length: m * k }, (_, i) => Math.sin(i * 12.9898) * 0.5)
  const b = Float32Array.from({ length: k * n }, (_, i) => Math.cos(i * 78.233) * 0.5)
  const product = new Float64Array(m * n)
  for (let i = 0; i < m; i++)
    for (let j = 0; j < n; j++) for (let l = 0; l < k; l++) product[i * n + j] += a[i * k + l] * b[l * n + j]

  const [matmul, softmax] = tf.tidy(() => {
    const result = tf.matMul(tf.tensor2d(a, [m, k]), tf.tensor2d(b, [k, n]))
    return [result, tf.softmax(result)]
  })
  const checks = [
    { name: 'matrix product', got: await matmul.data(), expected: product },
    { name: 'softmax', got: await softmax.data(), expected: softmaxRows(product, n) },
  ]
  tf.dispose([matmul, softmax])
  for (const { name, got, expected } of checks) {
    let worst = 0
    for (let i = 0; i < expected.length; i++) worst = Math.max(worst, Math.abs(got[i] - expected[i]))
    if (!(worst < 1e-4)) {
      return {
        passed: false,
        sentence: `the ${name} is off by ${worst.toExponential(1)}, expected at most 1e-4; update the graphics driver or choose another backend.`,
      }
    }
  }
  return { passed: true, sentence: `${checks.length} operations agree with plain arithmetic.` }
}

function softmaxRows(values: Float64Array, width: number): Float64Array {
  const result = new Float64Array(values.length)
  for (let row = 0; row < values.length; row += width) {
    const logits = values.subarray(row, row + width)
    const max = Math.max(...logits)
    let sum = 0
    for (const logit of logits) sum += Math.exp(logit - max)
    for (let i = 0; i < width; i++) result[row + i] = Math.exp(logits[i] - max) / sum
  }
  return result
}
