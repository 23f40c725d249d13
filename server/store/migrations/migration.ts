// What a migration is: a name that no other one has, and statements that run once, in one transaction.

import type { Kysely } from 'kysely'

export interface Migration {
  /** Stays as it is for ever once it has been released. */
  name: string
  // The tables of the moment at which it was written, which are not those of today.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  up(db: Kysely<any>): Promise<void>
}
