// The page with a server behind it: `npm start` as it is, real runs of lab-nano in its child processes, its own models
// behind its proxy.

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { serveFolder } from '../../bench/serveFolder.mjs'
import { build } from '../../bin/prepare.mjs'
import { PAGE_DIST } from '../../build/paths.ts'
import type { RunView } from '../../server/runs/views.ts'
import { browser, openPage, type Watched } from './harness.ts'
import { playButton, untilStep } from './playing.ts'
import { npmStart, type Started } from './started.ts'

let server: Started
beforeAll(async () => {
  server = await npmStart()
}, 120_000)
afterAll(() => server.interrupt())

const QUICK =
  'recipe=rl/reverse-text-nano&batch_size=16&scheduler.warmup_steps=0&eval.num_examples=8&eval.interval=50&browser.backend=wasm'

let context: BrowserContext
let watched: Watched
/** The page as the printed link opens it; later pages of the same browser are signed in too. */
async function open(rest = ''): Promise<Watched> {
  context ??= await (await browser()).newContext()
  const first = watched === undefined
  const opened = await openPage(`${first ? server.link : server.url}#${QUICK}${rest}`, context)
  if (first) watched = opened
  await opened.page.getByText('Nothing runs until you press Play').waitFor()
  return opened
}

const runs = async () => (await server.api<{ runs: RunView[] }>('runs')).runs
const newest = async () => (await runs())[0]

async function chooseServer(page: Page): Promise<void> {
  await page.getByRole('radio', { name: 'This server' }).click()
  await page.getByRole('complementary', { name: 'The run on the server' }).waitFor()
}

async function playThere(page: Page): Promise<void> {
  await chooseServer(page)
  await expect.poll(() => playButton(page).isEnabled()).toBe(true)
  await playButton(page).click()
}

async function openSheet(page: Page, name: 'Runs' | 'Models', tab: string): Promise<void> {
  await page.getByRole('button', { name, exact: true }).click()
  await page.getByRole('tab', { name: tab }).click()
}

/** The steps that the page holds, from the file that it gives away. */
async function stepsOf(page: Page): Promise<number[]> {
  await page.locator('.tools .device').click()
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download metrics.jsonl' }).click()
  const lines: string[] = []
  for await (const chunk of await (await download).createReadStream()) lines.push(String(chunk))
  await page.getByRole('button', { name: 'Close' }).click()
  return lines
    .join('')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).step)
}

/** The id of the process that computes a run. */
async function processOf(run: string): Promise<number> {
  const jobs = join(server.data, 'local/jobs')
  for (const job of await readdir(jobs)) {
    const read = async (name: string) => JSON.parse(await readFile(join(jobs, job, name), 'utf8'))
    if ((await read('job.json')).run === run) return (await read('process.json')).pid
  }
  throw new Error(`No process computes ${run}.`)
}

const upTo = (last: number) => Array.from({ length: last }, (_, i) => i + 1)

