// SQLite in one file, by libSQL's synchronous driver: prebuilt for Linux (glibc and musl), macOS and Windows, so that
// installing it compiles nothing. One process at a time, held to that by a lock that the system frees when it dies.

import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { SqliteDialect } from 'kysely'
import Sqlite from 'libsql'
import { reusing } from './statements.ts'

/** A database file, with WAL: readers never wait for the writer, and a killed process leaves it whole. */
export function openSqlite(file: string): { dialect: SqliteDialect; release(): void } {
  const release = takeLock(dirname(file))
  try {
    const database = new Sqlite(file)
    database.pragma('journal_mode = WAL')
    // Whole after the death of the process at any moment; a power cut may take the last transactions with it.
    database.pragma('synchronous = NORMAL')
    database.pragma('busy_timeout = 5000')
    database.pragma('foreign_keys = ON')
    return { dialect: new SqliteDialect({ database: reusing(database) }), release }
  } catch (error) {
    release()
    throw error
  }
}

// An exclusive transaction on a file of its own: the system ends it with the process, whatever kills that, and the
// database itself stays readable to other programs.
function takeLock(folder: string): () => void {
  const holder = join(folder, 'server.pid')
  const lock = new Sqlite(join(folder, 'server.lock'))
  try {
    lock.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    lock.close()
    if (!/busy|locked/i.test((error as Error).message)) throw error
    const pid = readHolder(holder)
    throw new Error(
      `The data folder ${folder} is in use by another Rollout Lab server${pid ? `, process ${pid}` : ''}: SQLite means one ` +
        'server process. Stop that one, give another folder, or use Postgres.',
    )
  }
  writeFileSync(holder, String(process.pid))
  return () => {
    lock.exec('ROLLBACK')
    lock.close()
  }
}

function readHolder(file: string): string | null {
  try {
    return readFileSync(file, 'utf8').trim() || null
  } catch {
    return null
  }
}
