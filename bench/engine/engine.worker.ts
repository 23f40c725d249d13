// Measures in a web worker, where a run computes.

import { openDevice } from '../../workers/gpu/device.ts'
import { compareDecoders } from './decoders.ts'
import { measure, measureLoad, type Work } from './measure.ts'
import { measureTruncation } from './truncation.ts'
import { type Verification, verify } from './verify.ts'

type Asked = Work | Verification | { truncation: true }

self.onmessage = async ({ data }: MessageEvent<Asked[]>) => {
  try {
    const device = await openDevice({ backend: 'webgpu', allowSoftware: true })
    postMessage({ device: device.adapter, features: device.features })
    for (const work of data) {
      try {
        const tell = (line: object) => postMessage({ line })
        if ('verify' in work) await verify(device, work.variants, (line) => postMessage({ verified: line }))
        else if ('truncation' in work) await measureTruncation(device, tell)
        else if (work.load) await measureLoad(device, work, tell)
        else if (work.decoder) await compareDecoders(device, work, tell)
        else await measure(device, work, tell, (tried) => postMessage({ tried }))
      } catch (error) {
        postMessage({
          line: {
            ...('verify' in work ? { policy: 'verify' } : work),
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
