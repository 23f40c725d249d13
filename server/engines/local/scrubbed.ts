// The variables of a run's process: where programs and drivers lie, and nothing of what the server itself was given.

import { hubVariables } from './models.ts'

const KEPT = [
  ...['PATH', 'LANG', 'LC_ALL', 'TZ', 'SystemRoot', 'LD_LIBRARY_PATH'],
  // Which GPU, and by which driver.
  ...['VK_ICD_FILENAMES', 'VK_DRIVER_FILES', 'CUDA_VISIBLE_DEVICES', 'NVIDIA_VISIBLE_DEVICES', 'ROCR_VISIBLE_DEVICES'],
]

export function scrubbedEnvironment(folder: string): NodeJS.ProcessEnv {
  const kept = KEPT.filter((name) => process.env[name] !== undefined).map((name) => [name, process.env[name]])
  return {
    ...Object.fromEntries(kept),
    ...hubVariables(),
    HOME: folder,
    TMPDIR: folder,
    XDG_RUNTIME_DIR: folder,
    NODE_ENV: 'production',
  }
}
