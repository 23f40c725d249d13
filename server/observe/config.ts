// [log] of server.toml.

import { z } from 'zod'

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const

export const logSchema = z.strictObject({
  /** From `info` on each request has a line. */
  level: z.enum(LEVELS).default('info'),
  /** A file to append to; standard error when left out. */
  file: z.string().min(1).optional(),
})

export type Level = (typeof LEVELS)[number]
