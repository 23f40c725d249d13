import { resolver } from 'hono-openapi'
import type { z } from 'zod'

/** An answer in JSON, for `describeRoute`. */
export const json = (description: string, schema: z.ZodType) => ({
  description,
  content: { 'application/json': { schema: resolver(schema) } },
})
