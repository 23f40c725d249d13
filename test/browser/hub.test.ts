// Models of a hub on loopback, fetched by a worker of a real Chromium into its private file system.

import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { hosted, SHARDED, WHOLE } from '../hub/hosted.ts'
import { type HubServer, startHub } from '../hub/hubServer.ts'
import { randomModel } from '../policy/randomModel.ts'
import { openRealm, type Realm } from './harness.ts'

const MODULE = 'test/browser/hub.page.ts'

interface Opened {
  hash: string
  sums: Record<string, number>
}

interface Kept {
  id: string
  model: string
  origin: string
  files: string[]
  complete: boolean
  bytes: number
}

let realm: Realm
let hub: HubServer
let expected: Opened
beforeAll(async () => {
  realm = await openRealm('worker')
  const model = await randomModel()
  const sums: Record<string, number> = {}
  for (const name of ['model.embed_tokens.weight', 'model.layers.1.mlp.down_proj.weight', 'model.norm.weight'])
    sums[name] = (await model.weight(name)).reduce((sum, value) => sum + value, 0)
  expected = { hash: model.hash, sums }
})
afterAll(() => realm.close())
beforeEach(async () => {
  await hub?.close()
  hub = await startHub(await hosted())
  for (const { id } of await ask<Kept[]>('kept')) await ask('remove', id)
})
afterAll(() => hub?.close())

function ask<Result>(name: string, ...args: unknown[]): Promise<Result> {
  return realm.call<Result>(MODULE, name, args)
}

function weightRequests(): (string | null)[] {
  return hub.asked
    .filter(({ method, path }) => method === 'GET' && path.endsWith('.safetensors'))
    .filter(({ server }) => server === 'cdn')
    .map(({ range }) => range)
}

describe('a model of a hub in a browser', () => {
  it('is fetched once and kept: the next start asks nobody', async () => {
    expect(await ask('open', WHOLE, hub.base)).toEqual(expected)
    const asked = hub.asked.length
    expect(await ask('open', WHOLE, hub.base)).toEqual(expected)
    expect(hub.asked).toHaveLength(asked)
    expect((await ask<Opened>('open', SHARDED, hub.base)).sums).toEqual(expected.sums)
    const kept = await ask<Kept[]>('kept')
    expect(kept.map(({ model, complete }) => [model, complete])).toEqual([
      [SHARDED, true],
      [WHOLE, true],
    ])
    expect(kept[1].bytes).toBeGreaterThan(Object.values(hub.models[WHOLE].files).reduce((sum, b) => sum + b.length, 0))
    await ask('remove', kept[1].id)
    expect((await ask<Kept[]>('kept')).map(({ model }) => model)).toEqual([SHARDED])
  })

  it('whose tab was closed while it came goes on from there in the next one', async () => {
    // What came lies on the disk; then nothing comes, and the tab is closed.
    Object.assign(hub.faults, { hang: { path: 'model.safetensors', after: 30_000, times: 1 } })
    const tab = await openRealm('worker', realm.page.context())
    await tab.call(MODULE, 'fetchSome', [WHOLE, hub.base, 30_000])
    expect((await ask<Kept[]>('kept'))[0]).toMatchObject({ model: WHOLE, complete: false })
    await tab.page.close()
    expect(await ask('open', WHOLE, hub.base)).toEqual(expected)
    expect(weightRequests()).toEqual([null, 'bytes=30000-'])
  })

  it('is taken up where the connection broke off, and checked', async () => {
    Object.assign(hub.faults, { cut: { path: 'model.safetensors', after: 30_000, times: 1 } })
    expect(await ask('open', WHOLE, hub.base)).toEqual(expected)
    expect(weightRequests()).toEqual([null, 'bytes=30000-'])
    hub.faults.spoil = 'model-00001-of-00002.safetensors'
    expect(await ask('refusal', SHARDED, hub.base)).toMatch(/^WrongBytes: .*its SHA-256 is .* the hub says/)
    hub.faults.spoil = null
    expect((await ask<Opened>('open', SHARDED, hub.base)).sums).toEqual(expected.sums)
  })

  it('is fetched once by two tabs that want it at once', async () => {
    const other = await openRealm('worker', realm.page.context())
    const [one, two] = await Promise.all([ask('open', WHOLE, hub.base), other.call(MODULE, 'open', [WHOLE, hub.base])])
    expect(one).toEqual(expected)
    expect(two).toEqual(expected)
    expect(weightRequests()).toEqual([null])
    await other.page.close()
  })

  it('comes from a plain mirror as well', async () => {
    Object.assign(hub.faults, { noList: true, noDigests: true })
    expect(await ask('open', WHOLE, hub.base)).toEqual(expected)
    expect((await ask<Opened>('open', SHARDED, hub.base)).sums).toEqual(expected.sums)
  })

  it('that is gated is had with the token of this browser, which goes to the hub alone', async () => {
    Object.assign(hub.models[WHOLE], { token: 'hf_right' })
    expect(await ask('refusal', WHOLE, hub.base)).toMatch(/^GatedModel: .*it asks for a token \(401\)/)
    await ask('giveToken', hub.base, 'hf_right')
    expect(await ask('open', WHOLE, hub.base)).toEqual(expected)
    const elsewhere = hub.asked.filter(({ server }) => server === 'cdn')
    expect(elsewhere.length).toBeGreaterThan(0)
    expect(elsewhere.filter(({ authorization }) => authorization !== null)).toEqual([])
    await ask('giveToken', hub.base, null)
    for (const { id } of await ask<Kept[]>('kept')) await ask('remove', id)
    expect(await ask('refusal', WHOLE, hub.base)).toMatch(/^GatedModel/)
  })

  it('for which there is no room is a StorageFull, and comes when there is', async () => {
    const session = await realm.page.context().newCDPSession(realm.page)
    const { origin } = new URL(realm.page.url())
    const { usage } = await session.send('Storage.getUsageAndQuota', { origin })
    await session.send('Storage.overrideQuotaForOrigin', { origin, quotaSize: usage + 30_000 })
    const sentence = await ask('refusal', WHOLE, hub.base)
    await session.send('Storage.overrideQuotaForOrigin', { origin })
    expect(sentence).toMatch(/^StorageFull: .* no room for .*someone\/whole/)
    expect(await ask('open', WHOLE, hub.base)).toEqual(expected)
  })
})

describe('a folder dropped on the page', () => {
  it('is copied, and is a model like any other', async () => {
    const page = await openRealm('page', realm.page.context())
    expect(await page.call(MODULE, 'drop', ['my model'])).toBe('dropped:my model')
    expect(await ask('open', 'dropped:my model', null)).toEqual(expected)
    const [kept] = await ask<Kept[]>('kept')
    expect(kept).toMatchObject({ model: 'my model', origin: 'dropped', complete: true })
    expect(kept.files.sort()).toEqual(['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'])
    await expect(page.call(MODULE, 'drop', ['half', ['model.safetensors']])).rejects.toThrow(
      /The folder half is not whole: model\.safetensors missing/,
    )
    await expect(page.call(MODULE, 'drop', ['none', ['config.json']])).rejects.toThrow(
      /is not a model: expected config\.json, tokenizer\.json and \.safetensors files in it, found/,
    )
    await expect(ask('open', 'dropped:gone', null)).rejects.toThrow(/drop its folder on the page again/)
    await page.page.close()
  })
})
