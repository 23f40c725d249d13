// The server's routes: the page as static files, and an API beside it. Runs in any fetch handler; knows no port.
// `AppType` types the page's client, so page and server cannot disagree.

import { serveStatic } from '@hono/node-server/serve-static'
import { type Context, Hono, type MiddlewareHandler } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { requestId } from 'hono/request-id'
import type { Access, AccessEnv } from './access/access.ts'
import { elsewhere } from './access/elsewhere.ts'
import { answersTo } from './access/hosts.ts'
import { isolation } from './access/isolation.ts'
import { opening } from './access/opening.ts'
import { allows } from './access/principal.ts'
import { accessRoutes } from './access/routes.ts'
import { compileRoute } from './compile/route.ts'
import { descriptionRoutes } from './description/routes.ts'
import { type Health, healthRoutes } from './observe/health.ts'
import { type Log, withoutCredentials } from './observe/log.ts'
import { type Metrics, metricsRoute } from './observe/metrics.ts'
import { watching } from './observe/watching.ts'
import { guardOf } from './proxy/guard.ts'
import { openAIRoutes, proxyRoutes } from './proxy/http.ts'
import type { ModelProxy } from './proxy/proxy.ts'
import { type Caller, LOCAL_CALLER } from './runs/caller.ts'
import { runRoutes } from './runs/routes.ts'
import type { Runs } from './runs/runs.ts'
import { secretRoutes } from './secrets/routes.ts'
import type { Secrets } from './secrets/secrets.ts'
import { newId } from './store/ids.ts'

/** Who may ask for what, and what is told of it. */
export interface Guarded {
  access: Access
  secrets: Secrets
  log: Log
  metrics: Metrics
  health: Health
}

export interface AppOptions {
  /** The built page: dist/web. */
  webRoot: string
  /** Without it the server shows the page alone. */
  runs?: Runs
  /** Without it nobody is asked who they are: for tests of routes alone. A server that listens always has it. */
  guarded?: Guarded
  /** OpenAI's routes in front of the nodes; they ask for a key, so only where `guarded` is given. */
  proxy?: ModelProxy
}

export function createApp({ webRoot, runs, guarded, proxy }: AppOptions) {
  const access = guarded?.access
  const api = new Hono<AccessEnv>()
    .get('/health', (c) => c.json({ status: 'ok' as const, name: 'rollout-lab' as const }))
    .use('/compile', access ? access.member() : pass)
    .route('/compile', compileRoute)
    .use('/runs/*', access ? runsGuard(access) : pass)
    .use('/targets/*', access ? runsGuard(access) : pass)
    .route('/', runs ? runRoutes({ runs, callerOf: access ? callerOf : () => LOCAL_CALLER }) : noRuns)
    .route('/', guarded ? accessRoutes(guarded.access) : noAccess)
    .route('/secrets', guarded ? secretRoutes(guarded.access, guarded.secrets) : noSecrets)
    .route('/proxy', proxy && access ? proxyRoutes(proxy, guardOf(access)) : noProxy)

  const app = new Hono()
  app.use(requestId({ generator: newId }))
  if (guarded) app.use(watching(guarded.log, guarded.metrics))
  app.use(answersTo(() => access?.names ?? []))
  app.use(isolation)
  if (access) {
    app.use(elsewhere(() => access.origins))
    app.use(access.refuseCrossSite())
    app.get('/', opening(access))
  }
  if (guarded) {
    app.route('/', healthRoutes(guarded.health))
    app.route('/', metricsRoute(guarded.metrics, guarded.access))
    app.route('/api', descriptionRoutes(app))
  }
  if (proxy && access) app.route('/', openAIRoutes(proxy, guardOf(access)))
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
    if (error instanceof HTTPException) return c.json({ error: `${error.message}.` }, error.status)
    const request = c.get('requestId' as never) as string | undefined
    if (guarded) guarded.log.error({ request, err: error }, `failed at ${c.req.method} ${c.req.path}`)
    else console.error(error)
    const sentence = `The server failed at ${c.req.method} ${c.req.path}: ${withoutCredentials(error.message)}`
    return c.json({ error: sentence, request }, 500)
  })
  return routes
}

const pass: MiddlewareHandler = (_c, next) => next()

/** Runs and targets: whoever may write runs may also ask what would become of one, and that is no write. */
function runsGuard(access: Access): MiddlewareHandler<AccessEnv> {
  const read = access.require('runs:read', { audit: false })
  const write = access.require('runs:write')
  return (c, next) => {
    const reads = ['GET', 'HEAD'].includes(c.req.method) || c.req.path === '/api/runs/preview'
    return (reads ? read : write)(c, next)
  }
}

function callerOf(c: Context): Caller {
  const { key, project, scopes } = (c as Context<AccessEnv>).var.principal
  return { id: key, project, operator: allows({ scopes }, 'operator') }
}

const noRuns = new Hono() as unknown as ReturnType<typeof runRoutes>
const noAccess = new Hono() as unknown as ReturnType<typeof accessRoutes>
const noProxy = new Hono() as unknown as ReturnType<typeof proxyRoutes>
const noSecrets = new Hono() as unknown as ReturnType<typeof secretRoutes>

export type AppType = ReturnType<typeof createApp>
