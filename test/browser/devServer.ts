// Before the browser tests: one Vite server, so that a page or a worker can load any module of the repository as it
// stands, and one empty page of that origin to load it from.

import { join } from 'node:path'
import { createServer, type Plugin } from 'vite'
import type { TestProject } from 'vitest/node'
import { ROOT } from '../../build/paths.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    devServer: string
  }
}

// vitest rewrites `import()` in functions that a test sends to the page; the page's own stays as written.
const EMPTY_PAGE = `<!doctype html><title>Test</title><link rel="icon" href="data:,">
<script>globalThis.importModule = (url) => import(url)</script>`

const emptyPage: Plugin = {
  name: 'rollout-lab:empty-page',
  configureServer(server) {
    server.middlewares.use('/empty.html', (_request, response) => {
      response.setHeader('Content-Type', 'text/html')
      for (const [name, value] of Object.entries(server.config.server.headers)) response.setHeader(name, value ?? '')
      response.end(EMPTY_PAGE)
    })
  },
}

export default async function setup(project: TestProject) {
  const server = await createServer({
    configFile: join(ROOT, 'vite.config.ts'),
    mode: 'development',
    logLevel: 'warn',
    plugins: [emptyPage],
    // Files may change while the tests run; a page must not reload for it.
    server: { host: '127.0.0.1', port: 0, hmr: false, watch: null },
  })
  await server.listen()
  project.provide('devServer', server.resolvedUrls!.local[0])
  return () => server.close()
}
