// The door of the environment's thread, in a page and in Node: the first message brings the port to answer on.

import { expose } from 'comlink'
import { createEnvironmentPort } from './environments.ts'

if (import.meta.env.SSR) {
  const { onFirstPort } = await import('./host/thread.node.ts')
  onFirstPort((port) => expose(createEnvironmentPort(), port))
} else {
  self.onmessage = ({ data }: MessageEvent<MessagePort>) => expose(createEnvironmentPort(), data)
  self.postMessage('ready')
}
