// What the run API is asked with.

import { z } from 'zod'

/** For so long a submit with the same key is the same run. */
export const REMEMBERED_MS = 24 * 3600 * 1000

const CONFIG = z
  .union([z.string().max(256 * 1024), z.record(z.string(), z.unknown())])
  .describe('A config as TOML or JSON text, or as an object.')
const PRINTABLE = /^\P{Cc}*$/u
const NAME = z.string().trim().min(1).max(120).regex(PRINTABLE)
const LABELS = z.array(z.string().trim().min(1).max(64).regex(PRINTABLE)).max(32)
const SET = z.array(z.string().max(4096)).max(100).describe('Values put over the config: learning_rate=1e-3.')
const TARGET = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)
  .describe('Where the run takes place; the list of targets has the names.')

export const previewRequest = z.strictObject({ config: CONFIG, set: SET.optional(), target: TARGET.default('local') })

export const submitRequest = previewRequest.extend({
  name: NAME.optional(),
  labels: LABELS.default([]),
  secrets: z.array(z.string().min(1).max(64)).max(16).default([]).describe('Names of secret sets of the project.'),
})

export const changeRequest = z.strictObject({ name: NAME.optional(), labels: LABELS.optional() })

export const cancelRequest = z.strictObject({
  graceful: z.boolean().default(true).describe('Let the run save first.'),
})

export const resumeRequest = z.strictObject({
  maxSteps: z.int().min(1).max(1_000_000).optional().describe('The last step from now on, for going further.'),
})

export const cloneRequest = z.strictObject({
  set: SET.optional(),
  name: NAME.optional(),
  labels: LABELS.optional(),
  target: TARGET.optional(),
})

export const measureRequest = z.strictObject({ model: z.string().min(1).max(200) })

export type SubmitRequest = z.output<typeof submitRequest>
export type PreviewRequest = z.output<typeof previewRequest>
export type CloneRequest = z.output<typeof cloneRequest>
