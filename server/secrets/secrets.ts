// Secret sets: variables of a project under a name, sealed in the database, opened only for the process of a run. Names
// can be listed; a value goes in and never comes out of any answer.

import type { Kysely } from 'kysely'
import { SLUG, SLUG_SENTENCE } from '../access/principal.ts'
import type { SecretSetRow } from '../store/tables/access.ts'
import type { Database } from '../store/tables/index.ts'
import { type KeySource, nameOf, newKey, readKeys, type SealingKey, writeKeys } from './keyring.ts'
import { seal, unseal } from './seal.ts'
import { problemOf } from './variables.ts'

const MOST_SETS = 100

export interface SecretSetView {
  project: string
  name: string
  /** Names of the variables. */
  variables: string[]
  /** ISO 8601. */
  createdAt: string
  updatedAt: string
  updatedBy: string
}

export class SecretProblem extends Error {
  constructor(
    readonly status: 400 | 404 | 409 | 503,
    sentence: string,
  ) {
    super(sentence)
  }
}

export class Secrets {
  /** Writes one after the other: a set must not be sealed with a key that is being taken away. */
  #writes: Promise<unknown> = Promise.resolve()

  constructor(
    private readonly db: Kysely<Database>,
    private readonly source: KeySource,
    private readonly now: () => number = Date.now,
  ) {}

  async list(project: string): Promise<SecretSetView[]> {
    const rows = await this.db
      .selectFrom('secret_set')
      .selectAll()
      .where('project', '=', project)
      .orderBy('name')
      .execute()
    return rows.map(viewOf)
  }

  /** Writes a whole set, in the place of one of this name. The first ever makes the key file. */
  async put(project: string, name: string, variables: Record<string, string>, by: string): Promise<SecretSetView> {
    if (!SLUG.test(name)) throw new SecretProblem(400, `The name of a secret set is ${SLUG_SENTENCE}.`)
    const problem = problemOf(variables)
    if (problem) throw new SecretProblem(400, problem)
    return this.#inTurn(() => this.#put(project, name, variables, by))
  }

