// The near end of a Node worker thread, as comlink and the doors want it.

import { parentPort } from 'node:worker_threads'
import type { Endpoint } from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'

export function threadEndpoint(): Endpoint {
  return nodeEndpoint(parent())
}

export function onFirstPort(serve: (port: MessagePort) => void): void {
  parent().once('message', serve)
  parent().postMessage('ready')
}

function parent() {
  if (!parentPort) throw new Error('internal: this file is for a worker thread')
  return parentPort
}
