// Answers a request of the dev server with one file, whole or the asked-for range. Knows nothing of where files lie.

import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'

const TYPES: Record<string, string> = {
  json: 'application/json',
  wasm: 'application/wasm',
  toml: 'application/toml; charset=utf-8',
}

export async function sendFile(request: IncomingMessage, response: ServerResponse, file: string): Promise<void> {
  const { size } = await stat(file)
  const [, first, last] = request.headers.range?.match(/^bytes=(\d+)-(\d*)$/) ?? []
  const start = first ? Number(first) : 0
  const end = last ? Math.min(Number(last), size - 1) : size - 1
  response.setHeader('Content-Type', TYPES[file.slice(file.lastIndexOf('.') + 1)] ?? 'application/octet-stream')
  response.setHeader('Accept-Ranges', 'bytes')
  if (first && start >= size) {
    response.writeHead(416, { 'Content-Range': `bytes */${size}` }).end()
    return
  }
  response.setHeader('Content-Length', end - start + 1)
  if (first) response.writeHead(206, { 'Content-Range': `bytes ${start}-${end}/${size}` })
  if (request.method === 'HEAD' || size === 0) response.end()
  else createReadStream(file, { start, end }).pipe(response)
}
