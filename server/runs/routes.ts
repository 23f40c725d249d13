// The run API over HTTP. Who may call what is decided before these routes; here it is known who called.

import { type Context, Hono } from 'hono'
import { stream } from 'hono/streaming'
import { z } from 'zod'
import type { RunConfig } from '../../configs/schema.ts'
import { toToml } from '../../configs/write.ts'
import { ULID } from '../store/ids.ts'
import { artifactsOf } from './artifacts.ts'
import type { Caller } from './caller.ts'
import { follow } from './follow.ts'
import { measure, measurementsOf } from './measurements.ts'
import { preview } from './preview.ts'
import { noRun, Refused } from './problem.ts'
import { logOf, metricsOf, rolloutsOf, stepsWithRollouts } from './reading.ts'
import {
  cancelRequest,
  changeRequest,
  cloneRequest,
  measureRequest,
  previewRequest,
  resumeRequest,
  submitRequest,
} from './requests.ts'
import type { Runs } from './runs.ts'
import type { TargetView } from './views.ts'

const MOST_BODY_BYTES = 1024 * 1024
const MOST_LOG_BYTES = 1024 * 1024
const KEY = /^[\x21-\x7e]{1,255}$/
const COUNT = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER)

export interface RunRoutesOptions {
  runs: Runs
  /** Whoever sent the request, as access control has found out. */
  callerOf(c: Context): Caller
}

export function runRoutes({ runs, callerOf }: RunRoutesOptions) {
  const { context } = runs

  /** The id of a run that the caller may see. */
  const own = async (c: Context): Promise<string> => {
    const id = c.req.param('id') as string
    if (!ULID.test(id)) throw noRun(id.slice(0, 64))
    await runs.row(callerOf(c), id)
    return id
  }

  return new Hono()
    .onError((error, c) => {
      if (!(error instanceof Refused)) throw error
      const { message, problems, status } = error
      return c.json({ error: message, ...(problems.length > 0 && { problems }) }, status)
    })
    .get('/targets', async (c) => {
      const targets = await Promise.all(
        [...context.engines.values()].map(
          async (engine): Promise<TargetView> => ({
            target: engine.target,
            card: await engine.card(),
            capabilities: engine.capabilities,
            measurements: await measurementsOf(context, engine.target),
          }),
        ),
      )
      return c.json({ targets })
    })
    .post('/targets/:target/measure', async (c) => {
      const { model } = await body(c, measureRequest)
      return c.json({ measurement: await measure(context, c.req.param('target'), model, c.req.raw.signal) })
    })
    .post('/runs/preview', async (c) => c.json(await preview(context, await body(c, previewRequest))))
    .post('/runs', async (c) => {
      const { run, replayed } = await runs.submit(callerOf(c), await body(c, submitRequest), idempotencyKey(c))
      return answer(c, run, replayed)
    })
    .get('/runs', async (c) => {
      const query = z.object({
        state: z.string().max(200).optional(),
        label: z.string().max(64).optional(),
        text: z.string().max(120).optional(),
        before: z.string().regex(ULID).optional(),
        limit: COUNT.min(1).max(200).default(50),
      })
      const { state, ...filter } = parsed(query, c.req.query())
      const list = await runs.list(callerOf(c), { ...filter, states: state?.split(',') })
      return c.json({ runs: list, next: list.length === filter.limit ? (list.at(-1)?.id ?? null) : null })
    })
    .get('/runs/:id', async (c) => c.json(await runs.get(callerOf(c), await own(c))))
    .patch('/runs/:id', async (c) => c.json(await runs.change(callerOf(c), await own(c), await body(c, changeRequest))))
    .delete('/runs/:id', async (c) => {
      await runs.delete(callerOf(c), await own(c))
      return c.body(null, 204)
    })
    .post('/runs/:id/cancel', async (c) => {
      const { graceful } = await body(c, cancelRequest)
      return c.json(await runs.cancel(callerOf(c), await own(c), graceful), 202)
    })
    .post('/runs/:id/resume', async (c) => {
      const { maxSteps } = await body(c, resumeRequest)
      return c.json(await runs.resume(callerOf(c), await own(c), maxSteps), 202)
    })
    .post('/runs/:id/clone', async (c) => {
      const { run, replayed } = await runs.clone(
        callerOf(c),
        await own(c),
        await body(c, cloneRequest),
        idempotencyKey(c),
      )
      return answer(c, run, replayed)
    })
    .get('/runs/:id/config', async (c) => {
      const row = await runs.row(callerOf(c), await own(c))
      const config = JSON.parse(row.config_json) as RunConfig
      if (c.req.query('format') !== 'toml') return c.json(config)
      return c.text(toToml(config, { all: true }), 200, { 'Content-Type': 'application/toml; charset=utf-8' })
    })
    .get('/runs/:id/events', async (c) => {
      const query = z.object({
        after: COUNT.default(0),
        brief: z.enum(['true', 'false']).default('false'),
        samples: z.enum(['true', 'false']).default('false'),
      })
      const { after, brief, samples } = parsed(query, c.req.query())
      const last = c.req.header('last-event-id')
      const from = last === undefined ? after : parsed(COUNT, last)
      return follow(c, runs, callerOf(c), await own(c), {
        after: from,
        brief: brief === 'true',
        samples: samples === 'true',
      })
    })
    .get('/runs/:id/metrics', async (c) => {
      const query = z.object({
        from: COUNT.default(0),
        to: COUNT.default(Number.MAX_SAFE_INTEGER),
        after: COUNT.default(0),
        limit: COUNT.min(1).max(1000).default(500),
      })
      return c.json(await metricsOf(context, await own(c), parsed(query, c.req.query())))
    })
    .get('/runs/:id/rollouts', async (c) => {
      const split = z.enum(['train', 'eval']).default('train')
      const query = z.object({
        step: COUNT.optional(),
        split,
        offset: COUNT.default(0),
        limit: COUNT.min(1).max(64).default(16),
      })
      const { step, ...page } = parsed(query, c.req.query())
      const id = await own(c)
      if (step === undefined) return c.json({ steps: await stepsWithRollouts(context, id, page.split) })
      return c.json(await rolloutsOf(context, id, { step, ...page }))
    })
    .get('/runs/:id/logs/:stream', async (c) => {
      const query = z.object({
        attempt: COUNT.min(1).optional(),
        offset: COUNT.default(0),
        limit: COUNT.min(1).max(MOST_LOG_BYTES).default(MOST_LOG_BYTES),
      })
      const { attempt, offset, limit } = parsed(query, c.req.query())
      const part = await logOf(context, await own(c), {
        ...{ stream: c.req.param('stream'), attempt: attempt ?? null, offset, most: limit },
      })
      c.header('Content-Type', 'text/plain; charset=utf-8')
      c.header('X-Next-Offset', String(part.nextOffset))
      c.header('X-End', String(part.eof))
      c.header('X-Attempt', String(part.attempt))
      return c.body(part.bytes as Uint8Array<ArrayBuffer>)
    })
    .get('/runs/:id/artifacts', async (c) => c.json({ artifacts: await artifactsOf(context, await own(c)) }))
    .get('/runs/:id/artifacts/:artifact', async (c) => {
      const id = await own(c)
      const row = await context.store.db
        .selectFrom('artifact')
        .selectAll()
        .where('run_id', '=', id)
        .where('id', '=', c.req.param('artifact'))
        .executeTakeFirst()
      if (!row) throw new Refused(404, `Run ${id} has no artifact ${c.req.param('artifact').slice(0, 64)}.`)
      c.header('Content-Type', 'application/octet-stream')
      c.header('Content-Length', String(row.bytes))
      c.header('Content-Disposition', `attachment; filename="${row.name.replace(/[^\w.-]/g, '_')}"`)
      c.header('X-Content-Type-Options', 'nosniff')
      c.header('ETag', `"${row.sha256}"`)
      const bytes = await context.artifacts.read(row.place)
      return stream(c, (out) => out.pipe(bytes))
    })
}

