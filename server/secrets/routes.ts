// Secret sets of a project: /api/secrets. Values come in and never go out.

import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { describeRoute, validator } from 'hono-openapi'
import { z } from 'zod'
import type { Access, AccessEnv } from '../access/access.ts'
import { allows, type Principal } from '../access/principal.ts'
import { wrong } from '../access/wrong.ts'
import { json } from '../description/json.ts'
import { SecretProblem, type Secrets } from './secrets.ts'

const LARGEST_BODY = 256 * 1024

const setView = z.object({
  project: z.string(),
  name: z.string(),
  variables: z.array(z.string()).describe('Names alone.'),
  createdAt: z.string(),
  updatedAt: z.string(),
  updatedBy: z.string(),
})

const newSet = z.strictObject({ variables: z.record(z.string(), z.string()) })
const inProject = z.object({
  project: z.string().optional().describe("An operator may name another project than the key's."),
})

export function secretRoutes(access: Access, secrets: Secrets) {
  const app = new Hono<AccessEnv>()
    .get(
      '/',
      describeRoute({
        summary: 'List the secret sets of a project',
        tags: ['secrets'],
        responses: { 200: json('Names; never a value.', z.object({ sets: z.array(setView) })) },
      }),
      access.require('runs:read'),
      validator('query', inProject, wrong('Secret sets are listed by project.')),
      async (c) => c.json({ sets: await secrets.list(projectOf(c.var.principal, c.req.valid('query').project)) }),
    )
    .put(
      '/:name',
      describeRoute({
        summary: 'Upload a secret set',
        description: 'Takes the place of a set of this name. Runs name it; their processes alone get its values.',
        tags: ['secrets'],
        responses: { 200: json('The set, without its values.', z.object({ set: setView })) },
      }),
      access.require('runs:write'),
      bodyLimit({
        maxSize: LARGEST_BODY,
        onError: (c) => c.json({ error: `A secret set has at most ${LARGEST_BODY} bytes.` }, 413),
      }),
      validator('query', inProject, wrong('A secret set belongs to a project.')),
      validator('json', newSet, wrong('A secret set is { variables: { NAME: value } }.')),
      async (c) => {
        const { key } = c.var.principal
        const project = projectOf(c.var.principal, c.req.valid('query').project)
        return c.json({ set: await secrets.put(project, c.req.param('name'), c.req.valid('json').variables, key) })
      },
    )
    .delete(
      '/:name',
      describeRoute({
        summary: 'Delete a secret set',
        tags: ['secrets'],
        responses: { 204: { description: 'Deleted.' }, 404: { description: 'There is no such set.' } },
      }),
      access.require('runs:write'),
      validator('query', inProject, wrong('A secret set belongs to a project.')),
      async (c) => {
        await secrets.delete(projectOf(c.var.principal, c.req.valid('query').project), c.req.param('name'))
        return c.body(null, 204)
      },
    )
    .post(
      '/rotate',
      describeRoute({
        summary: 'Seal every secret set with a new key',
        tags: ['secrets'],
        responses: {
          200: json(
            'How many sets were sealed anew.',
            z.object({ sets: z.number(), keyId: z.string(), sentence: z.string() }),
          ),
        },
      }),
      access.require('operator'),
      async (c) => c.json(await secrets.rotate()),
    )
  app.onError((error, c) => {
    if (error instanceof SecretProblem) return c.json({ error: error.message }, error.status)
    throw error
  })
  return app
}

function projectOf(principal: Principal, asked: string | undefined): string {
  if (asked === undefined || asked === principal.project) return principal.project
  if (allows(principal, 'operator')) return asked
  throw new SecretProblem(404, `The key ${principal.key} belongs to the project ${principal.project}, not to ${asked}.`)
}
