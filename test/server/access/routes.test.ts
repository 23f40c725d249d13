// Every route of the server, as the server itself describes them: who may ask, how large a body may be, and that nothing
// that is sent breaks it.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bearer, json, openDoor, type TestDoor } from './door.ts'
import { OPEN } from './open.ts'

interface Route {
  method: string
  path: string
  summary?: string
}

async function routesOf(door: TestDoor): Promise<Route[]> {
  const { paths } = (await (await door.fetch('/api/openapi.json')).json()) as {
    paths: Record<string, Record<string, { summary?: string }>>
  }
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { summary }]) => ({
      method: method.toUpperCase(),
      path: path.replaceAll(/\{\w+\}/g, 'x'),
      summary,
    })),
  )
}

describe('every route', () => {
  it('asks who is there, but for those that are listed here with a reason', async () => {
    const door = await openDoor()
    const routes = await routesOf(door)
    expect(routes.length).toBeGreaterThan(15)
    for (const { method, path } of routes) {
      if (OPEN.has(`${method} ${path}`)) continue
      const headers = { 'content-type': 'application/json' }
      const answer = await door.fetch(path, { method, headers, body: method === 'GET' ? undefined : '{}' })
      expect(answer.status, `${method} ${path}`).toBe(401)
      expect((await answer.json()) as object, `${method} ${path}`).toEqual({ error: expect.stringMatching(/\.$/) })
    }
  })

  it('asks everybody where it is reached from other machines, also for what is a function of its body', async () => {
    const door = await openDoor((config) => ({ ...config, server: { ...config.server, hosts: ['lab.example'] } }))
    const key = bearer(await door.key({ scopes: ['infer'] }))
    for (const [path, init] of [
      ['/metrics', {}],
      ['/api/compile', json({ text: 'x = 1', target: 'hosted' })],
    ] as const) {
      expect((await door.fetch(path, init)).status, path).toBe(401)
      const headers = { ...(init as RequestInit).headers, ...key }
      expect((await door.fetch(path, { ...init, headers })).status, path).toBe(200)
    }
    expect((await door.fetch('/healthz')).status).toBe(200)
  })

  it('is not reached by another spelling of its path', async () => {
    const door = await openDoor()
    const headers = bearer(await door.key({ scopes: ['infer'] }))
    for (const path of [
      ...[
        '//api/keys',
        '/api//keys',
        '/api/keys/',
        '/API/keys',
        '/api/Keys',
        '/api/./keys',
        '/api/%6beys',
        '/api/keys%2f',
      ],
      ...['/api/keys;x', '/api/keys%00', '/api/runs/../keys', '/api/%2e%2e/api/keys', '/x/../api/keys', '/api\\keys'],
    ])
      expect([401, 403, 404], path).toContain((await door.fetch(path, { headers })).status)
  })
})

describe('a body', () => {
  const LIMITS = [
    ['POST', '/api/session', 16 * 1024],
    ['POST', '/api/keys', 16 * 1024],
    ['PUT', '/api/secrets/x', 256 * 1024],
    ['POST', '/api/compile', 1024 * 1024],
  ] as const

  it.each(LIMITS)('of %s %s has at most %i bytes, to the byte', async (method, path, limit) => {
    const door = await openDoor()
    const headers = { 'content-type': 'application/json', ...bearer(await door.key()) }
    const send = (body: BodyInit) => door.fetch(path, { method, headers, body, duplex: 'half' } as RequestInit)
    const chunked = (bytes: number) => new Blob(['x'.repeat(bytes)]).stream() as unknown as BodyInit
    // Larger by one: refused for its size. As large as that: refused for what it says.
    for (const body of [' '.repeat(limit + 1), chunked(limit + 1)]) {
      const answer = await send(body)
      expect([answer.status, await answer.json()]).toEqual([413, { error: expect.stringMatching(/at most/) }])
    }
    for (const body of [' '.repeat(limit), chunked(limit)]) expect((await send(body)).status).toBe(400)
  })

  it.each(LIMITS)('of %s %s may hold anything, and breaks nothing', async (method, path) => {
    const door = await openDoor()
    const headers = { 'content-type': 'application/json', ...bearer(await door.key()) }
    const deep = `${'['.repeat(10_000)}${']'.repeat(10_000)}`
    const bodies = fc.oneof(
      fc.json({ maxDepth: 4 }),
      fc.string({ unit: 'binary' }),
      fc.constantFrom(
        '',
        '{',
        'null',
        '[]',
        '{"__proto__":{"scopes":["operator"]}}',
        '{"constructor":1}',
        deep,
        '\u0000',
        '"\\ud800"',
      ),
      fc
        .record(
          {
            name: fc.anything(),
            scopes: fc.anything(),
            token: fc.anything(),
            key: fc.anything(),
            variables: fc.anything(),
          },
          { requiredKeys: [] },
        )
        .map((value) => JSON.stringify(value, (_key, item) => (typeof item === 'bigint' ? String(item) : item)) ?? ''),
    )
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const answer = await door.fetch(path, { method, headers, body })
        expect(answer.status, body).toBeLessThan(500)
        if (answer.status >= 400) expect(((await answer.json()) as { error: string }).error.length).toBeGreaterThan(10)
      }),
      { numRuns: 150 },
    )
    // As it was.
    expect((await door.fetch('/api/keys', { headers })).status).toBe(200)
  })

  it('of another type than JSON is not read as JSON', async () => {
    const door = await openDoor()
    const answer = await door.fetch('/api/keys', {
      method: 'POST',
      headers: { 'content-type': 'text/plain', ...bearer(await door.key()) },
      body: JSON.stringify({ name: 'laptop', scopes: ['operator'] }),
    })
    expect(answer.status).toBe(400)
  })
})

describe('an answer', () => {
  it('carries the id of its request: the one that came, where that is harmless, else a new one', async () => {
    const door = await openDoor()
    const id = async (sent?: string) =>
      (await door.fetch('/healthz', { headers: sent === undefined ? {} : { 'x-request-id': sent } })).headers.get(
        'x-request-id',
      )
    expect(await id('run-17')).toBe('run-17')
    for (const sent of [undefined, 'a b', 'x'.repeat(300), '<script>', 'a"b'])
      expect(await id(sent), sent).toMatch(/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/)
  })

  it('tells a failure of ours by its request, and no credential that stood in it', async () => {
    const door = await openDoor()
    const key = await door.key()
    door.access.keys.list = () => Promise.reject(new Error(`broke at ${key} on postgres://lab:hunter2@db/lab`))
    const answer = await door.fetch('/api/keys', { headers: { ...bearer(key), 'x-request-id': 'r1' } })
    expect(answer.status).toBe(500)
    expect(await answer.json()).toEqual({
      error: 'The server failed at GET /api/keys: broke at [redacted] on postgres://[redacted]@db/lab',
      request: 'r1',
    })
    const log = door.lines.join('')
    expect(log).toContain('"request":"r1"')
    expect(log).not.toContain(key)
    expect(log).not.toContain('hunter2')
  })
})
