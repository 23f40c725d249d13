import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { backUp, restore } from '../../../server/store/backup.ts'
import { EventFile, type GivenEvent } from '../../../server/store/events/eventFile.ts'
import { newId } from '../../../server/store/ids.ts'
import { openStore, type Store } from '../../../server/store/open.ts'
import { sqlite, startPostgres, type TestDatabase } from './databases.ts'

const postgres = await startPostgres()
afterAll(() => postgres?.stop())

const DATABASES = [sqlite, postgres].filter((database) => database !== null)
const WAYS = DATABASES.flatMap((from) => DATABASES.map((to) => ({ from, to })))

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'rollout-lab-backup-'))
})
afterEach(() => rm(root, { recursive: true, force: true }))

const said = (sentence: string): GivenEvent => ({ kind: 'note', level: 'info', sentence, time: 1, source: 'test' })

async function fill(store: Store, run: string): Promise<void> {
  const file = new EventFile(store.db, join(store.folder, 'runs', run), run)
  await file.append(1, [said('ünïcödé 🎲'), said('second')], '1')
  await store.db
    .insertInto('idempotency')
    .values({ caller: 'a', key: '%', digest: 'd', run_id: run, created_at: 2 ** 52 })
    .execute()
  await mkdir(join(store.folder, 'artifacts', run), { recursive: true })
  await writeFile(join(store.folder, 'artifacts', run, 'a'), 'artifact')
  await writeFile(join(store.folder, 'secrets.key'), 'canary')
  for (const job of ['ended', 'open']) await mkdir(join(store.folder, 'local/jobs', job), { recursive: true })
  await writeFile(join(store.folder, 'local/jobs/ended/exit.json'), '{}')
}

async function sentences(store: Store, run: string): Promise<string[]> {
  const file = new EventFile(store.db, join(store.folder, 'runs', run), run)
  for await (const lines of file.read(0)) return lines.map(({ json }) => JSON.parse(json).sentence)
  return []
}

describe.each(WAYS)('a backup of $from.name', ({ from, to }: { from: TestDatabase; to: TestDatabase }) => {
  it(`is restored into ${to.name} as it was while the server went on`, async () => {
    const place = { folder: join(root, 'data'), url: from.url() }
    const store = await openStore(place)
    const run = newId()
    await fill(store, run)
    const backup = join(root, 'backup')
    expect((await backUp(place, backup)).rows).toMatchObject({ event_file: 1, idempotency: 1, run: 0 })
    await store.db.deleteFrom('idempotency').execute()
    await store.close()

    const target = { folder: join(root, 'restored'), url: to.url() }
    await restore(backup, target)
    const restored = await openStore(target)
    expect(await restored.db.selectFrom('idempotency').selectAll().execute()).toEqual([
      { caller: 'a', key: '%', digest: 'd', run_id: run, created_at: 2 ** 52 },
    ])
    expect(await sentences(restored, run)).toEqual(['ünïcödé 🎲', 'second'])
    expect(await readFile(join(restored.folder, 'artifacts', run, 'a'), 'utf8')).toBe('artifact')
    await restored.close()
    await expect(readFile(join(target.folder, 'secrets.key'))).rejects.toThrow('ENOENT')
    await expect(readFile(join(target.folder, 'local/jobs/open'))).rejects.toThrow('ENOENT')
    expect(await readFile(join(target.folder, 'local/jobs/ended/exit.json'), 'utf8')).toBe('{}')
  })
})

describe('a backup', () => {
  it('whose files went on after its rows is brought in step when it is opened', async () => {
    const place = { folder: join(root, 'data') }
    const store = await openStore(place)
    const run = newId()
    await fill(store, run)
    await backUp(place, join(root, 'backup'))
    const file = new EventFile(store.db, join(store.folder, 'runs', run), run)
    await file.append(1, [said('third')], '2')
    await store.close()
    const events = await readFile(join(place.folder, 'runs', run, 'events.jsonl'))
    await writeFile(join(root, 'backup/files/runs', run, 'events.jsonl'), events)
    await restore(join(root, 'backup'), { folder: join(root, 'restored') })
    const restored = await openStore({ folder: join(root, 'restored') })
    expect(await sentences(restored, run)).toEqual(['ünïcödé 🎲', 'second', 'third'])
    await restored.close()
  })

  it('overwrites nothing', async () => {
    const place = { folder: join(root, 'data') }
    await (await openStore(place)).close()
    await backUp(place, join(root, 'backup'))
    await expect(backUp(place, join(root, 'backup'))).rejects.toThrow(/is there already/)
    await expect(restore(join(root, 'backup'), place)).rejects.toThrow(/is not empty/)
    await expect(restore(place.folder, { folder: join(root, 'x') })).rejects.toThrow(/is no backup/)
    await expect(backUp({ folder: join(root, 'nothing') }, join(root, 'b'))).rejects.toThrow(/holds no rollout-lab.db/)
  })

  it('of a newer program is refused', async () => {
    const place = { folder: join(root, 'data') }
    await (await openStore(place)).close()
    await backUp(place, join(root, 'backup'))
    const file = join(root, 'backup/backup.json')
    const about = JSON.parse(await readFile(file, 'utf8'))
    await writeFile(file, JSON.stringify({ ...about, migrations: [...about.migrations, '998-future'] }))
    await expect(restore(join(root, 'backup'), { folder: join(root, 'x') })).rejects.toThrow(
      /newer Rollout Lab.*998-future/,
    )
  })
})
