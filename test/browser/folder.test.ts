// The page as it is handed out: from `npm start`, and from a folder under any path of any file server.

import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type FolderServer, serveFolder } from '../../bench/serveFolder.mjs'
import { build } from '../../bin/prepare.mjs'
import { PAGE_DIST } from '../../build/paths.ts'
import type { Listing } from '../../build/staticFiles.ts'
import { openPage } from './harness.ts'
import { ended, eventsOf, play } from './playing.ts'
import { npmStart, type Started } from './started.ts'

/** Until the page shows something and asks for nothing more, or some seconds have passed: its errors say the rest. */
async function shown(page: Page): Promise<void> {
  await page.waitForSelector('#app > *', { timeout: 10_000 }).catch(() => {})
  await page.waitForLoadState('networkidle')
}

describe('the static folder under a sub-path of a plain file server', () => {
  let server: FolderServer
  beforeAll(async () => {
    await build(['web'])
    server = await serveFolder(PAGE_DIST, { under: '/some/where/', isolated: false })
  }, 120_000)
  afterAll(() => server.close())

  it('loads without an error, a missing file or a request beyond its path', async () => {
    const { page, errors, requests } = await openPage(server.url)
    await shown(page)
    expect(errors).toEqual([])
    expect(await page.title()).toBe('Rollout Lab')
    expect(await page.locator('#app > *').count()).toBeGreaterThan(0)
    expect(server.missed).toEqual([])
    expect(requests.filter((url) => !url.startsWith(server.url) && !/^(data|blob):/.test(url))).toEqual([])
    await page.context().close()
  })

  it('trains, with no server of ours and without a request beyond its path', async () => {
    const config = 'recipe=rl/reverse-text-nano&max_steps=2&scheduler.warmup_steps=0&eval.num_examples=16'
    const { page, errors, requests } = await openPage(`${server.url}#${config}&browser.backend=wasm`)
    await play(page)
    const run = await ended(page)
    expect(eventsOf(run, 'started')[0].description.device.backend).toBe('wasm')
    expect(eventsOf(run, 'step').map(({ step, learned }) => [step, learned])).toEqual([
      [1, true],
      [2, true],
    ])
    expect(errors).toEqual([])
    expect(requests.some((url) => url.endsWith('models/lab-nano/model.safetensors'))).toBe(true)
    expect(requests.filter((url) => !url.startsWith(server.url) && !/^(data|blob):/.test(url))).toEqual([])
    await page.context().close()
  })

  it.each(['models', 'configs'])(
    'lists its %s with their sizes, so that parts of a file can be asked for',
    async (kind) => {
      const listing = (await (await fetch(new URL(`${kind}/files.json`, server.url))).json()) as Listing
      expect(Object.keys(listing).length).toBeGreaterThan(0)
      for (const [folder, files] of Object.entries(listing)) {
        for (const [name, { bytes }] of Object.entries(files)) {
          const body = await (await fetch(new URL(`${kind}/${folder}/${name}`, server.url))).arrayBuffer()
          expect(body.byteLength, `${folder}/${name}`).toBe(bytes)
        }
      }
    },
  )

  it('holds the binaries of the wasm backend', async () => {
    for (const name of ['', '-simd', '-threaded-simd']) {
      const response = await fetch(new URL(`wasm/tfjs-backend-wasm${name}.wasm`, server.url))
      const head = new Uint8Array(await response.arrayBuffer()).subarray(0, 4)
      expect([...head]).toEqual([0x00, 0x61, 0x73, 0x6d]) // "\0asm"
    }
  })
})

describe('npm start', () => {
  let started: Started
  beforeAll(async () => {
    started = await npmStart()
  }, 120_000)
  afterAll(() => started.interrupt())

  it('serves a page that is isolated across origins and asks nobody else for anything', async () => {
    const { page, errors, requests } = await openPage(started.url)
    await shown(page)
    expect(errors).toEqual([])
    expect(await page.evaluate('crossOriginIsolated')).toBe(true)
    expect(await page.locator('#app > *').count()).toBeGreaterThan(0)
    expect(requests.filter((url) => !url.startsWith(started.url) && !/^(data|blob):/.test(url))).toEqual([])
    await page.context().close()
  })

  it('serves the API on the same port', async () => {
    expect((await fetch(new URL('api/health', started.url))).status).toBe(200)
  })

  it('ends at Ctrl-C with code 0', async () => {
    const other = await npmStart()
    expect(await other.interrupt()).toBe(0)
  })
})
