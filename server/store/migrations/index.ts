// All migrations, in the order in which they run. A room that keeps rows adds a file here and a line at the end. Portable
// statements only: text, bigint and double precision; ULIDs, epoch milliseconds, JSON as text.

import { runs } from './001-runs.ts'
import { access } from './002-access.ts'
import { proxy } from './003-proxy.ts'
import type { Migration } from './migration.ts'

export const MIGRATIONS: readonly Migration[] = [runs, access, proxy]
