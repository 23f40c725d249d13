// Any file server: one folder on a free port, whole files and no ranges, isolated as the lab's own server isolates it
// unless told otherwise.

import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { extname, join, normalize } from 'node:path'

/** @type {Record<string, string>} */
const TYPES = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
}

const ISOLATION = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' }

/**
 * @typedef {object} FolderServer
 * @property {string} url Ends with the path under which the folder lies, and a slash.
 * @property {string[]} missed Paths that were asked for and are not there.
 * @property {() => Promise<void>} close
 */

/**
 * @param {string} folder
 * @param {{ under?: `/${string}/` | '/', isolated?: boolean }} [options]
 * @returns {Promise<FolderServer>}
 */
export async function serveFolder(folder, { under = '/', isolated = true } = {}) {
  /** @type {string[]} */
  const missed = []
  const server = createServer(async (request, response) => {
    const path = new URL(request.url ?? '/', 'http://localhost').pathname
    const name = path.endsWith('/') ? `${path}index.html` : path
    try {
      if (!name.startsWith(under)) throw new Error('outside')
      const bytes = await readFile(join(folder, normalize(name.slice(under.length))))
      const type = TYPES[extname(name)] ?? 'application/octet-stream'
      response.writeHead(200, { 'Content-Type': type, ...(isolated ? ISOLATION : {}) }).end(bytes)
    } catch {
      missed.push(path)
      response.writeHead(404).end('Not found')
    }
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(null)))
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  return {
    url: `http://127.0.0.1:${port}${under}`,
    missed,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
