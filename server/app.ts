// The server's routes: the page as static files, and an API beside it. Runs in any fetch handler; knows no port.
// `AppType` types the page's client, so page and server cannot disagree.

import { serveStatic } from '@hono/node-server/serve-static'
import { Hono } from 'hono'
import { isolation } from './access/isolation.ts'
import { loopbackOnly } from './access/loopback.ts'
import { compileRoute } from './compile/route.ts'
import { LOCAL_CALLER } from './runs/caller.ts'
import { runRoutes } from './runs/routes.ts'
import type { Runs } from './runs/runs.ts'

export interface AppOptions {
  /** The built page: dist/web. */
  webRoot: string
  /** Without it the server shows the page alone. */
  runs?: Runs
}

export function createApp({ webRoot, runs }: AppOptions) {
  const api = new Hono()
    .get('/health', (c) => c.json({ status: 'ok' as const, name: 'rollout-lab' as const }))
    .route('/compile', compileRoute)
    .route('/', runs ? runRoutes({ runs, callerOf: () => LOCAL_CALLER }) : noRuns)

  const app = new Hono()
  app.use(loopbackOnly)
  app.use(isolation)
  const routes = app.route('/api', api)

  app.use('*', async (c, next) => {
    await next()
    if (c.res.status >= 300 || c.req.path.startsWith('/api/')) return
    // A name under assets/ holds a digest of its bytes; any other file may change with the next build.
    c.header('Cache-Control', c.req.path.startsWith('/assets/') ? 'public, max-age=31536000, immutable' : 'no-cache')
    c.header('Accept-Ranges', 'bytes')
    // Tells the page that this server stands behind it, without a request that a static folder would fail.
    c.header('Server-Timing', 'rollout-lab')
  })
  app.use(serveStatic({ root: webRoot }))

  app.notFound((c) => {
    const sentence = `There is nothing at ${c.req.path} here.`
    return c.req.path.startsWith('/api/') ? c.json({ error: sentence }, 404) : c.text(`${sentence}\n`, 404)
  })
  app.onError((error, c) => {
    console.error(error)
    return c.json({ error: `The server failed at ${c.req.method} ${c.req.path}: ${error.message}` }, 500)
  })
  return routes
}

const noRuns = new Hono() as unknown as ReturnType<typeof runRoutes>

export type AppType = ReturnType<typeof createApp>
