// Health, metrics, and the description of the API.

import { describe, expect, it } from 'vitest'
import { ROOT } from '../../../build/paths.ts'
import { OPERATIONS } from '../../../server/description/operations.ts'
import { serve } from '../../../server/main.ts'
import { openDoor } from '../access/door.ts'
import { temporary } from './temporary.ts'

describe('/readyz', () => {
  it('is ready while every part is, and says which is not', async () => {
    const door = await openDoor()
    let broken = false
    door.health.add('store', () => {
      if (broken) throw new Error('canary: the password is wrong')
    })
    const read = async () => {
      const answer = await door.fetch('/readyz')
      return [answer.status, await answer.json()]
    }
    expect(await read()).toEqual([200, { ready: true, parts: { store: 'ok' } }])
    broken = true
    expect(await read()).toEqual([503, { ready: false, parts: { store: 'failed' } }])
    expect(door.lines.join('')).toContain('the password is wrong')
    broken = false
    door.health.stop()
    expect(await read()).toEqual([503, { ready: false, parts: { store: 'ok', server: 'failed' } }])
    expect((await door.fetch('/healthz')).status).toBe(200)
  })
})

describe('/metrics', () => {
  it('counts by pattern: no path, no name, no text of anybody’s becomes a label', async () => {
    const door = await openDoor()
    for (let i = 0; i < 20; i++) await door.fetch(`/api/keys/canary-${i}`, { method: 'DELETE' })
    await door.fetch('/canary')
    await door.fetch('/api/canary')
    await door.fetch('/api/session', { method: 'CANARY' })
    const answer = await door.fetch('/metrics')
    expect(answer.headers.get('content-type')).toContain('text/plain')
    const text = await answer.text()
    expect(text).toContain('rollout_lab_http_requests_total{method="DELETE",route="/api/keys/:name",status="401"} 20')
    expect(text).toContain('rollout_lab_http_requests_total{method="GET",route="nothing",status="404"} 2')
    expect(text).toContain('rollout_lab_process_resident_memory_bytes')
    expect(text.toLowerCase()).not.toContain('canary')
  })
})

describe('the description', () => {
  it('is of every route, and of none that is not there', async () => {
    const data = temporary()
    const server = await serve({ webRoot: data, port: 0, runs: { root: ROOT, data, local: null } })
    const document = (await (await fetch(`${server.url}api/openapi.json`)).json()) as {
      openapi: string
      paths: Record<string, Record<string, { summary?: string; tags?: string[]; requestBody?: object }>>
    }
    const page = await (await fetch(`${server.url}api/docs`)).text()
    await server.close()
    expect(document.openapi).toMatch(/^3\.1/)
    const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, ...operation })),
    )
    for (const { name, summary, tags } of routes)
      expect([name, summary, tags?.length], name).toEqual([name, expect.any(String), 1])
    const names = routes.map(({ name }) => name)
    expect(Object.keys(OPERATIONS).filter((name) => !names.includes(name))).toEqual([])
    expect(names).toContain('POST /api/runs')
    for (const { summary } of routes) expect(page).toContain(summary!.replaceAll("'", '&#39;'))
    // It loads nothing from anywhere.
    expect(page).not.toMatch(/<(script|link|img)\b|https?:\/\//)
  })

  it('has the schemas that check bodies', async () => {
    const door = await openDoor()
    const { paths } = (await (await door.fetch('/api/openapi.json')).json()) as {
      paths: Record<string, Record<string, { requestBody: { content: Record<string, { schema: object }> } }>>
    }
    expect(paths['/api/keys'].post.requestBody.content['application/json'].schema).toMatchObject({
      type: 'object',
      required: expect.arrayContaining(['name', 'scopes']),
      additionalProperties: false,
    })
  })
})
