import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { newId, ULID } from '../../../server/store/ids.ts'
import { MIGRATIONS } from '../../../server/store/migrations/index.ts'
import type { Migration } from '../../../server/store/migrations/migration.ts'
import { openStore, type Store } from '../../../server/store/open.ts'
import type { RunRow } from '../../../server/store/tables/runs.ts'
import { sqlite, startPostgres } from './databases.ts'

const postgres = await startPostgres()
afterAll(() => postgres?.stop())

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollout-lab-store-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

function run(more: Partial<RunRow> = {}): RunRow {
  return {
    id: newId(),
    project: 'default',
    owner: 'browser',
    name: 'a run',
    target: 'local',
    config_json: '{"name":"Ünïcödé 🎲"}',
    labels_json: '[]',
    secrets_json: '[]',
    state: 'queued',
    reason: null,
    attempt: 0,
    step: 0,
    max_steps: 5,
    cancel: null,
    cloned_from: null,
    created_at: 1_790_000_000_123,
    updated_at: 1_790_000_000_123,
    started_at: null,
    ended_at: null,
    deleted_at: null,
    bytes: 9_007_199_254_740_991,
    ...more,
  }
}

describe.each([sqlite, postgres].filter((database) => database !== null))('the store on $name', (database) => {
  let store: Store
  let url: string | null
  beforeEach(async () => {
    url = database.url()
    store = await openStore({ folder, url })
  })
  afterEach(() => store.close())

  it('gives rows back as they were: texts, whole numbers up to 2⁵³, nulls', async () => {
    const row = run()
    await store.db.insertInto('run').values(row).execute()
    expect(await store.db.selectFrom('run').selectAll().executeTakeFirst()).toEqual(row)
  })

  it('lets one of many insert a key, and one of many claim a row', async () => {
    const insert = () =>
      store.db
        .insertInto('idempotency')
        .values({ caller: 'a', key: 'k', digest: 'd', run_id: newId(), created_at: 1 })
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirst()
    const inserted = await Promise.all(Array.from({ length: 20 }, insert))
    expect(inserted.map(({ numInsertedOrUpdatedRows }) => Number(numInsertedOrUpdatedRows)).sort()).toEqual([
      ...Array(19).fill(0),
      1,
    ])
    const { id } = run()
    await store.db.insertInto('run').values(run({ id })).execute()
    const claim = () =>
      store.db
        .updateTable('run')
        .set({ state: 'starting' })
        .where('id', '=', id)
        .where('state', '=', 'queued')
        .executeTakeFirst()
    const claimed = await Promise.all(Array.from({ length: 20 }, claim))
    expect(claimed.filter(({ numUpdatedRows }) => numUpdatedRows === 1n)).toHaveLength(1)
  })

  it('takes a transaction back whole', async () => {
    const failing = store.db.transaction().execute(async (transaction) => {
      await transaction.insertInto('run').values(run()).execute()
      throw new Error('on purpose')
    })
    await expect(failing).rejects.toThrow('on purpose')
    expect(await store.db.selectFrom('run').select('id').execute()).toEqual([])
  })

  it('sorts ids by the time at which they were made', async () => {
    const ids = Array.from({ length: 50 }, newId)
    for (const id of [...ids].reverse()) await store.db.insertInto('run').values(run({ id })).execute()
    const rows = await store.db.selectFrom('run').select('id').orderBy('id').execute()
    expect(rows.map(({ id }) => id)).toEqual(ids)
    for (const id of ids) expect(id).toMatch(ULID)
  })

  it('keeps what it holds over a restart, and runs each migration once', async () => {
    await store.db
      .insertInto('run')
      .values(run({ name: 'kept' }))
      .execute()
    await store.close()
    const added: Migration = {
      name: '999-added',
      up: async (db) => {
        await db.schema.alterTable('run').addColumn('colour', 'text').execute()
      },
    }
    store = await openStore({ folder, url, migrations: [...MIGRATIONS, added] })
    expect(await store.db.selectFrom('run').select('name').execute()).toEqual([{ name: 'kept' }])
    await store.close()
    store = await openStore({ folder, url, migrations: [...MIGRATIONS, added] })
    const names = await store.db.selectFrom('migration').select('name').orderBy('name').execute()
    expect(names.map(({ name }) => name)).toEqual([...MIGRATIONS.map(({ name }) => name), '999-added'].sort())
  })

  it('refuses a database that a newer program has written, in a sentence, and changes nothing', async () => {
    await store.db.insertInto('migration').values({ name: '998-of-the-future', applied_at: 1 }).execute()
    await store.close()
    await expect(openStore({ folder, url })).rejects.toThrow(/newer Rollout Lab.*998-of-the-future.*Update/)
    const future: Migration = { name: '998-of-the-future', up: async () => {} }
    store = await openStore({ folder, url, migrations: [...MIGRATIONS, future] })
  })

  it('leaves nothing of a migration that fails', async () => {
    await store.close()
    const failing: Migration = {
      name: '999-failing',
      up: async (db) => {
        await db.schema.createTable('half').addColumn('id', 'text').execute()
        throw new Error('half way')
      },
    }
    await expect(openStore({ folder, url, migrations: [...MIGRATIONS, failing] })).rejects.toThrow('half way')
    store = await openStore({ folder, url })
    const tables = await store.db.introspection.getTables()
    expect(tables.map(({ name }) => name)).not.toContain('half')
    expect(tables.map(({ name }) => name)).toContain('run')
  })

  it('is one server process', async () => {
    await expect(openStore({ folder, url })).rejects.toThrow(/in use by another Rollout Lab server/)
    await store.close()
    store = await openStore({ folder, url })
  })
})

describe('SQLite', () => {
  it('is free again when the process that held it was killed', async () => {
    const program = `
      const { default: Sqlite } = await import('libsql')
      const lock = new Sqlite(${JSON.stringify(join(folder, 'server.lock'))})
      lock.exec('BEGIN EXCLUSIVE')
      process.stdout.write('held')
      setInterval(() => {}, 1000)`
    const holder = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await new Promise((resolve) => holder.stdout.once('data', resolve))
    await expect(openStore({ folder })).rejects.toThrow(/in use/)
    const gone = new Promise((resolve) => holder.once('exit', resolve))
    holder.kill('SIGKILL')
    await gone
    await (await openStore({ folder })).close()
  })

  it('refuses a URL of another kind', async () => {
    await expect(openStore({ folder, url: 'mysql://u:secret@h/d' })).rejects.toThrow(/"mysql:…": expected postgres/)
  })
})
