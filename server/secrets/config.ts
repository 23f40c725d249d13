// [secrets] of server.toml: where the key lies that seals secret sets.

import { z } from 'zod'

export const secretsSchema = z
  .strictObject({
    /** A file with the key, this user's alone; made at the first upload. `secrets.key` in the data folder when left out. */
    key_file: z.string().min(1).optional(),
    /** An environment variable that holds the key instead. */
    key_env: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected the name of an environment variable')
      .optional(),
  })
  .refine(
    ({ key_file, key_env }) => !(key_file && key_env),
    'it has both key_file and key_env; one key seals all, give one of them',
  )
