// Postgres by its URL. The same queries as on SQLite; whole numbers come back as numbers, not as texts.

import { PostgresDialect } from 'kysely'
import pg from 'pg'

const LOCK = 7_304_926_118
const INT8 = 20
const NUMERIC = 1700

export async function openPostgres(url: string): Promise<{ dialect: PostgresDialect; release(): Promise<void> }> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 })
  // The pool tells of a lost connection as well, at the next query.
  client.on('error', () => {})
  try {
    await client.connect()
  } catch (error) {
    throw new Error(
      `Opened the database ${withoutPassword(url)}: ${(error as Error).message}. Is it there, and may we in?`,
    )
  }
  const { rows } = await client.query('select pg_try_advisory_lock($1) as held', [LOCK])
  if (!rows[0].held) {
    await client.end()
    throw new Error(
      `The database ${withoutPassword(url)} is in use by another Rollout Lab server. Stop that one, or give another database.`,
    )
  }
  return { dialect: new PostgresDialect({ pool: poolOf(url) }), release: () => client.end() }
}

/** Without the lock, for reading beside a server. */
export async function readPostgres(url: string): Promise<PostgresDialect> {
  return new PostgresDialect({ pool: poolOf(url) })
}

function poolOf(url: string): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max: 10,
    connectionTimeoutMillis: 10_000,
    types: {
      getTypeParser: ((oid: number, format: 'text' | 'binary') =>
        oid === INT8 || oid === NUMERIC
          ? Number
          : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
    },
  })
  pool.on('error', () => {})
  return pool
}

function withoutPassword(url: string): string {
  try {
    const parsed = new URL(url)
    if (parsed.password) parsed.password = '…'
    return decodeURI(parsed.href)
  } catch {
    return 'given by its URL'
  }
}
