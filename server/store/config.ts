// [store] of server.toml: where the server keeps what it keeps.

import { z } from 'zod'

export const storeSchema = z
  .strictObject({
    /** Runs, files, the database unless it is elsewhere; `data` beside the file when left out. */
    folder: z.string().min(1).optional(),
    /** `postgres://user@host/name`; SQLite in the folder when left out. */
    url: z
      .string()
      .regex(/^postgres(ql)?:\/\//, 'expected postgres://user:password@host/name')
      .optional(),
    /** An environment variable that holds such a URL, so that no password stands in a file. */
    url_env: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected the name of an environment variable')
      .optional(),
  })
  .refine(({ url, url_env }) => !(url && url_env), 'it has both url and url_env; give one of them')

export type StoreTable = z.output<typeof storeSchema>

/** The URL of the database, null for SQLite. Throws a sentence for a variable that is not set. */
export function databaseOf({ url, url_env }: StoreTable): string | null {
  if (url_env === undefined) return url ?? null
  const value = process.env[url_env]
  if (value) return value
  throw new Error(`[store] url_env names the variable ${url_env}, which is not set: set it to postgres://….`)
}
