// Pages that are signed in, by a cookie that no script can read. Rows, so that a page stays signed in when the server
// starts again. A session that was opened with a key is worth what the key is worth, and ends with it.

import type { Kysely } from 'kysely'
import type { AccessSessionRow } from '../store/tables/access.ts'
import type { Database } from '../store/tables/index.ts'
import { digestOf, isCredential, mint } from './credentials.ts'

const LAST_USED_EVERY_MS = 60_000

export class Sessions {
  constructor(
    private readonly db: Kysely<Database>,
    private readonly hours: () => number,
    private readonly now: () => number = Date.now,
  ) {}

  async open(keyName: string | null): Promise<{ cookie: string; row: AccessSessionRow }> {
    const cookie = mint('session')
    const now = this.now()
    const row = {
      digest: digestOf(cookie),
      key_name: keyName,
      created_at: now,
      expires_at: now + this.hours() * 3_600_000,
      last_used_at: now,
    }
    await this.db.deleteFrom('access_session').where('expires_at', '<', now).execute()
    await this.db.insertInto('access_session').values(row).execute()
    return { cookie, row }
  }

  /** The session of a cookie, prolonged by its use; null when it has ended or never was. */
  async find(cookie: string): Promise<AccessSessionRow | null> {
    return isCredential(cookie, 'session') ? this.#withDigest(digestOf(cookie)) : null
  }

  /** Looks without prolonging. */
  async peek(digest: string): Promise<AccessSessionRow | null> {
    const row = await this.db
      .selectFrom('access_session')
      .selectAll()
      .where('digest', '=', digest)
      .where('expires_at', '>', this.now())
      .executeTakeFirst()
    return row ?? null
  }

  async #withDigest(digest: string): Promise<AccessSessionRow | null> {
    const row = await this.peek(digest)
    if (!row) return null
    const now = this.now()
    if (now - row.last_used_at < LAST_USED_EVERY_MS) return row
    const used = { last_used_at: now, expires_at: now + this.hours() * 3_600_000 }
    await this.db.updateTable('access_session').set(used).where('digest', '=', digest).execute()
    return { ...row, ...used }
  }

  async end(digest: string): Promise<void> {
    await this.db.deleteFrom('access_session').where('digest', '=', digest).execute()
  }
}