describe('a run on the server', () => {
  it('is begun by Play once the page says what leaves the browser, and looks like one in the tab', async () => {
    const { page, errors, requests } = await open('&max_steps=4')
    expect(page.url()).not.toContain('token')
    await chooseServer(page)
    await page.getByText('go to this server, which computes the whole run').waitFor()
    await page.getByText('4 steps of 16 rollouts').first().waitFor()
    expect(await runs()).toEqual([])
    // What a run on the server cannot do is not offered.
    expect(await page.locator('.drive').getByRole('button', { name: 'Step' }).count()).toBe(0)
    await playThere(page)
    await untilStep(page, 4)
    await expect.poll(async () => (await newest()).state, { timeout: 30_000 }).toBe('succeeded')
    // Held out before the first step and at the end; samples with their tokens, scored again after the update.
    await expect.poll(() => page.locator('circle.ring').count()).toBe(2)
    expect(await page.getByRole('listbox').getByRole('option').count()).toBe(8)
    await page.getByText('tokens by advantage × change in log-prob').waitFor()
    expect(await stepsOf(page)).toEqual(upTo(4))
    // Nothing was computed here.
    expect(requests.filter((url) => /safetensors|\.worker/.test(url))).toEqual([])
    expect(errors).toEqual([])
  })

  it('goes on without the page, and another page follows it from its list', async () => {
    const { page } = await open('&max_steps=12&seed=2')
    await playThere(page)
    await untilStep(page, 1)
    await page.close()
    const { page: second, errors } = await open()
    await openSheet(second, 'Runs', 'On this server')
    const row = second.getByRole('listitem').filter({ hasText: 'of 12' })
    await row.getByText('running').waitFor()
    await row.getByRole('button', { name: 'Open' }).click()
    await untilStep(second, 12)
    await expect.poll(async () => (await newest()).state, { timeout: 30_000 }).toBe('succeeded')
    expect(await stepsOf(second)).toEqual(upTo(12))
    expect(errors).toEqual([])
    await second.close()
  })

  it('survives a server that is killed, and the page catches up without a gap or a repeat', async () => {
    const { page } = await open('&max_steps=20&seed=3')
    await playThere(page)
    await untilStep(page, 2)
    await server.kill()
    await page.getByText('The server is not heard at the moment').waitFor({ timeout: 30_000 })
    const { data, url } = server
    server = await npmStart({ data, port: Number(new URL(url).port) })
    expect(server.url).toBe(url)
    await untilStep(page, 20)
    await expect.poll(async () => (await newest()).state, { timeout: 30_000 }).toBe('succeeded')
    expect(await stepsOf(page)).toEqual(upTo(20))
    await page.close()
  })

  it('is taken up again by the server when its process is killed, and the page shows each step once', async () => {
    const { page } = await open('&max_steps=14&seed=5')
    await playThere(page)
    await untilStep(page, 2)
    process.kill(await processOf((await newest()).id), 'SIGKILL')
    await untilStep(page, 14)
    await expect.poll(async () => (await newest()).state, { timeout: 30_000 }).toBe('succeeded')
    expect((await newest()).attempt).toBe(2)
    expect(await stepsOf(page)).toEqual(upTo(14))
    await page.close()
  })

  it('is stopped with a save, and resumed as the same run', async () => {
    const { page } = await open('&max_steps=60&seed=4')
    await playThere(page)
    await untilStep(page, 2)
    await page.getByRole('button', { name: 'Stop' }).click()
    await expect.poll(async () => (await newest()).state, { timeout: 30_000 }).toBe('cancelled')
    await page.getByText('This run stopped at step').waitFor()
    const stopped = await newest()
    expect(stopped.step).toBeGreaterThanOrEqual(2)
    expect(stopped.step).toBeLessThan(60)
    await page.getByRole('button', { name: 'Resume' }).click()
    await untilStep(page, stopped.step + 2)
    expect(await newest()).toMatchObject({ id: stopped.id, attempt: 2, state: 'running' })
    await page.getByRole('button', { name: 'Stop' }).click()
    await expect.poll(async () => (await newest()).state, { timeout: 30_000 }).toBe('cancelled')
    await page.getByText('This run stopped at step').waitFor()
    const steps = await stepsOf(page)
    expect(steps).toEqual(upTo(steps.length))
    await page.close()
  })
})

describe('what a run has left', () => {
  it('is tried in the tab, over the base model, and no word of it goes to the server', async () => {
    const { page, requests, errors } = await open()
    await openSheet(page, 'Runs', 'On this server')
    const row = page.getByRole('listitem').filter({ hasText: 'of 12' })
    await row.getByRole('button', { name: 'Adapter' }).click()
    await page.getByRole('button', { name: 'Try in this tab' }).click()
    await page.getByText('nothing of the chat leaves it').waitFor()
    expect(await page.getByLabel('System prompt').inputValue()).toBe('Reverse.')
    await page.getByLabel('Message').fill('abcd')
    await page.keyboard.press('Enter')
    await page.getByRole('slider', { name: /^Tokens of the answer/ }).waitFor({ timeout: 60_000 })
    await page.getByText('ended', { exact: true }).waitFor()
    expect(requests.some((url) => url.endsWith('/v1/chat/completions'))).toBe(false)
    expect(errors).toEqual([])
    await page.close()
  })

  it('is served by the nodes, and answers under its name through the same door', async () => {
    const { page, errors } = await open()
    const asked: Record<string, string>[] = []
    page.on('request', (request) => {
      if (request.url().endsWith('/v1/chat/completions'))
        void request.allHeaders().then((headers) => asked.push(headers))
    })
    await openSheet(page, 'Runs', 'On this server')
    await page.getByRole('listitem').filter({ hasText: 'of 12' }).getByRole('button', { name: 'Adapter' }).click()
    await page.getByRole('button', { name: 'Serve on the nodes' }).click()
    const adapter = page.getByRole('list', { name: 'Adapters' }).getByRole('listitem')
    await adapter.getByText('on this-server').waitFor({ timeout: 30_000 })
    await adapter.getByRole('button', { name: 'Chat' }).click()
    await expect
      .poll(() => page.getByRole('combobox', { name: 'Model', exact: true }).locator('option:checked').textContent())
      .toContain('reverse-text-nano · this-server')
    await page.getByLabel('System prompt').fill('Reverse.')
    await page.getByLabel('Message').fill('abcd')
    await page.keyboard.press('Enter')
    await page.getByText('on this-server', { exact: true }).waitFor({ timeout: 60_000 })
    await page.getByText('ended', { exact: true }).waitFor()
    // The browser's cookie says who asks; the page has no key to send.
    await expect.poll(() => asked.length).toBe(1)
    expect(asked[0].authorization).toBeUndefined()
    expect(asked[0].cookie).toBeDefined()
    expect(errors).toEqual([])
    await page.close()
  })

  it('shows the nodes, drains one and takes it back', async () => {
    const { page } = await open()
    await openSheet(page, 'Models', 'Nodes')
    const node = page.getByRole('list', { name: 'Nodes' }).getByRole('listitem').filter({ hasText: 'this-server' })
    await node.getByText(/^up/).waitFor()
    await node.getByText('lab-nano', { exact: true }).waitFor()
    await node.getByRole('button', { name: 'Drain' }).click()
    await node.getByText(/^drained/).waitFor()
    await node.getByRole('button', { name: 'Take back' }).click()
    await node.getByText(/^up/).waitFor()
    await page.close()
  })
})

