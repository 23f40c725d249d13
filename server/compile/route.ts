// POST /api/compile: a config as text, and the trainer it is to be written for. Answers what compile() says; a config that
// cannot go along is an answer too. Starts nothing and stores nothing.

import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { validator } from 'hono/validator'
import { z } from 'zod'
import { compile, TARGETS } from './compile.ts'
import type { TargetId } from './target.ts'

const LARGEST_BODY = 1024 * 1024

export const compileRequest = z.strictObject({
  text: z.string(),
  target: z.enum(Object.keys(TARGETS) as [TargetId, ...TargetId[]]),
})

export const compileRoute = new Hono()
  .use(
    bodyLimit({ maxSize: LARGEST_BODY, onError: (c) => c.json({ error: 'A config is at most 1 MiB of text.' }, 413) }),
  )
  .post(
    '/',
    validator('json', (body, c) => {
      const parsed = compileRequest.safeParse(body)
      if (parsed.success) return parsed.data
      const error = `A request to compile is { text, target }, target one of ${Object.keys(TARGETS).join(', ')}: ${parsed.error.issues[0].message}.`
      return c.json({ error }, 400)
    }),
    (c) => {
      const { text, target } = c.req.valid('json')
      return c.json(compile(text, target))
    },
  )
