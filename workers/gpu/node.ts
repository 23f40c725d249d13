// WebGPU in Node: Dawn, by the optional package `webgpu`. Without a GPU it finds the software Vulkan driver that Chromium
// brings along.

import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { chooseVulkanDriver } from '../host/vulkan.node.ts'
import { type Backend, type Device, openDevice } from './device.ts'

/** Puts `navigator.gpu` and WebGPU's constants where a browser has them. False when the package is not installed. */
export async function provideWebGPU(): Promise<boolean> {
  if (globalThis.navigator?.gpu) return true
  chooseVulkanDriver()
  try {
    const { create, globals } = await import('webgpu')
    Object.assign(globalThis, globals)
    const features = ['enable-dawn-features=vulkan_enable_f16_on_nvidia,allow_unsafe_apis']
    Object.defineProperty(globalThis, 'navigator', {
      value: { ...globalThis.navigator, gpu: create(features) },
      configurable: true,
    })
    return true
  } catch {
    return false
  }
}

/** The folder of tfjs's .wasm files in node_modules. */
function wasmFolder(): string {
  return `${dirname(createRequire(import.meta.url).resolve('@tensorflow/tfjs-backend-wasm/wasm-out/tfjs-backend-wasm.wasm'))}/`
}

export async function openNodeDevice(backend: Backend | 'auto'): Promise<Device> {
  if (backend === 'auto' || backend === 'webgpu') await provideWebGPU()
  return openDevice({ backend, wasmFolder })
}
