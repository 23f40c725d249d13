// Bearer keys: made, listed, revoked, and found again by their digest. Rows are read at most once in `FRESH_MS` per key, so
// a revocation that another process wrote into the database is felt within that time; one made here is felt at once.

import { timingSafeEqual } from 'node:crypto'
import type { Kysely } from 'kysely'
import type { AccessKeyRow } from '../store/tables/access.ts'
import type { Database } from '../store/tables/index.ts'
import { digestOf, isCredential, mint } from './credentials.ts'
import { BROWSER, implied, type Scope, SLUG, SLUG_SENTENCE, THIS_MACHINE } from './principal.ts'

export const FRESH_MS = 2_000
const LAST_USED_EVERY_MS = 60_000
const MOST_CACHED = 10_000
const HINT_LENGTH = 8

export interface KeyView {
  name: string
  project: string
  scopes: Scope[]
  /** The first letters of the key. */
  hint: string
  /** ISO 8601, as all times here. */
  createdAt: string
  createdBy: string
  expiresAt: string | null
  revokedAt: string | null
  /** To the minute. */
  lastUsedAt: string | null
}

export interface NewKey {
  name: string
  project: string
  scopes: readonly Scope[]
  /** Milliseconds since the epoch; null for never. */
  expiresAt: number | null
}

/** A request about keys that cannot be done, as a sentence. */
export class KeyProblem extends Error {
  constructor(
    readonly status: 400 | 404 | 409,
    sentence: string,
  ) {
    super(sentence)
  }
}

interface Cached {
  row: AccessKeyRow
  readAt: number
}

export class Keys {
  /** By digest. Only what exists is kept, so that nobody fills it with texts of their own. */
  #cache = new Map<string, Cached>()
  #changed: (name: string) => void

  constructor(
    private readonly db: Kysely<Database>,
    private readonly now: () => number = Date.now,
    changed: (name: string) => void = () => {},
  ) {
    this.#changed = changed
  }

  /** Makes a key. It is told here and never again. */
  async create(wanted: NewKey, by: string): Promise<{ key: string; view: KeyView }> {
    for (const [what, text] of Object.entries({ name: wanted.name, project: wanted.project })) {
      if (!SLUG.test(text)) throw new KeyProblem(400, `The ${what} of a key is ${SLUG_SENTENCE}; it was "${text}".`)
    }
    if ([BROWSER, THIS_MACHINE].includes(wanted.name))
      throw new KeyProblem(400, `${wanted.name} stands for the owner of this machine: give the key another name.`)
    if (wanted.scopes.length === 0) throw new KeyProblem(400, 'A key without a scope opens nothing: give it one.')
    if (wanted.expiresAt !== null && wanted.expiresAt <= this.now())
      throw new KeyProblem(400, 'The key would have expired before it was made: give it a later time.')
    const key = mint('key')
    const row: AccessKeyRow = {
      name: wanted.name,
      project: wanted.project,
      digest: digestOf(key),
      hint: key.slice(0, HINT_LENGTH),
      scopes_json: JSON.stringify(wanted.scopes),
      created_at: this.now(),
      created_by: by,
      expires_at: wanted.expiresAt,
      revoked_at: null,
      last_used_at: null,
    }
    const { numInsertedOrUpdatedRows } = await this.db
      .insertInto('access_key')
      .values(row)
      .onConflict((conflict) => conflict.column('name').doNothing())
      .executeTakeFirst()
    if (!numInsertedOrUpdatedRows)
      throw new KeyProblem(409, `There is or was a key ${wanted.name} already: names are used once, give another.`)
    return { key, view: viewOf(row) }
  }

  async list(): Promise<KeyView[]> {
    const rows = await this.db.selectFrom('access_key').selectAll().orderBy('created_at').orderBy('name').execute()
    return rows.map(viewOf)
  }

  /** Whether any key could let somebody in now. */
  async any(): Promise<boolean> {
    const rows = await this.db.selectFrom('access_key').selectAll().where('revoked_at', 'is', null).execute()
    return rows.some((row) => isGood(row, this.now()))
  }

  /** Revoking again changes nothing. */
  async revoke(name: string): Promise<KeyView> {
    await this.db
      .updateTable('access_key')
      .set({ revoked_at: this.now() })
      .where('name', '=', name)
      .where('revoked_at', 'is', null)
      .execute()
    const row = await this.#read('name', name)
    if (!row) throw new KeyProblem(404, `There is no key ${name}.`)
    this.#cache.delete(row.digest)
    this.#changed(name)
    return viewOf(row)
  }

  /** The row of a key that is good now; null for any other text. */
  async find(key: string): Promise<AccessKeyRow | null> {
    if (!isCredential(key, 'key')) return null
    const digest = digestOf(key)
    const cached = this.#cache.get(digest)
    let row = cached && this.now() - cached.readAt < FRESH_MS ? cached.row : null
    if (!row) {
      row = await this.#read('digest', digest)
      if (row) this.#keep(row)
      else this.#cache.delete(digest)
    }
    if (!row || !timingSafeEqual(Buffer.from(row.digest), Buffer.from(digest)) || !isGood(row, this.now())) return null
    await this.#used(row)
    return row
  }

  /** As `find`, for whoever was let in by the key before. */
  async named(name: string): Promise<AccessKeyRow | null> {
    const row = await this.#read('name', name)
    return row && isGood(row, this.now()) ? row : null
  }

  async #read(column: 'name' | 'digest', value: string): Promise<AccessKeyRow | null> {
    return (await this.db.selectFrom('access_key').selectAll().where(column, '=', value).executeTakeFirst()) ?? null
  }

  #keep(row: AccessKeyRow) {
    this.#cache.delete(row.digest)
    this.#cache.set(row.digest, { row, readAt: this.now() })
    if (this.#cache.size > MOST_CACHED) this.#cache.delete(this.#cache.keys().next().value!)
  }

  async #used(row: AccessKeyRow) {
    const now = this.now()
    if (row.last_used_at !== null && now - row.last_used_at < LAST_USED_EVERY_MS) return
    row.last_used_at = now
    await this.db.updateTable('access_key').set({ last_used_at: now }).where('name', '=', row.name).execute()
  }
}

export function scopesOf(row: Pick<AccessKeyRow, 'scopes_json'>): Scope[] {
  return implied(JSON.parse(row.scopes_json))
}

export function isGood(row: AccessKeyRow, now: number): boolean {
  return row.revoked_at === null && (row.expires_at === null || row.expires_at > now)
}

function viewOf(row: AccessKeyRow): KeyView {
  return {
    name: row.name,
    project: row.project,
    scopes: JSON.parse(row.scopes_json),
    hint: row.hint,
    createdAt: iso(row.created_at)!,
    createdBy: row.created_by,
    expiresAt: iso(row.expires_at),
    revokedAt: iso(row.revoked_at),
    lastUsedAt: iso(row.last_used_at),
  }
}

const iso = (at: number | null) => (at === null ? null : new Date(at).toISOString())
