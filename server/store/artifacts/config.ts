// [artifacts] of server.toml: files of runs in a bucket instead of on the server's own disk.

import { z } from 'zod'
import type { ArtifactStore } from './artifacts.ts'
import { S3Artifacts } from './s3.ts'

const variable = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected the name of an environment variable')

export const artifactsSchema = z.strictObject({
  /** The bucket: `https://host/bucket`. */
  s3: z.url({ protocol: /^https?$/ }),
  region: z.string().min(1).default('auto'),
  /** Before every name: `lab/`. */
  prefix: z
    .string()
    .regex(/^([A-Za-z0-9_-][A-Za-z0-9._-]*\/)*$/, 'expected folders with a slash at the end, such as lab/')
    .default(''),
  access_key_env: variable.default('AWS_ACCESS_KEY_ID'),
  secret_key_env: variable.default('AWS_SECRET_ACCESS_KEY'),
})

export type ArtifactsTable = z.output<typeof artifactsSchema>

/** undefined for the server's own disk. Throws a sentence for a variable that is not set. */
export function artifactsOf(table: ArtifactsTable | undefined): ArtifactStore | undefined {
  if (!table) return undefined
  const value = (name: string) => {
    const set = process.env[name]
    if (set) return set
    throw new Error(`[artifacts] takes a key from the variable ${name}, which is not set.`)
  }
  const { s3: endpoint, region, prefix, access_key_env, secret_key_env } = table
  const keys = { accessKeyId: value(access_key_env), secretAccessKey: value(secret_key_env) }
  return new S3Artifacts({ endpoint, region, prefix, ...keys })
}
