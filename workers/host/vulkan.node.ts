// Which Vulkan driver Dawn finds. It reads the process's environment, which only the main thread of Node can change: a
// thread that is to compute is started after this.

import { existsSync } from 'node:fs'

// Chromium's SwiftShader, where Debian and Ubuntu put it. Mesa's lavapipe is too old for Dawn on Debian 12.
const SOFTWARE_DRIVERS = [
  '/usr/lib/chromium/vk_swiftshader_icd.json',
  '/usr/lib/chromium-browser/vk_swiftshader_icd.json',
  '/opt/google/chrome/vk_swiftshader_icd.json',
]
const HARDWARE_DEVICES = ['/dev/dri/renderD128', '/dev/nvidia0', '/dev/dxg']

/** Without a GPU, names the software driver that Chromium brings along; leaves an own choice alone. */
export function chooseVulkanDriver(): void {
  // Dawn prints driver complaints without it.
  process.env.XDG_RUNTIME_DIR ??= '/tmp'
  if (process.platform !== 'linux' || process.env.VK_ICD_FILENAMES || process.env.VK_DRIVER_FILES) return
  if (HARDWARE_DEVICES.some((device) => existsSync(device))) return
  const software = SOFTWARE_DRIVERS.find((driver) => existsSync(driver))
  if (software) process.env.VK_ICD_FILENAMES = software
}
