// The server's routes: the page as static files, and an API beside it. Runs in any fetch handler; knows no port.
// `AppType` types the page's client, so page and server cannot disagree.

import { serveStatic } from '@hono/node-server/serve-static'
import { Hono } from 'hono'
import { isolation } from './access/isolation.ts'
import { loopbackOnly } from './access/loopback.ts'

export interface AppOptions {
  /** The built page: dist/web. */
  webRoot: string
}

export function createApp({ webRoot }: AppOptions) {
  const app = new Hono()
  app.use(loopbackOnly)
  app.use(isolation)
  const api = app
    .basePath('/api')
    .get('/health', (c) => c.json({ status: 'ok' as const, name: 'rollout-lab' as const }))
  app.use(
    serveStatic({
      root: webRoot,
      onFound: (path, c) => {
        // A hashed name never changes its bytes; any other may with the next build.
        c.header('Cache-Control', /[\\/]assets[\\/]/.test(path) ? 'public, max-age=31536000, immutable' : 'no-cache')
        c.header('Accept-Ranges', 'bytes')
      },
    }),
  )
  app.notFound((c) => {
    const sentence = `There is nothing at ${c.req.path} here.`
    return c.req.path.startsWith('/api/') ? c.json({ error: sentence }, 404) : c.text(`${sentence}\n`, 404)
  })
  app.onError((error, c) => {
    console.error(error)
    return c.json({ error: `The server failed at ${c.req.method} ${c.req.path}: ${error.message}` }, 500)
  })
  return api
}

export type AppType = ReturnType<typeof createApp>