  async #put(project: string, name: string, variables: Record<string, string>, by: string): Promise<SecretSetView> {
    const key = await this.#sealingKey()
    const at = this.now()
    const row = await this.db.transaction().execute(async (transaction) => {
      const sets = await transaction.selectFrom('secret_set').selectAll().where('project', '=', project).execute()
      const old = sets.find((set) => set.name === name)
      if (!old && sets.length >= MOST_SETS)
        throw new SecretProblem(409, `The project ${project} has ${MOST_SETS} secret sets, the most: delete one.`)
      const version = (old?.version ?? 0) + 1
      const row: SecretSetRow = {
        project,
        name,
        variables_json: JSON.stringify(Object.keys(variables).sort()),
        key_id: key.id,
        ...seal(JSON.stringify(variables), { project, name, version }, key),
        version,
        created_at: old?.created_at ?? at,
        updated_at: at,
        updated_by: by,
      }
      await transaction
        .insertInto('secret_set')
        .values(row)
        .onConflict((conflict) => conflict.columns(['project', 'name']).doUpdateSet(row))
        .execute()
      return row
    })
    return viewOf(row)
  }

  async delete(project: string, name: string): Promise<void> {
    const { numDeletedRows } = await this.db
      .deleteFrom('secret_set')
      .where('project', '=', project)
      .where('name', '=', name)
      .executeTakeFirst()
    if (numDeletedRows === 0n) throw noSet(project, [name])
  }

  /**
   * The variables of some sets, for the process of a run and nobody else; a later set goes before an earlier one. Throws a
   * sentence for a set that is not there or cannot be opened.
   */
  async variables(project: string, names: readonly string[]): Promise<Record<string, string>> {
    if (names.length === 0) return {}
    const rows = await this.db
      .selectFrom('secret_set')
      .selectAll()
      .where('project', '=', project)
      .where('name', 'in', [...names])
      .execute()
    const missing = names.filter((name) => !rows.some((row) => row.name === name))
    if (missing.length > 0) throw noSet(project, missing)
    const keys = await readKeys(this.source)
    return Object.assign(
      {},
      ...names.map((name) => JSON.parse(this.#open(rows.find((row) => row.name === name)!, keys))),
    )
  }

  /**
   * Seals every set anew. From a file: a new key is made, put before the old ones, and alone remains; a crash at any moment
   * leaves every set openable. From a variable: the first of its keys seals, and the others can then be left out.
   */
  rotate(): Promise<{ sets: number; keyId: string; sentence: string }> {
    return this.#inTurn(() => this.#rotate())
  }

  async #rotate() {
    const { source } = this
    let keys = await readKeys(source)
    if ('file' in source) {
      keys = [newKey(), ...keys]
      await writeKeys(source.file, keys)
    }
    if (keys.length === 0) throw noKey(source)
    const sets = await this.db.transaction().execute(async (transaction) => {
      const rows = await transaction.selectFrom('secret_set').selectAll().execute()
      for (const row of rows) {
        const sealed = seal(this.#open(row, keys), row, keys[0])
        await transaction
          .updateTable('secret_set')
          .set({ ...sealed, key_id: keys[0].id })
          .where('project', '=', row.project)
          .where('name', '=', row.name)
          .execute()
      }
      return rows.length
    })
    if ('file' in source) await writeKeys(source.file, keys.slice(0, 1))
    const sentence =
      'file' in source
        ? `${source.file} holds a new key, and the old one is gone; backups from before open with the old one alone.`
        : `All sets are sealed with the first key of ${nameOf(source)}: the others can be left out.`
    return { sets, keyId: keys[0].id, sentence }
  }

  /** A sentence where sets could not be opened, null where all is well: for a check before the start. */
  async problem(): Promise<string | null> {
    const rows = await this.db.selectFrom('secret_set').selectAll().execute()
    try {
      const keys = await readKeys(this.source)
      for (const row of rows) this.#open(row, keys)
      return null
    } catch (error) {
      return (error as Error).message
    }
  }

  #inTurn<T>(write: () => Promise<T>): Promise<T> {
    const turn = this.#writes.then(write)
    this.#writes = turn.catch(() => {})
    return turn
  }

  #open(row: SecretSetRow, keys: readonly SealingKey[]): string {
    const key = keys.find(({ id }) => id === row.key_id)
    if (!key)
      throw new SecretProblem(
        503,
        `The secret set ${row.name} was sealed with another key than ${nameOf(this.source)} holds: put that key back, or upload the set again.`,
      )
    try {
      return unseal(row, row, key)
    } catch {
      throw new SecretProblem(503, `The secret set ${row.name} was changed in the database: upload it again.`)
    }
  }

  async #sealingKey(): Promise<SealingKey> {
    const [key] = await readKeys(this.source)
    if (key) return key
    if (!('file' in this.source)) throw noKey(this.source)
    const made = newKey()
    await writeKeys(this.source.file, [made])
    return made
  }
}

function noSet(project: string, names: readonly string[]): SecretProblem {
  const sets = names.length === 1 ? `secret set ${names[0]}` : `secret sets ${names.join(' and ')}`
  return new SecretProblem(
    404,
    `The project ${project} has no ${sets}: upload it with \`rollout-lab secrets upload ${names[0]} FILE\`.`,
  )
}

function noKey(source: KeySource): SecretProblem {
  return new SecretProblem(
    503,
    `Secrets are sealed with a key, and ${nameOf(source)} is not set: give it 32 random bytes as base64.`,
  )
}

function viewOf(row: SecretSetRow): SecretSetView {
  return {
    project: row.project,
    name: row.name,
    variables: JSON.parse(row.variables_json),
    createdAt: new Date(row.created_at).toISOString(),
    updatedAt: new Date(row.updated_at).toISOString(),
    updatedBy: row.updated_by,
  }
}
