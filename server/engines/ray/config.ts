// [ray] of server.toml.

import { z } from 'zod'
import { primeRlShape } from '../primeRl/config.ts'

export const raySchema = z.strictObject({
  ...primeRlShape,
  /** Of Ray's dashboard. */
  url: z.url({ protocol: /^https?$/ }),
  /** Holds the token, where Ray asks for one. */
  token_file: z.string().min(1).optional(),
  /** Whoever reaches a Ray without a token runs code on it. */
  allow_without_token: z.boolean().default(false),
  /** Processors that Ray sets aside for a job. */
  cpus: z.number().int().positive().default(1),
})

export type RayTable = z.output<typeof raySchema>
