// Bearer keys: what is kept of them, what they open, and when they end. On SQLite and on Postgres.

import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { FRESH_MS, Keys } from '../../../server/access/keys.ts'
import { SCOPES } from '../../../server/access/principal.ts'
import { sqlite, startPostgres } from '../store/databases.ts'
import { bearer, json, openDoor, sentence } from './door.ts'

const DAY = 86_400_000

const postgres = await startPostgres()
afterAll(() => postgres?.stop())

describe.each([sqlite, postgres].filter((database) => database !== null))('a key on $name', (database) => {
  const open = () => openDoor(undefined, { url: database.url() })

  it('is told once, and kept as a digest', async () => {
    const door = await open()
    const answer = await door.fetch(
      '/api/keys',
      json({ name: 'laptop', scopes: ['runs:read'] }, bearer(await door.key())),
    )
    expect(answer.status).toBe(201)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const { key, view } = (await answer.json()) as { key: string; view: Record<string, unknown> }
    expect(key).toMatch(/^rlk_[\w-]{43}$/)
    expect(view).toMatchObject({ name: 'laptop', project: 'default', scopes: ['runs:read'], createdBy: 'key-1' })
    expect(view.expiresAt).toMatch(/^20/)
    const rows = JSON.stringify(await door.store.db.selectFrom('access_key').selectAll().execute())
    expect(rows).not.toContain(key)
    const list = await (await door.fetch('/api/keys', { headers: bearer(await door.key()) })).text()
    expect(list).toContain('laptop')
    expect(list).not.toContain(key)
    expect(list).not.toContain('digest')
  })

  it('ends within five seconds of its revocation, also when another process wrote that', async () => {
    const door = await open()
    const key = await door.key({ name: 'laptop' })
    const other = new Keys(door.store.db, () => door.clock.now)
    const status = async () => (await door.fetch('/api/keys', { headers: bearer(key) })).status
    expect(await status()).toBe(200)
    await other.revoke('laptop')
    door.clock.now += FRESH_MS
    expect(FRESH_MS).toBeLessThan(5_000)
    expect(await status()).toBe(401)
  })

  it('ends at once when it is revoked here, and again is no mistake', async () => {
    const door = await open()
    const [key, operator] = [await door.key({ name: 'laptop' }), await door.key()]
    const revoke = (name: string) => door.fetch(`/api/keys/${name}`, { method: 'DELETE', headers: bearer(operator) })
    expect((await door.fetch('/api/keys', { headers: bearer(key) })).status).toBe(200)
    expect((await revoke('laptop')).status).toBe(200)
    expect((await door.fetch('/api/keys', { headers: bearer(key) })).status).toBe(401)
    expect((await revoke('laptop')).status).toBe(200)
    const none = await revoke('nobody')
    expect([none.status, await sentence(none)]).toEqual([404, 'There is no key nobody.'])
  })

  it('ends at its time', async () => {
    const door = await open()
    const key = await door.key({ expiresAt: door.clock.now + DAY })
    expect((await door.fetch('/api/keys', { headers: bearer(key) })).status).toBe(200)
    door.clock.now += DAY
    const answer = await door.fetch('/api/keys', { headers: bearer(key) })
    expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="rollout-lab"'])
  })

  it('has a name that no other key has, ever', async () => {
    const door = await open()
    const operator = await door.key()
    const make = (name: string) => door.fetch('/api/keys', json({ name, scopes: ['infer'] }, bearer(operator)))
    expect((await make('laptop')).status).toBe(201)
    await door.access.keys.revoke('laptop')
    const again = await make('laptop')
    expect([again.status, await sentence(again)]).toEqual([409, expect.stringContaining('names are used once')])
    const many = await Promise.all(Array.from({ length: 10 }, () => make('twin')))
    expect(many.filter(({ status }) => status === 201)).toHaveLength(1)
    for (const name of [
      'browser',
      'this-machine',
      '',
      '-x',
      'a b',
      'a/b',
      'a\n',
      'x'.repeat(65),
      "'; drop table access_key; --",
    ])
      expect((await make(name)).status, name).toBe(400)
  })

  it('remembers when it was used, to the minute', async () => {
    const door = await open()
    const key = await door.key({ name: 'laptop' })
    const lastUsed = async () => (await door.access.keys.list()).find(({ name }) => name === 'laptop')!.lastUsedAt
    expect(await lastUsed()).toBeNull()
    await door.fetch('/api/keys', { headers: bearer(key) })
    expect(await lastUsed()).toBe('2026-11-21T12:00:00.000Z')
    door.clock.now += 30_000
    await door.fetch('/api/keys', { headers: bearer(key) })
    expect(await lastUsed()).toBe('2026-11-21T12:00:00.000Z')
    door.clock.now += 31_000
    await door.fetch('/api/keys', { headers: bearer(key) })
    expect(await lastUsed()).toBe('2026-11-21T12:01:01.000Z')
  })
})

