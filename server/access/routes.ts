// Signing in and out of a page, keys, and the audit log: /api/session, /api/keys, /api/audit.

import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { describeRoute, validator } from 'hono-openapi'
import { z } from 'zod'
import { json } from '../description/json.ts'
import { type Access, type AccessEnv, asJson } from './access.ts'
import { KeyProblem } from './keys.ts'
import { DEFAULT_PROJECT, Denied, type Principal, SCOPES } from './principal.ts'
import { wrong } from './wrong.ts'

const LARGEST_BODY = 16 * 1024
const DAY_MS = 86_400_000

const scope = z.enum(SCOPES)

const sessionView = z.union([
  z.object({ signedIn: z.literal(false), reach: z.enum(['loopback', 'network']), sentence: z.string() }),
  z.object({
    signedIn: z.literal(true),
    reach: z.enum(['loopback', 'network']),
    key: z.string(),
    project: z.string(),
    scopes: z.array(scope),
  }),
])

export type SessionView = z.output<typeof sessionView>

const keyView = z.object({
  name: z.string(),
  project: z.string(),
  scopes: z.array(scope),
  hint: z.string(),
  createdAt: z.string(),
  createdBy: z.string(),
  expiresAt: z.string().nullable(),
  revokedAt: z.string().nullable(),
  lastUsedAt: z.string().nullable(),
})

const auditView = z.object({
  id: z.string(),
  at: z.string(),
  key: z.string(),
  project: z.string(),
  action: z.string(),
  path: z.string(),
  status: z.number(),
  requestId: z.string(),
  address: z.string(),
})

const signIn = z.union([z.strictObject({ token: z.string() }), z.strictObject({ key: z.string() })])

const newKey = z.strictObject({
  name: z.string(),
  project: z.string().default(DEFAULT_PROJECT),
  scopes: z.array(scope).min(1),
  days: z.number().positive().max(36_500).nullable().default(90).describe('Until it expires; null for never.'),
})

const auditQuery = z.object({
  before: z.string().optional(),
  key: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(1000).default(100),
})

const small = bodyLimit({
  maxSize: LARGEST_BODY,
  onError: (c) => c.json({ error: `A request here has at most ${LARGEST_BODY} bytes.` }, 413),
})

export function accessRoutes(access: Access) {
  const operator = access.require('operator')
  const viewOf = ({ key, project, scopes }: Principal): SessionView => ({
    signedIn: true,
    reach: access.reach,
    key,
    project,
    scopes: [...scopes],
  })

  const app = new Hono<AccessEnv>()
    .get(
      '/session',
      describeRoute({
        summary: 'Who is signed in',
        description: 'Answers everybody: a page asks it to see whether it may ask for anything else.',
        tags: ['access'],
        responses: { 200: json('Who asks, or how to sign in.', sessionView) },
      }),
      async (c) => {
        c.header('Cache-Control', 'no-store')
        try {
          return c.json(viewOf(await access.identify(c)))
        } catch (error) {
          if (!(error instanceof Denied)) throw error
          return c.json({ signedIn: false, reach: access.reach, sentence: error.message } satisfies SessionView)
        }
      },
    )
    .post(
      '/session',
      describeRoute({
        summary: 'Sign a page in',
        description: 'By the one-time token of a link, or by a key. Sets a cookie that no script can read.',
        tags: ['access'],
        responses: {
          200: json('Signed in.', sessionView),
          401: { description: 'The token was used or is too old, or the key opens nothing.' },
        },
      }),
      small,
      validator('json', signIn, wrong('Signing in takes { token } or { key }.')),
      async (c) => c.json(viewOf(await access.signIn(c, c.req.valid('json')))),
    )
    .delete(
      '/session',
      describeRoute({
        summary: 'Sign the page out',
        tags: ['access'],
        responses: { 204: { description: 'Signed out.' } },
      }),
      async (c) => {
        await access.signOut(c)
        return c.body(null, 204)
      },
    )
    .post(
      '/session/links',
      describeRoute({
        summary: 'Make a one-time link',
        description: 'Who opens the page with `?token=` and this token is signed in as the owner of this machine.',
        tags: ['access'],
        responses: {
          201: json(
            'The token, told once, and the link that it makes.',
            z.object({ token: z.string(), url: z.string(), expiresAt: z.string() }),
          ),
        },
      }),
      operator,
      (c) => {
        const { token, expiresAt } = access.makeLink()
        c.header('Cache-Control', 'no-store')
        const url = `${access.publicUrl ?? new URL(c.req.url).origin}/?token=${token}`
        return c.json({ token, url, expiresAt: new Date(expiresAt).toISOString() }, 201)
      },
    )
    .get(
      '/keys',
      describeRoute({
        summary: 'List keys, also those that have ended',
        tags: ['access'],
        responses: { 200: json('All keys, oldest first; never a key itself.', z.object({ keys: z.array(keyView) })) },
      }),
      operator,
      async (c) => c.json({ keys: await access.keys.list() }),
    )
    .post(
      '/keys',
      describeRoute({
        summary: 'Make a key',
        tags: ['access'],
        responses: {
          201: json('The key, told once.', z.object({ key: z.string(), view: keyView })),
          409: { description: 'The name was given before.' },
        },
      }),
      operator,
      small,
      validator('json', newKey, wrong('A key is made from { name, scopes } and, if wanted, project and days.')),
      async (c) => {
        const { days, ...wanted } = c.req.valid('json')
        const expiresAt = days === null ? null : Date.now() + Math.round(days * DAY_MS)
        c.header('Cache-Control', 'no-store')
        return c.json(await access.keys.create({ ...wanted, expiresAt }, c.var.principal.key), 201)
      },
    )
    .delete(
      '/keys/:name',
      describeRoute({
        summary: 'Revoke a key',
        description: 'Answers that are open with it end within five seconds.',
        tags: ['access'],
        responses: {
          200: json('The key as it ended.', z.object({ view: keyView })),
          404: { description: 'There is no such key.' },
        },
      }),
      operator,
      async (c) => c.json({ view: await access.keys.revoke(c.req.param('name')) }),
    )
    .get(
      '/audit',
      describeRoute({
        summary: 'Read the audit log',
        description: 'Newest first. `before` is the id of the last entry seen.',
        tags: ['access'],
        responses: { 200: json('Who wrote what.', z.object({ entries: z.array(auditView) })) },
      }),
      operator,
      validator('query', auditQuery, wrong('The audit log takes before, key and limit (1 to 1000).')),
      async (c) => c.json({ entries: await access.audit.read(c.req.valid('query')) }),
    )

  app.onError((error, c) => {
    if (error instanceof Denied) return asJson(c, error)
    if (error instanceof KeyProblem) return c.json({ error: error.message }, error.status)
    throw error
  })
  return app
}
