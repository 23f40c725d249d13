// Brings a database to the tables of this program: each migration once, in order, in a transaction of its own.

import type { Kysely } from 'kysely'
import type { Migration } from './migrations/migration.ts'
import type { Database } from './tables/index.ts'

/**
 * Runs the migrations that the database has not seen and returns their names. Throws a sentence, having changed nothing,
 * where the database was made by a newer program.
 */
export async function migrate(db: Kysely<Database>, migrations: readonly Migration[]): Promise<string[]> {
  await db.schema
    .createTable('migration')
    .ifNotExists()
    .addColumn('name', 'text', (column) => column.primaryKey())
    .addColumn('applied_at', 'bigint', (column) => column.notNull())
    .execute()
  const rows = await db.selectFrom('migration').select('name').execute()
  const applied = new Set(rows.map(({ name }) => name))
  const unknown = [...applied].filter((name) => !migrations.some((migration) => migration.name === name)).sort()
  if (unknown.length > 0) {
    throw new Error(
      `Opened a database that a newer Rollout Lab has written: it holds ${unknown.join(', ')}, which this program does ` +
        'not know. Update the program, or restore a backup from before the update.',
    )
  }
  const done: string[] = []
  for (const { name, up } of migrations) {
    if (applied.has(name)) continue
    await db.transaction().execute(async (transaction) => {
      await up(transaction)
      await transaction.insertInto('migration').values({ name, applied_at: Date.now() }).execute()
    })
    done.push(name)
  }
  return done
}
