// A SQLite connection that prepares a statement once and uses it again: preparing is half of what a small query costs.

import type Sqlite from 'libsql'

const MOST = 300

/** For Kysely, which asks for a statement at every query. Statements that change tables forget what was prepared. */
export function reusing(database: Sqlite.Database) {
  const prepared = new Map<string, Sqlite.Statement>()
  return {
    prepare(sql: string): Sqlite.Statement {
      if (/^\s*(create|alter|drop)\b/i.test(sql)) {
        prepared.clear()
        return database.prepare(sql)
      }
      const known = prepared.get(sql)
      if (known) return known
      const statement = database.prepare(sql)
      // Queries differ by how many values they list; the oldest make room.
      if (prepared.size >= MOST) prepared.delete(prepared.keys().next().value as string)
      prepared.set(sql, statement)
      return statement
    },
    close() {
      prepared.clear()
      database.close()
    },
  }
}
