// /api/openapi.json, and /api/docs to read it.

import { Hono } from 'hono'
import { describe } from './openapi.ts'
import { page } from './page.ts'

export function descriptionRoutes(app: Hono) {
  let document: ReturnType<typeof describe> | null = null
  // All routes are there by the time of the first request.
  const read = () => {
    document ??= describe(app)
    return document
  }
  return new Hono()
    .get('/openapi.json', async (c) => c.json(await read()))
    .get('/docs', async (c) => c.html(page(await read())))
}