describe('a scope', () => {
  // What opens with each scope alone: one route of each kind.
  const ROUTES = [
    ['runs:read', 'GET', '/api/secrets'],
    ['runs:write', 'DELETE', '/api/secrets/none'],
    ['operator', 'GET', '/api/keys'],
    ['operator', 'GET', '/api/audit'],
    ['operator', 'POST', '/api/secrets/rotate'],
    ['operator', 'POST', '/api/session/links'],
  ] as const
  const OPENS = {
    infer: [],
    'runs:read': ['runs:read'],
    'runs:write': ['runs:read', 'runs:write'],
    operator: [...SCOPES],
  } as Record<string, string[]>

  it.each(SCOPES)('%s opens what it says and no more', async (scope) => {
    const door = await openDoor()
    const key = await door.key({ scopes: [scope] })
    for (const [needed, method, path] of ROUTES) {
      const { status } = await door.fetch(path, { method, headers: bearer(key) })
      expect(status === 403, `${method} ${path}`).toBe(!OPENS[scope].includes(needed))
      expect(status, `${method} ${path}`).not.toBe(401)
    }
  })
})

describe('Authorization', () => {
  it('lets nobody in by any other text, and never breaks', async () => {
    const door = await openDoor()
    const good = await door.key()
    const shapes = fc.oneof(
      fc.string(),
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom(
        ...["' or '1'='1", "rlk_' or 1=1 --", 'null', 'undefined', '[object Object]', '../../', '%00', '__proto__'],
        ...[good.slice(0, -1), `${good}a`, good.toUpperCase(), good.replace('rlk_', 'rls_'), `${good},${good}`],
      ),
      fc.string({ minLength: 43, maxLength: 43 }).map((text) => `rlk_${text}`),
    )
    const schemes = fc.constantFrom('Bearer ', 'bearer ', 'Basic ', 'Bearer', '', 'Token ', 'Bearer  ')
    await fc.assert(
      fc.asyncProperty(schemes, shapes, async (scheme, text) => {
        let headers: Headers
        try {
          headers = new Headers({ host: '127.0.0.1:5173', authorization: `${scheme}${text}` })
        } catch {
          return
        }
        const answer = await door.fetch('/api/keys', { headers: Object.fromEntries(headers) })
        expect(answer.status).toBe(401)
      }),
      { numRuns: 300 },
    )
    expect((await door.fetch('/api/keys', { headers: { authorization: `bearer   ${good} ` } })).status).toBe(200)
  })

  it('goes before a cookie: a wrong key is not made good by a page that is signed in', async () => {
    const door = await openDoor()
    const cookie = await door.signIn()
    expect((await door.page('/api/keys', { cookie, headers: bearer('rlk_wrong') })).status).toBe(401)
  })

  it('takes a machine key for as long as its server lives', async () => {
    const door = await openDoor()
    const { machineKey } = door.access
    const session = await (await door.fetch('/api/session', { headers: bearer(machineKey) })).json()
    expect(session).toMatchObject({ signedIn: true, key: 'this-machine' })
    await door.restart()
    expect((await door.fetch('/api/keys', { headers: bearer(machineKey) })).status).toBe(401)
  })
})

describe('the audit log', () => {
  it('holds every write that was let in, with what came of it, and no read', async () => {
    const door = await openDoor()
    const operator = await door.key({ name: 'boss' })
    await door.fetch(
      '/api/keys',
      json({ name: 'laptop', scopes: ['infer'] }, { ...bearer(operator), 'x-request-id': 'r1' }),
    )
    await door.fetch('/api/keys', { headers: bearer(operator) })
    await door.fetch('/api/keys/laptop?x=secret', { method: 'DELETE', headers: bearer(operator) })
    await door.fetch('/api/keys/nobody', { method: 'DELETE', headers: bearer(operator) })
    await door.fetch('/api/keys', json({ name: 'refused', scopes: ['infer'] }))
    const answer = await door.fetch('/api/audit', { headers: bearer(operator) })
    const { entries } = (await answer.json()) as { entries: Record<string, unknown>[] }
    expect(entries.map(({ key, action, path, status }) => [key, action, path, status])).toEqual([
      ['boss', 'DELETE /api/keys/:name', '/api/keys/nobody', 404],
      ['boss', 'DELETE /api/keys/:name', '/api/keys/laptop', 200],
      ['boss', 'POST /api/keys', '/api/keys', 201],
    ])
    expect(entries[2].requestId).toBe('r1')
    const older = await door.fetch(`/api/audit?before=${entries[1].id}&limit=1`, { headers: bearer(operator) })
    expect(((await older.json()) as { entries: unknown[] }).entries).toEqual([entries[2]])
  })

  it('tells who signed a page in, and forgets after its time', async () => {
    const door = await openDoor()
    await door.signIn()
    expect(await door.access.audit.read({ limit: 5 })).toMatchObject([{ key: 'browser', action: 'GET /', path: '/' }])
    door.clock.now += 366 * DAY
    await door.restart()
    expect(await door.access.audit.read({ limit: 5 })).toEqual([])
  })
})
