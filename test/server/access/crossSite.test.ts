// What other pages can make a browser send here, and what comes of it.

import type { AddressInfo } from 'node:net'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { Hono } from 'hono'
import { describe, expect, it, onTestFinished } from 'vitest'
import { cameFromElsewhere } from '../../../server/access/crossSite.ts'
import { elsewhere } from '../../../server/access/elsewhere.ts'
import { isolation } from '../../../server/access/isolation.ts'
import { bearer, HOST, json, openDoor } from './door.ts'

const own = [`http://${HOST}`]

describe('a request is taken for another page’s', () => {
  // method, Sec-Fetch-Site, Origin, signed in by a cookie → refused
  it.each([
    ['POST', 'same-origin', own[0], true, false],
    ['POST', 'same-site', 'http://127.0.0.1:8888', true, true],
    ['POST', 'cross-site', 'https://evil.example', true, true],
    ['POST', 'cross-site', 'null', false, true],
    ['POST', 'none', null, true, true],
    ['GET', 'none', null, true, false],
    ['GET', 'same-origin', null, true, false],
    ['GET', 'same-site', null, true, true],
    ['GET', 'cross-site', null, true, true],
    ['GET', 'cross-site', null, false, false],
    // Browsers send Sec-Fetch-Site to secure addresses alone, and Origin with every write.
    ['POST', null, own[0], true, false],
    ['POST', null, 'https://evil.example', true, true],
    ['POST', null, 'null', true, true],
    ['POST', null, null, true, true],
    ['DELETE', null, 'http://127.0.0.1:8888', true, true],
    ['GET', null, null, true, false],
    // A program: no cookie, no page.
    ['POST', null, null, false, false],
  ] as const)('%s, Sec-Fetch-Site %s, Origin %s, cookie %s: %s', (method, site, origin, cookie, refused) => {
    expect(cameFromElsewhere({ method, site, origin, own }, cookie) !== null).toBe(refused)
  })
})

describe('a form of another page', () => {
  it.each([
    { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' },
    { origin: 'http://127.0.0.1:8888', 'sec-fetch-site': 'same-site' },
    { origin: 'null' },
  ])('changes nothing, whatever it carries: %o', async (headers) => {
    const door = await openDoor()
    const cookie = await door.signIn()
    const form = 'application/x-www-form-urlencoded'
    for (const type of [form, 'text/plain', 'multipart/form-data; boundary=x', 'application/json']) {
      const answer = await door.fetch('/api/keys', {
        method: 'POST',
        headers: { ...(headers as Record<string, string>), cookie, 'content-type': type },
        body: '{"name":"stolen","scopes":["operator"]}',
      })
      expect(answer.status).toBe(403)
    }
    expect(await door.access.keys.list()).toEqual([])
  })

  it('signs nobody in or out', async () => {
    const door = await openDoor()
    const cookie = await door.signIn()
    const headers = { cookie, origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }
    expect((await door.fetch('/api/session', { method: 'DELETE', headers })).status).toBe(403)
    const { token } = door.access.makeLink()
    expect((await door.fetch('/api/session', json({ token }, headers))).status).toBe(403)
    expect((await door.page('/api/keys', { cookie })).status).toBe(200)
    expect((await door.fetch(`/?token=${token}`)).status).toBe(303)
  })

  it('does not even compile', async () => {
    const door = await openDoor()
    const body = { text: 'x = 1', target: 'hosted' }
    expect((await door.fetch('/api/compile', json(body, { 'sec-fetch-site': 'cross-site' }))).status).toBe(403)
    expect((await door.page('/api/compile', json(body))).status).toBe(200)
  })
})

describe('another page', () => {
  it('reads nothing with the cookie of this one', async () => {
    const door = await openDoor()
    const cookie = await door.signIn()
    const answer = await door.fetch('/api/keys', { headers: { cookie, 'sec-fetch-site': 'same-site' } })
    expect(answer.status).toBe(403)
    expect(answer.headers.get('access-control-allow-origin')).toBeNull()
    expect(answer.headers.get('cross-origin-resource-policy')).toBe('same-origin')
  })

  it('asks with a key where its origin is listed, and never with a cookie', async () => {
    const origin = 'https://notebook.example'
    const door = await openDoor((config) => ({ ...config, access: { ...config.access, origins: [origin] } }))
    const preflight = (from: string) =>
      door.fetch('/api/keys', {
        method: 'OPTIONS',
        headers: {
          origin: from,
          'access-control-request-method': 'POST',
          'access-control-request-headers': 'authorization',
        },
      })
    const allowed = await preflight(origin)
    expect(allowed.headers.get('access-control-allow-origin')).toBe(origin)
    expect(allowed.headers.get('access-control-allow-headers')).toContain('Authorization')
    expect(allowed.headers.get('access-control-allow-credentials')).toBeNull()
    for (const other of [
      'https://evil.example',
      'https://notebook.example.evil.example',
      'http://notebook.example',
      'null',
    ])
      expect((await preflight(other)).headers.get('access-control-allow-origin'), other).toBeNull()
    const headers = { origin, 'sec-fetch-site': 'cross-site', ...bearer(await door.key()) }
    const answer = await door.fetch('/api/keys', { headers })
    expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([200, origin])
  })

  it('may read an answer that was written past the router, and others may not', async () => {
    const app = new Hono<{ Bindings: HttpBindings }>()
    app.use(isolation)
    app.use(elsewhere(() => ['https://notebook.example']))
    app.get('/past', (c) => {
      c.env.outgoing.writeHead(200, ['Content-Type', 'text/plain'])
      c.env.outgoing.end('said')
      return RESPONSE_ALREADY_SENT
    })
    app.get('/through', (c) => c.text('said'))
    const server = createAdaptorServer({ fetch: app.fetch })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    for (const path of ['past', 'through']) {
      for (const [origin, allowed] of [
        ['https://notebook.example', 'https://notebook.example'],
        ['https://evil.example', null],
      ] as const) {
        const answer = await fetch(`http://127.0.0.1:${port}/${path}`, { headers: { origin } })
        expect([await answer.text(), answer.headers.get('access-control-allow-origin')], path).toEqual([
          'said',
          allowed,
        ])
      }
    }
  })
})