describe('a page that is not signed in', () => {
  it('trains in the tab, and asks for a key where the server is wanted', async () => {
    const { page, requests } = await openPage(`${server.url}#${QUICK}`)
    await page.getByText('Nothing runs until you press Play').waitFor()
    expect(await playButton(page).isEnabled()).toBe(true)
    await page.getByRole('radio', { name: 'This server' }).click()
    await page.getByRole('form', { name: 'Sign in' }).waitFor()
    expect(await playButton(page).isEnabled()).toBe(false)
    await page.getByLabel('Key').fill('rlk_wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('alert').waitFor()
    expect(requests.some((url) => /\/api\/(runs|targets)|\/v1\//.test(url))).toBe(false)
    const { key } = await server.api<{ key: string }>('keys', {
      method: 'POST',
      body: JSON.stringify({ name: 'reader', scopes: ['runs:read', 'runs:write', 'infer'] }),
    })
    await page.getByLabel('Key').fill(key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('complementary', { name: 'The run on the server' }).waitFor()
    // The key went to the server once; the page keeps nothing of it.
    const kept = await page.evaluate(() => JSON.stringify([localStorage, sessionStorage, document.cookie]))
    expect(kept).not.toContain('rlk_')
    // Nodes are an operator's to drain.
    await openSheet(page, 'Models', 'Nodes')
    await page.getByRole('list', { name: 'Nodes' }).getByText('this-server').waitFor()
    expect(await page.getByRole('button', { name: 'Drain' }).count()).toBe(0)
    await page.context().close()
  })
})

describe('a browser without WebGPU', () => {
  it('is offered the server, and nothing is sent before Play', async () => {
    const own = await (await browser()).newContext()
    await own.addInitScript(() => Object.defineProperty(navigator, 'gpu', { value: undefined }))
    await own.addCookies(await context.cookies())
    const { page } = await openPage(`${server.url}#${QUICK.replace('&browser.backend=wasm', '')}`, own)
    const before = (await runs()).length
    await page.getByText('This browser offers no WebGPU').waitFor()
    // Play alone takes neither the slow way nor the server.
    await playButton(page).click()
    await page.getByRole('alert').getByText('This browser offers no WebGPU').waitFor()
    await page.getByRole('button', { name: 'On this server instead' }).click()
    await page.getByText('go to this server, which computes the whole run').waitFor()
    expect(await runs()).toHaveLength(before)
    await own.close()
  })
})

describe('a static folder', () => {
  it('knows of no server', async () => {
    await build(['web'])
    const folder = await serveFolder(PAGE_DIST, { under: '/lab/', isolated: false })
    const { page, requests, errors } = await openPage(`${folder.url}#${QUICK}`)
    await page.getByText('Nothing runs until you press Play').waitFor()
    await page.waitForLoadState('networkidle')
    expect(await page.getByRole('radio').count()).toBe(0)
    expect(await page.getByRole('button', { name: 'Models', exact: true }).count()).toBe(0)
    expect(requests.filter((url) => /\/api\/|\/v1\//.test(url))).toEqual([])
    expect(errors).toEqual([])
    await page.context().close()
    await folder.close()
  })
})

describe.each([360, 820, 1024, 1480])('a window %i wide', (width) => {
  it('is wide enough for the server too', async () => {
    const { page } = await open()
    await page.setViewportSize({ width, height: 800 })
    await chooseServer(page)
    const overhang = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    await expect.poll(overhang).toBeLessThanOrEqual(0)
    await openSheet(page, 'Models', 'Nodes')
    await expect.poll(overhang).toBeLessThanOrEqual(0)
    const beyond = await page.locator('dialog[open] .content').evaluate((box) => box.scrollWidth - box.clientWidth)
    expect(beyond).toBeLessThanOrEqual(0)
    await page.close()
  })
})
