// Every table of the database by its rows. A room that keeps rows adds a file here, a line below, and a migration.

import type { AccessTables } from './access.ts'
import type { ProxyTables } from './proxy.ts'
import type { RunTables } from './runs.ts'

/** What migrations themselves have done. */
export interface MigrationTable {
  name: string
  applied_at: number
}

export interface Database extends RunTables, AccessTables, ProxyTables {
  migration: MigrationTable
}
