// Who wrote what, when, from where. One row per write that somebody was let in to make, whatever came of it.

import type { Kysely } from 'kysely'
import { newId } from '../store/ids.ts'
import type { AuditRow } from '../store/tables/access.ts'
import type { Database } from '../store/tables/index.ts'

const LONGEST_PATH = 500
const DAY_MS = 86_400_000

export interface AuditView {
  id: string
  /** ISO 8601. */
  at: string
  key: string
  project: string
  /** `POST /api/runs/:id/cancel`. */
  action: string
  path: string
  status: number
  requestId: string
  address: string
}

export class Audit {
  constructor(
    private readonly db: Kysely<Database>,
    private readonly now: () => number = Date.now,
  ) {}

  async write(entry: Omit<AuditRow, 'id' | 'at'>): Promise<void> {
    const row = { id: newId(), at: this.now(), ...entry, path: entry.path.slice(0, LONGEST_PATH) }
    await this.db.insertInto('audit').values(row).execute()
  }

  /** Newest first; `before` is the id of the last one seen. */
  async read({ before, key, limit }: { before?: string; key?: string; limit: number }): Promise<AuditView[]> {
    let query = this.db.selectFrom('audit').selectAll().orderBy('id', 'desc').limit(limit)
    if (before !== undefined) query = query.where('id', '<', before)
    if (key !== undefined) query = query.where('key_name', '=', key)
    return (await query.execute()).map((row) => ({
      id: row.id,
      at: new Date(row.at).toISOString(),
      key: row.key_name,
      project: row.project,
      action: row.action,
      path: row.path,
      status: row.status,
      requestId: row.request_id,
      address: row.address,
    }))
  }

  async forget(olderThanDays: number): Promise<void> {
    await this.db
      .deleteFrom('audit')
      .where('at', '<', this.now() - olderThanDays * DAY_MS)
      .execute()
  }
}
