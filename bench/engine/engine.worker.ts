// Measures in a web worker, where a run computes.

import { openDevice } from '../../workers/gpu/device.ts'
import { measure, measureLoad, type Work } from './measure.ts'
import { verify } from './verify.ts'

self.onmessage = async ({ data }: MessageEvent<(Work | 'verify')[]>) => {
  try {
    const device = await openDevice({ backend: 'webgpu', allowSoftware: true })
    postMessage({ device: device.adapter, features: device.features })
    for (const work of data) {
      try {
        if (work === 'verify') await verify(device, (line) => postMessage({ verified: line }))
        else if (work.load) await measureLoad(device, work, (line) => postMessage({ line }))
        else await measure(device, work, (line) => postMessage({ line }))
      } catch (error) {
        postMessage({
          line: {
            ...(work === 'verify' ? { policy: 'verify' } : work),
            error: error instanceof Error ? error.message : String(error),
          },
        })
      }
    }
    postMessage({ done: true })
  } catch (error) {
    postMessage({ error: error instanceof Error ? (error.stack ?? error.message) : String(error), done: true })
  }
}
