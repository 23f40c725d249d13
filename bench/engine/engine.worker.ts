// Measures in a web worker, where a run computes.

import { openDevice } from '../../workers/gpu/device.ts'
import { measure, type Work } from './measure.ts'

self.onmessage = async ({ data }: MessageEvent<Work[]>) => {
  try {
    const device = await openDevice({ backend: 'webgpu', allowSoftware: true })
    postMessage({ device: device.adapter, features: device.features })
    for (const work of data) {
      try {
        await measure(device, work, (line) => postMessage({ line }))
      } catch (error) {
        postMessage({ line: { ...work, error: error instanceof Error ? error.message : String(error) } })
      }
    }
    postMessage({ done: true })
  } catch (error) {
    postMessage({ error: error instanceof Error ? (error.stack ?? error.message) : String(error), done: true })
  }
}
