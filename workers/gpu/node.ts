// WebGPU in Node: Dawn, by the optional package `webgpu`. Without a GPU it finds the software Vulkan driver that Chromium
// brings along.

import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { type Backend, type Device, openDevice } from './device.ts'

// Chromium's SwiftShader, where Debian and Ubuntu put it. Mesa's lavapipe is too old for Dawn on Debian 12.
const SOFTWARE_DRIVERS = [
  '/usr/lib/chromium/vk_swiftshader_icd.json',
  '/usr/lib/chromium-browser/vk_swiftshader_icd.json',
  '/opt/google/chrome/vk_swiftshader_icd.json',
]
const HARDWARE_DEVICES = ['/dev/dri/renderD128', '/dev/nvidia0', '/dev/dxg']

/** Puts `navigator.gpu` and WebGPU's constants where a browser has them. False when the package is not installed. */
export async function provideWebGPU(): Promise<boolean> {
  if (globalThis.navigator?.gpu) return true
  const linux = process.platform === 'linux'
  if (linux && !process.env.VK_ICD_FILENAMES && !process.env.VK_DRIVER_FILES && !HARDWARE_DEVICES.some(existsSync)) {
    const software = SOFTWARE_DRIVERS.find(existsSync)
    if (software) process.env.VK_ICD_FILENAMES = software
  }
  try {
    // Dawn prints driver complaints without it.
    process.env.XDG_RUNTIME_DIR ??= '/tmp'
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
