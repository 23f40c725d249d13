// Opens the server's store: a folder for files, and a database that is one file in it or a Postgres elsewhere. Knows
// nothing of what the tables mean.

import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { Kysely } from 'kysely'
import { migrate } from './migrate.ts'
import { MIGRATIONS } from './migrations/index.ts'
import type { Migration } from './migrations/migration.ts'
import { openPostgres } from './postgres.ts'
import { openSqlite } from './sqlite.ts'
import type { Database } from './tables/index.ts'

export const DATABASE_FILE = 'rollout-lab.db'

export interface StoreOptions {
  /** Event files, samples, artifacts, and the database unless `url` says otherwise. Made if missing, for this user alone. */
  folder: string
  /** `postgres://…`; SQLite in the folder when left out. */
  url?: string | null
  migrations?: readonly Migration[]
}

export interface Store {
  readonly folder: string
  readonly dialect: 'sqlite' | 'postgres'
  readonly db: Kysely<Database>
  /** Frees the lock last. */
  close(): Promise<void>
}

/** Throws a sentence where another server holds the store, or a newer one has written it. */
export async function openStore({ folder: given, url, migrations = MIGRATIONS }: StoreOptions): Promise<Store> {
  const folder = resolve(given)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (url && !/^postgres(ql)?:\/\//.test(url)) {
    throw new Error(`The database is given as "${url.split(':')[0]}:…": expected postgres://user:password@host/name.`)
  }
  const opened = url ? await openPostgres(url) : openSqlite(join(folder, DATABASE_FILE))
  const db = new Kysely<Database>({ dialect: opened.dialect })
  const close = async () => {
    await db.destroy()
    await opened.release()
  }
  try {
    await migrate(db, migrations)
  } catch (error) {
    await close()
    throw error
  }
  return { folder, dialect: url ? 'postgres' : 'sqlite', db, close }
}
