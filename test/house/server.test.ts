// The server's skeleton: static files, headers, ranges, and whom it answers.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { createApp } from '../../server/app.ts'
import { serve } from '../../server/main.ts'

const webRoot = mkdtempSync(join(tmpdir(), 'rollout-lab-web-'))
mkdirSync(join(webRoot, 'assets'))
mkdirSync(join(webRoot, 'models/lab'), { recursive: true })
writeFileSync(join(webRoot, 'index.html'), '<!doctype html><title>Page</title>')
writeFileSync(join(webRoot, 'assets/main-0a1b2c.js'), 'export {}')
writeFileSync(join(webRoot, 'assets/kernels.wasm'), new Uint8Array([0, 97, 115, 109]))
// Byte i of the model is i.
writeFileSync(
  join(webRoot, 'models/lab/model.safetensors'),
  Uint8Array.from({ length: 100 }, (_, i) => i),
)
writeFileSync(join(tmpdir(), 'rollout-lab-secret.txt'), 'secret')
afterAll(() => {
  rmSync(webRoot, { recursive: true })
  rmSync(join(tmpdir(), 'rollout-lab-secret.txt'))
})

const app = createApp({ webRoot })
const get = (path: string, headers: Record<string, string> = {}) =>
  app.request(`http://127.0.0.1:5173${path}`, { headers })

describe('the page as static files', () => {
  it('is isolated across origins, and so is every other answer', async () => {
    for (const path of ['/', '/api/health', '/assets/main-0a1b2c.js', '/nothing-here']) {
      const { headers } = await get(path)
      expect(headers.get('cross-origin-opener-policy'), path).toBe('same-origin')
      expect(headers.get('cross-origin-embedder-policy'), path).toBe('require-corp')
      expect(headers.get('x-content-type-options'), path).toBe('nosniff')
      expect(headers.get('content-security-policy'), path).toBe("frame-ancestors 'none'")
      expect(headers.get('referrer-policy'), path).toBe('no-referrer')
    }
  })

  it.each([
    ['/', 'text/html; charset=utf-8'],
    ['/assets/main-0a1b2c.js', 'text/javascript; charset=utf-8'],
    ['/assets/kernels.wasm', 'application/wasm'],
    ['/models/lab/model.safetensors', 'application/octet-stream'],
  ])('has the right type at %s', async (path, type) => {
    const response = await get(path)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe(type)
  })

  it('may be kept for ever where the name is a digest, and is asked for again elsewhere', async () => {
    expect((await get('/assets/main-0a1b2c.js')).headers.get('cache-control')).toContain('immutable')
    expect((await get('/')).headers.get('cache-control')).toBe('no-cache')
    expect((await get('/models/lab/model.safetensors')).headers.get('cache-control')).toBe('no-cache')
  })

  it.each([
    ['bytes=10-13', [10, 11, 12, 13], 'bytes 10-13/100'],
    ['bytes=98-', [98, 99], 'bytes 98-99/100'],
    ['bytes=-3', [97, 98, 99], 'bytes 97-99/100'],
    ['bytes=97-500', [97, 98, 99], 'bytes 97-99/100'],
  ])('gives the range %s of a model', async (range, bytes, contentRange) => {
    const response = await get('/models/lab/model.safetensors', { range })
    expect(response.status).toBe(206)
    expect(response.headers.get('content-range')).toBe(contentRange)
    expect([...new Uint8Array(await response.arrayBuffer())]).toEqual(bytes)
  })

  it('refuses a range beyond the end, and says where the end is', async () => {
    const response = await get('/models/lab/model.safetensors', { range: 'bytes=100-' })
    expect(response.status).toBe(416)
    expect(response.headers.get('content-range')).toBe('bytes */100')
  })

  it('says that bytes may be asked for by range', async () => {
    expect((await get('/models/lab/model.safetensors')).headers.get('accept-ranges')).toBe('bytes')
  })

  it.each([
    '/../rollout-lab-secret.txt',
    '/%2e%2e/rollout-lab-secret.txt',
    '/..%2frollout-lab-secret.txt',
    '/assets/..%5c..%5c..%5crollout-lab-secret.txt',
    '//rollout-lab-secret.txt',
  ])('never leaves its folder: %s', async (path) => {
    const response = await get(path)
    expect(response.status).toBe(404)
    expect(await response.text()).not.toContain('secret\n')
  })

  it('says in a sentence that there is nothing at a path', async () => {
    const page = await get('/nothing-here')
    expect([page.status, await page.text()]).toEqual([404, 'There is nothing at /nothing-here here.\n'])
    const api = await get('/api/nothing-here')
    expect([api.status, await api.json()]).toEqual([404, { error: 'There is nothing at /api/nothing-here here.' }])
  })
})

describe('whom the server answers', () => {
  it.each(['localhost:5173', '127.0.0.1:5173', '127.0.0.1', '[::1]:80', 'LOCALHOST', 'lab.localhost:5173'])(
    'answers a request for %s',
    async (host) => {
      expect((await get('/api/health', { host })).status).toBe(200)
    },
  )

  // A name that its owner points to 127.0.0.1 is how a page elsewhere would read this server (DNS rebinding).
  it.each(['evil.example', 'evil.example:5173', '127.0.0.1.evil.example', 'localhost.evil.example', '10.0.0.1:5173'])(
    'refuses a request for %s, static files included',
    async (host) => {
      for (const path of ['/api/health', '/']) {
        const response = await get(path, { host })
        expect(response.status).toBe(421)
        expect(((await response.json()) as { error: string }).error).toContain(host)
      }
    },
  )
})

describe('the port', () => {
  it('is the next free one when the asked-for one is taken, on 127.0.0.1 alone', async () => {
    const first = await serve({ webRoot, port: 0 })
    const taken = Number(new URL(first.url).port)
    const second = await serve({ webRoot, port: taken })
    expect(first.url).toBe(`http://127.0.0.1:${taken}/`)
    expect(Number(new URL(second.url).port)).toBeGreaterThan(taken)
    expect(await (await fetch(new URL('/api/health', second.url))).json()).toEqual({
      status: 'ok',
      name: 'rollout-lab',
    })
    await Promise.all([first.close(), second.close()])
    await expect(fetch(first.url)).rejects.toThrow()
  })

  it('carries a raw path over the wire no further than a parsed one', async () => {
    const server = await serve({ webRoot, port: 0 })
    const status = await new Promise((resolve, reject) => {
      const { hostname, port } = new URL(server.url)
      request({ hostname, port, path: '/../rollout-lab-secret.txt' }, (response) => resolve(response.statusCode))
        .on('error', reject)
        .end()
    })
    expect(status).toBe(404)
    await server.close()
  })
})
