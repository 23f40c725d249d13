// Any file server: one folder under one path, whole files, and neither headers nor ranges of ours.

import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join, normalize } from 'node:path'

const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
}

export interface PlainServer {
  /** Ends with the path under which the folder lies, and a slash. */
  url: string
  /** Paths that were asked for and are not there. */
  missed: string[]
  close(): Promise<void>
}

export async function serveFolder(folder: string, under: `/${string}/`): Promise<PlainServer> {
  const missed: string[] = []
  const server = createServer(async (request, response) => {
    const path = new URL(request.url!, 'http://localhost').pathname
    const name = path.endsWith('/') ? `${path}index.html` : path
    try {
      if (!name.startsWith(under)) throw new Error('outside')
      const bytes = await readFile(join(folder, normalize(name.slice(under.length))))
      response.writeHead(200, { 'Content-Type': TYPES[extname(name)] ?? 'application/octet-stream' }).end(bytes)
    } catch {
      missed.push(path)
      response.writeHead(404).end('Not found')
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${under}`,
    missed,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
