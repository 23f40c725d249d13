// Signing a page in and out: links that open once, cookies that no script and no other page can use.

import { describe, expect, it } from 'vitest'
import type { SessionView } from '../../../server/access/routes.ts'
import { bearer, cookieOf, json, openDoor, sentence } from './door.ts'

const HOUR = 3_600_000

describe('a link', () => {
  it('signs in the page that opens it first, and leaves the token out of the address', async () => {
    const door = await openDoor()
    const { token } = door.access.makeLink()
    const answer = await door.fetch(`/?token=${token}`)
    expect(answer.status).toBe(303)
    expect(answer.headers.get('location')).toBe('./')
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const cookie = answer.headers.get('set-cookie')!
    expect(cookie).toMatch(
      /^rollout-lab-[0-9a-f]{8}=rls_[\w-]{43}; Max-Age=2592000; Path=\/; HttpOnly; SameSite=Strict$/,
    )
    const view = (await (await door.page('/api/session', { cookie: cookieOf(answer)! })).json()) as SessionView
    expect(view).toEqual({
      signedIn: true,
      reach: 'loopback',
      key: 'browser',
      project: 'default',
      scopes: ['infer', 'runs:read', 'runs:write', 'operator'],
    })
  })

  it('opens nothing a second time, after its time, or when the server has ended', async () => {
    const door = await openDoor()
    const used = door.access.makeLink().token
    await door.fetch(`/?token=${used}`)
    const old = door.access.makeLink().token
    door.clock.now += 24 * HOUR
    const ended = door.access.makeLink().token
    await door.restart()
    for (const token of [used, old, ended, '', 'rlt_', `rlt_${'a'.repeat(43)}`, '\u0000', "' or 1=1 --"]) {
      const answer = await door.fetch(`/?token=${encodeURIComponent(token)}`)
      expect(answer.status, token).toBe(401)
      expect(answer.headers.get('set-cookie'), token).toBeNull()
      expect(await answer.text()).toContain('rollout-lab keys link')
      expect((await door.page('/api/session', json({ token }))).status, token).toBe(401)
    }
  })

  it('sends a page that is signed in already on its way', async () => {
    const door = await openDoor()
    const { token } = door.access.makeLink()
    const cookie = cookieOf(await door.fetch(`/?token=${token}`))!
    const again = await door.fetch(`/?token=${token}`, { headers: { cookie, 'sec-fetch-site': 'none' } })
    expect([again.status, again.headers.get('set-cookie')]).toEqual([303, null])
  })

  it('is opened by one of many that come at once', async () => {
    const door = await openDoor()
    const { token } = door.access.makeLink()
    const answers = await Promise.all(Array.from({ length: 20 }, () => door.page('/api/session', json({ token }))))
    expect(answers.map(({ status }) => status).filter((status) => status === 200)).toHaveLength(1)
  })

  it('is made by an operator, and by nobody else', async () => {
    const door = await openDoor()
    const member = await door.key({ scopes: ['runs:write', 'infer'] })
    expect((await door.fetch('/api/session/links', { method: 'POST' })).status).toBe(401)
    expect((await door.fetch('/api/session/links', { method: 'POST', headers: bearer(member) })).status).toBe(403)
    const answer = await door.fetch('/api/session/links', { method: 'POST', headers: bearer(await door.key()) })
    const { token } = (await answer.json()) as { token: string }
    expect((await door.fetch(`/?token=${token}`)).status).toBe(303)
  })
})

describe('a page', () => {
  it('that is not signed in is told how, and may ask for nothing else', async () => {
    const door = await openDoor()
    const answer = await door.page('/api/session')
    expect(await answer.json()).toEqual({
      signedIn: false,
      reach: 'loopback',
      sentence: expect.stringContaining('Open the link that the server printed'),
    })
    expect((await door.page('/api/keys')).status).toBe(401)
  })

  it('signs in with a key, has what the key has, and ends with it', async () => {
    const door = await openDoor()
    const key = await door.key({ name: 'laptop', project: 'reading', scopes: ['runs:read'] })
    const answer = await door.page('/api/session', json({ key }))
    const cookie = cookieOf(answer)!
    expect(await answer.json()).toMatchObject({ key: 'laptop', project: 'reading', scopes: ['runs:read'] })
    expect((await door.page('/api/secrets', { cookie })).status).toBe(200)
    expect((await door.page('/api/keys', { cookie })).status).toBe(403)
    await door.access.keys.revoke('laptop')
    const after = await door.page('/api/secrets', { cookie })
    expect([after.status, await sentence(after)]).toEqual([401, expect.stringContaining('signed out')])
    expect((await door.page('/api/session', json({ key }))).status).toBe(401)
  })

  it('stays signed in over a restart, while it is used', async () => {
    const door = await openDoor()
    const cookie = await door.signIn()
    await door.restart()
    for (let month = 0; month < 3; month++) {
      door.clock.now += 700 * HOUR
      expect((await door.page('/api/keys', { cookie })).status).toBe(200)
    }
    door.clock.now += 721 * HOUR
    expect((await door.page('/api/keys', { cookie })).status).toBe(401)
  })

  it('signs out for good', async () => {
    const door = await openDoor()
    const cookie = await door.signIn()
    const answer = await door.page('/api/session', { method: 'DELETE', cookie })
    expect(answer.status).toBe(204)
    expect(answer.headers.get('set-cookie')).toContain('Max-Age=0')
    expect((await door.page('/api/keys', { cookie })).status).toBe(401)
  })

  it('sends a cookie that the database does not hold', async () => {
    const door = await openDoor()
    const [, value] = (await door.signIn()).split('=')
    const rows = JSON.stringify(await door.store.db.selectFrom('access_session').selectAll().execute())
    expect(rows).not.toContain(value)
  })

  it('gets a cookie for TLS alone where the server is reached by it', async () => {
    const door = await openDoor((config) => ({
      ...config,
      server: { ...config.server, public_url: 'https://lab.example' },
    }))
    const answer = await door.fetch(`/?token=${door.access.makeLink().token}`, { headers: { host: 'lab.example' } })
    expect(answer.headers.get('set-cookie')).toMatch(/^__Host-rollout-lab-\w+=.*; Secure; /)
  })
})
