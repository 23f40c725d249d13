// [runs] and [local] of server.toml: how long runs are kept, and what this machine gives to them.

import { z } from 'zod'

const bytes = z.number().int().positive()

export const runsSchema = z.strictObject({
  /** Ended runs older than this are deleted; kept for ever when left out. */
  keep_days: z.number().positive().optional(),
  /** Of all runs; the oldest ended ones are deleted above it. */
  keep_bytes: bytes.optional(),
  /** Of one project; submits are refused above it. */
  project_bytes: bytes.optional(),
  /** Submits are refused when the disk has less room than this. */
  free_bytes: z
    .number()
    .int()
    .min(0)
    .default(512 * 1024 * 1024),
})

export const localSchema = z.strictObject({
  /** Runs on this machine at the same time; 0 for none. */
  max_runs: z.number().int().min(0).max(64).default(1),
  /** Longest time of a run. */
  max_seconds: z.number().positive().optional(),
  /** Most memory of a run's process. */
  memory_bytes: bytes.optional(),
  /** How long a run may take to save when it is asked to end, before it is killed. */
  grace_seconds: z.number().positive().default(30),
  /** Folders of models beyond the bundled ones that a config may name. */
  models: z.array(z.string().min(1)).default([]),
})

export type RunsTable = z.output<typeof runsSchema>
export type LocalTable = z.output<typeof localSchema>
