// The proxy's rows, in SQLite and in Postgres.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import type { AdapterRow } from '../../server/proxy/adapters/store.ts'
import { StoredAdapters, StoredUsage } from '../../server/proxy/store.ts'
import type { UsageView } from '../../server/proxy/views.ts'
import { openStore, type Store } from '../../server/store/open.ts'
import { sqlite, startPostgres } from '../server/store/databases.ts'

const postgres = await startPostgres()
const stores: { store: Store; folder: string }[] = []
afterAll(async () => {
  for (const { store, folder } of stores) {
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  }
  await postgres?.stop()
})

const row: UsageView = {
  ...{ day: '2026-11-21', project: 'p', key: 'k', model: 'm' },
  ...{ requests: 1, failed: 0, promptTokens: 3_000_000_000, completionTokens: 5, estimated: 1 },
}
const adapter: AdapterRow = {
  ...{
    id: '01ARZ3NDEKTSV4RRFFQ69G5FAV',
    project: 'p',
    name: 'reverse',
    version: 1,
    servedName: 'p.reverse.v1.00000000',
  },
  ...{ baseModel: 'base', rank: 4, bytes: 3_000_000_000, sha256: 'ab', createdAt: 1_790_000_000_123 },
}

describe.each([sqlite, ...(postgres ? [postgres] : [])])('in $name', (database) => {
  const open = async () => {
    const folder = mkdtempSync(join(tmpdir(), 'rollout-lab-proxy-'))
    const store = await openStore({ folder, url: database.url() })
    stores.push({ store, folder })
    return store.db
  }

  it('usage is added to what is there, and read by day, key and project', async () => {
    const usage = new StoredUsage(await open())
    await usage.add([row, { ...row, key: 'other' }])
    await usage.add([
      { ...row, failed: 1 },
      { ...row, day: '2026-11-22' },
    ])
    const read = await usage.read({ from: '2026-11-21', to: '2026-11-21' })
    expect(read).toEqual([
      { ...row, requests: 2, failed: 1, promptTokens: 6_000_000_000, completionTokens: 10, estimated: 2 },
      { ...row, key: 'other' },
    ])
    expect(await usage.read({ from: '2026-11-01', to: '2026-11-30', key: 'k' })).toHaveLength(2)
    expect(await usage.read({ from: '2026-11-01', to: '2026-11-30', project: "p' or 1=1 --" })).toEqual([])
  })

  it('an adapter comes back as it was put, once for each version', async () => {
    const adapters = new StoredAdapters(await open())
    await adapters.add(adapter)
    expect(await adapters.list()).toEqual([adapter])
    await expect(adapters.add({ ...adapter, id: '01ARZ3NDEKTSV4RRFFQ69G5FAW', servedName: 'x' })).rejects.toThrow()
    await adapters.remove(adapter.id)
    expect(await adapters.list()).toEqual([])
  })
})
