// [slurm] of server.toml.

import { z } from 'zod'
import { primeRlShape, word } from '../primeRl/config.ts'

export const slurmSchema = z.strictObject({
  ...primeRlShape,
  /** Of slurmrestd. */
  url: z.url({ protocol: /^https?$/ }),
  /** The service account that jobs belong to; never root. */
  user: word,
  /** A copy of the cluster's jwt_hs256.key that this server alone may read. */
  key_file: z.string().min(1),
  /** Where a config names none. */
  partition: word.optional(),
  account: word.optional(),
  /** Minutes, where a config says none. */
  time_limit: z.number().int().positive().optional(),
  /** Whole nodes: two runs of prime-rl on one node would meet at its ports. */
  exclusive: z.boolean().default(true),
  /** Who starts a run again whose node has died: this server, as a new attempt, or Slurm itself. */
  restart: z.enum(['never', 'engine', 'server']).default('server'),
})

export type SlurmTable = z.output<typeof slurmSchema>