function answer(c: Context, run: Awaited<ReturnType<Runs['submit']>>['run'], replayed: boolean) {
  if (replayed) c.header('Idempotent-Replayed', 'true')
  c.header('Location', `/api/runs/${run.id}`)
  return c.json(run, replayed ? 200 : 201)
}

function idempotencyKey(c: Context): string | null {
  const key = c.req.header('idempotency-key')
  if (key === undefined) return null
  if (KEY.test(key)) return key
  throw new Refused(400, 'An Idempotency-Key is 1 to 255 printable ASCII characters without spaces.')
}

/** An empty body is `{}`. */
async function body<T extends z.ZodType>(c: Context, schema: T): Promise<z.output<T>> {
  const text = await limited(c)
  let value: unknown
  try {
    value = text.trim() === '' ? {} : JSON.parse(text)
  } catch (error) {
    throw new Refused(400, `The body is not JSON: ${(error as Error).message}.`)
  }
  return parsed(schema, value)
}

async function limited(c: Context): Promise<string> {
  const tooMuch = new Refused(413, `The body is larger than ${MOST_BODY_BYTES} bytes.`)
  if (Number(c.req.header('content-length') ?? 0) > MOST_BODY_BYTES) throw tooMuch
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of (c.req.raw.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += part.length
    if (bytes > MOST_BODY_BYTES) throw tooMuch
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

function parsed<T extends z.ZodType>(schema: T, value: unknown): z.output<T> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [{ path, message }] = result.error.issues
  throw new Refused(400, `${path.length > 0 ? `${path.join('.')}: ` : ''}${message}.`)
}
