// A copy of all that a store holds: its rows as JSON lines, the same from either database, and its files. Made while a
// server writes: rows first, as they are at one moment, then the files, which only grow. Restored into an empty store of
// either kind.
//
//   backup.json          when, of which database, with which migrations
//   tables/<name>.jsonl  a row a line
//   files/…              event files, samples, artifacts on disk, the run folders of this machine
//
// Secrets are in it as they are stored, sealed; the key that opens them is not.

import { once } from 'node:events'
import { createReadStream, createWriteStream, existsSync } from 'node:fs'
import { cp, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import { createInterface } from 'node:readline'
import { Kysely, SqliteDialect, type Transaction } from 'kysely'
import Sqlite from 'libsql'
import { MIGRATIONS } from './migrations/index.ts'
import { DATABASE_FILE, openStore } from './open.ts'
import { readPostgres } from './postgres.ts'
import type { Database } from './tables/index.ts'

export interface BackupFile {
  format: 1
  createdAt: number
  database: 'sqlite' | 'postgres'
  migrations: string[]
  rows: Record<string, number>
}

const FOLDERS = ['runs', 'artifacts', 'local/runs', 'local/jobs']
const BATCH = 200
const SECRET_FILE = /^(secrets\.(env|key)|server\.(json|lock|pid)|writer\.lock|alive)$/

/** Copies a store into a new folder. Throws a sentence where there is none, or where `target` is there already. */
export async function backUp(source: { folder: string; url?: string | null }, target: string): Promise<BackupFile> {
  const folder = resolve(source.folder)
  if (existsSync(target)) throw new Error(`${target} is there already: name a folder that is not.`)
  if (!source.url && !existsSync(join(folder, DATABASE_FILE)))
    throw new Error(`${folder} holds no ${DATABASE_FILE}: name the data folder of a server.`)
  // Made aside, so that a folder of that name is a whole backup.
  const partial = `${resolve(target)}.partial`
  await rm(partial, { recursive: true, force: true })
  await mkdir(join(partial, 'tables'), { recursive: true, mode: 0o700 })
  const db = await openReader(folder, source.url ?? null)
  try {
    const about = await db
      .transaction()
      .setIsolationLevel('repeatable read')
      .execute((snapshot) => copyRows(snapshot, partial))
    const backup: BackupFile = {
      format: 1,
      createdAt: Date.now(),
      database: source.url ? 'postgres' : 'sqlite',
      ...about,
    }
    for (const name of FOLDERS) await copyFiles(folder, name, partial)
    await writeFile(join(partial, 'backup.json'), `${JSON.stringify(backup, null, 2)}\n`)
    await rename(partial, target)
    return backup
  } finally {
    await db.destroy()
  }
}

/** Makes a store from a backup: a data folder that is empty or not there, and a database without rows. */
export async function restore(backup: string, target: { folder: string; url?: string | null }): Promise<BackupFile> {
  const text = await readFile(join(backup, 'backup.json'), 'utf8').catch(() => null)
  if (text === null) throw new Error(`${backup} is no backup: it holds no backup.json.`)
  const about = JSON.parse(text) as BackupFile
  const unknown = about.migrations.filter((name) => !MIGRATIONS.some((migration) => migration.name === name))
  if (about.format !== 1 || unknown.length > 0)
    throw new Error(
      `${backup} was made by a newer Rollout Lab${unknown.length ? ` (${unknown.join(', ')})` : ''}: update the program.`,
    )
  const there = await readdir(target.folder).catch(() => [])
  if (there.length > 0) throw new Error(`${target.folder} is not empty: restore into a folder that is.`)
  // The tables as they were then; opening the store as usual brings them up to today.
  const migrations = MIGRATIONS.filter(({ name }) => about.migrations.includes(name))
  const store = await openStore({ ...target, migrations })
  try {
    const tables = Object.keys(about.rows)
    await store.db.transaction().execute(async (db) => {
      for (const table of tables)
        await fillTable(db, table as keyof Database, join(backup, 'tables', `${table}.jsonl`), target)
    })
    const files = join(backup, 'files')
    if (existsSync(files)) await cp(files, store.folder, { recursive: true, force: false, errorOnExist: false })
  } finally {
    await store.close()
  }
  await (await openStore(target)).close()
  return about
}

async function openReader(folder: string, url: string | null): Promise<Kysely<Database>> {
  if (url) return new Kysely<Database>({ dialect: await readPostgres(url) })
  const database = new Sqlite(join(folder, DATABASE_FILE), { readonly: true } as Sqlite.Options)
  const dialect = new SqliteDialect({ database })
  return new Kysely<Database>({ dialect: withoutIsolationLevels(dialect) })
}

// SQLite has one isolation level, that of a snapshot, and no word for it.
function withoutIsolationLevels(dialect: SqliteDialect): SqliteDialect {
  const createDriver = dialect.createDriver.bind(dialect)
  dialect.createDriver = () => {
    const driver = createDriver()
    const begin = driver.beginTransaction.bind(driver)
    driver.beginTransaction = (connection) => begin(connection, {})
    return driver
  }
  return dialect
}

async function copyRows(db: Transaction<Database>, folder: string): Promise<Pick<BackupFile, 'rows' | 'migrations'>> {
  const migrations = (await db.selectFrom('migration').select('name').orderBy('name').execute()).map(({ name }) => name)
  const rows: Record<string, number> = {}
  for (const table of await tablesOf(db)) {
    const file = createWriteStream(join(folder, 'tables', `${table}.jsonl`), { mode: 0o600 })
    const all = await db.selectFrom(table).selectAll().execute()
    for (const row of all) if (!file.write(`${JSON.stringify(row)}\n`)) await once(file, 'drain')
    file.end()
    await once(file, 'close')
    rows[table] = all.length
  }
  return { migrations, rows }
}

async function tablesOf(db: Kysely<Database>): Promise<(keyof Database)[]> {
  const tables = await db.introspection.getTables()
  return tables.map(({ name }) => name as keyof Database).filter((name) => name !== 'migration')
}

async function fillTable(
  db: Transaction<Database>,
  table: keyof Database,
  file: string,
  target: { url?: string | null },
) {
  const there = await db.selectFrom(table).selectAll().limit(1).execute()
  if (there.length > 0)
    throw new Error(
      `The database ${target.url ? 'of that URL ' : ''}holds rows already (${table}): restore into an empty one.`,
    )
  let batch: never[] = []
  const flush = async () => {
    if (batch.length > 0) await db.insertInto(table).values(batch).execute()
    batch = []
  }
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY })) {
    if (line !== '') batch.push(JSON.parse(line) as never)
    if (batch.length >= BATCH) await flush()
  }
  await flush()
}

/** Files that come and go while they are copied are none that a row speaks of. */
async function copyFiles(from: string, name: string, to: string): Promise<void> {
  const source = join(from, name)
  if (!existsSync(source)) return
  await cp(source, join(to, 'files', name), {
    recursive: true,
    filter: async (path) => {
      const base = path.slice(path.lastIndexOf(sep) + 1)
      if (SECRET_FILE.test(base) || base.endsWith('.partial')) return false
      // A job that has not ended is lost with its machine, and its run goes on as another attempt.
      if (name === 'local/jobs' && path !== source && resolve(path, '..') === source)
        return existsSync(join(path, 'exit.json'))
      return stat(path).then(
        () => true,
        () => false,
      )
    },
  })
}
