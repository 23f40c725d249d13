// Models of a hub and the room they take, as a person at the page meets them: a loopback hub that holds lab-nano, real
// workers, real storage.

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it, onTestFinished } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { type HostedModel, type HubServer, startHub } from '../hub/hubServer.ts'
import { browser, openPage } from './harness.ts'
import { ended, newestRun, play, playButton, untilStep } from './playing.ts'

const NANO = 'someone/nano'
const QUICK =
  'batch_size=8&rollouts_per_example=4&scheduler.warmup_steps=0&eval.num_examples=4&eval.interval=50&browser.backend=wasm'

let hub: HubServer
let nano: HostedModel
beforeAll(async () => {
  const folder = join(ROOT, 'models/lab-nano')
  const files: Record<string, Uint8Array> = {}
  for (const name of [
    'config.json',
    'generation_config.json',
    'tokenizer.json',
    'tokenizer_config.json',
    'model.safetensors',
  ])
    files[name] = new Uint8Array(await readFile(join(folder, name)))
  nano = { files }
})
beforeEach(async () => {
  await hub?.close()
  hub = await startHub({ [NANO]: { ...nano } })
})
afterAll(() => hub?.close())

const address = (rest = 'max_steps=2', model = NANO) =>
  new URL(
    `index.html#recipe=rl/reverse-text-nano&model=${model}&browser.hub=${encodeURIComponent(hub.base)}&${QUICK}&${rest}`,
    inject('devServer'),
  ).href

const storage = (tab: Page) => tab.getByRole('dialog', { name: 'Storage in this browser' })
const openStorage = async (tab: Page) => {
  await tab.getByRole('button', { name: 'models, runs and room' }).click()
  await storage(tab).waitFor()
}
/** Pictures to look at, into the folder that SHOTS names. */
const shot = async (tab: Page, name: string) => {
  if (!process.env.SHOTS) return
  const size = tab.viewportSize()!
  for (const [kind, width] of [
    ['light', size.width],
    ['dark', size.width],
    ['phone', 390],
  ] as const) {
    await tab.emulateMedia({ colorScheme: kind === 'dark' ? 'dark' : 'light' })
    await tab.setViewportSize({ width, height: 800 })
    await tab.waitForTimeout(150)
    await tab.screenshot({ path: join(process.env.SHOTS, `${name}-${kind}.png`) })
  }
  await tab.emulateMedia({ colorScheme: 'light' })
  await tab.setViewportSize(size)
}

describe('a model of a hub, on the page', () => {
  it('is fetched at Play, told of while it comes, resumed after a reload, trained, listed and deleted', async () => {
    const context = await (await browser()).newContext()
    const { page: tab, requests } = await openPage(address(), context)
    // Nobody is asked for anything before Play.
    await tab.getByText('Nothing runs until you press Play').waitFor()
    expect(requests.filter((url) => url.startsWith(hub.base))).toEqual([])
    Object.assign(hub.faults, { hang: { path: 'model.safetensors', after: 120_000, times: 1 } })
    await playButton(tab).click()
    const notice = tab.getByRole('complementary', { name: 'Model on its way' })
    await notice.getByText('120 kB of 234 kB').waitFor({ timeout: 60_000 })
    await shot(tab, 'fetching')

    await tab.reload()
    await play(tab)
    await ended(tab, 'finished')
    const fetched = hub.asked.filter(({ server, path }) => server === 'cdn' && path.endsWith('.safetensors'))
    expect(fetched.map(({ range }) => range)).toEqual([null, 'bytes=120000-'])

    await openStorage(tab)
    const row = storage(tab)
      .getByRole('listitem')
      .filter({ hasText: new URL(hub.base).host })
    await row.getByText(NANO).waitFor()
    expect(await row.getByText('chosen').count()).toBe(1)
    await storage(tab).getByText('Qwen3 0.6B').waitFor()
    await storage(tab)
      .getByText(/kB used of|MB used of/)
      .waitFor()
    await shot(tab, 'storage')
    await storage(tab).getByRole('button', { name: /save/ }).first().click()
    await storage(tab).getByText('Newest save, after step 2').waitFor()
    await storage(tab).getByText('Checkpoint of step 2').waitFor()
    await shot(tab, 'storage-saves')

    await row.getByRole('button', { name: 'Delete' }).click()
    await row.getByRole('button', { name: /Delete .* for good/ }).click()
    await expect.poll(() => row.count()).toBe(0)
    await storage(tab).getByRole('button', { name: 'Delete' }).last().click()
    await storage(tab)
      .getByRole('button', { name: /Delete .* for good/ })
      .click()
    await expect.poll(() => storage(tab).getByText('Checkpoint of step 2').count()).toBe(0)
    await storage(tab).getByRole('button', { name: 'Delete' }).last().click()
    await storage(tab)
      .getByRole('button', { name: /Delete .* for good/ })
      .click()
    await storage(tab).getByText('No run yet.').waitFor()
    expect(await newestRun(tab)).toBeNull()
    await context.close()
  })

  it('that is gated opens the place for a token, and comes once it is given', async () => {
    Object.assign(hub.models[NANO], { token: 'hf_right' })
    const { page: tab } = await openPage(address('max_steps=1'))
    await play(tab)
    await storage(tab).waitFor({ timeout: 60_000 })
    expect(
      await tab
        .getByText(/it asks for a token \(401\)/)
        .first()
        .textContent(),
    ).toContain(NANO)
    await storage(tab)
      .getByLabel(/^Token for gated models of/)
      .fill('hf_right')
    await shot(tab, 'token')
    await storage(tab).getByRole('button', { name: 'Keep' }).click()
    await storage(tab).getByText('is kept in this browser alone').waitFor()
    await tab.keyboard.press('Escape')
    await playButton(tab).click()
    const run = await ended(tab, 'finished')
    // What is kept of the run knows nothing of it.
    expect(JSON.stringify(run)).not.toContain('hf_right')
    expect(tab.url()).not.toContain('hf_right')
    await tab.context().close()
  })
})

describe('a full browser', () => {
  it('pauses the run with its state in memory, offers it for download, and goes on when there is room', async () => {
    const context = await (await browser()).newContext()
    const { page: tab } = await openPage(address('max_steps=12', 'lab-nano'), context)
    await play(tab)
    await untilStep(tab, 1)
    const session = await context.newCDPSession(tab)
    const { origin } = new URL(tab.url())
    const { usage } = await session.send('Storage.getUsageAndQuota', { origin })
    await session.send('Storage.overrideQuotaForOrigin', { origin, quotaSize: usage })
    await storage(tab).waitFor({ timeout: 60_000 })
    await storage(tab)
      .getByText(/There is no room for the save of step \d+\./)
      .waitFor()
    await shot(tab, 'full')
    const download = tab.waitForEvent('download')
    await storage(tab)
      .getByRole('button', { name: /^Download the state of step/ })
      .click()
    const file = await download
    expect(file.suggestedFilename()).toMatch(/-step_\d+\.save$/)
    const folder = await mkdtemp(join(tmpdir(), 'save-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const path = join(folder, file.suggestedFilename())
    await file.saveAs(path)

    // With room the same run goes on in this tab; here the tab is lost instead, and the file brings the run back.
    await session.send('Storage.overrideQuotaForOrigin', { origin })
    const step = Number(/step_(\d+)/.exec(path)![1])
    await tab.close()
    const { page: next } = await openPage(address('max_steps=12', 'lab-nano'), context)
    await openStorage(next)
    await next.locator('input[accept=".save"]').setInputFiles(path)
    await expect.poll(async () => (await newestRun(next))?.summary.step, { timeout: 20_000 }).toBe(step)
    await next.getByRole('complementary', { name: 'Stopped run' }).getByRole('button', { name: 'Resume' }).click()
    await untilStep(next, 12)
    expect((await ended(next, 'finished')).summary.step).toBe(12)
    await context.close()
  })
})

describe('a model folder', () => {
  it('that is given to the page becomes the config’s model, and trains', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'nano-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    for (const [name, bytes] of Object.entries(nano.files)) await writeFile(join(folder, name), bytes)
    const { page: tab } = await openPage(address('max_steps=1'))
    await openStorage(tab)
    await tab.locator('input[webkitdirectory]').setInputFiles(folder)
    await storage(tab).getByText('dropped here').waitFor()
    await tab.keyboard.press('Escape')
    const model = `dropped:${folder.split('/').at(-1)}`
    await expect.poll(() => tab.getByRole('textbox', { name: /^Model/ }).inputValue()).toBe(model)
    await playButton(tab).click()
    expect((await ended(tab, 'finished')).summary.config.model).toBe(model)
    expect(hub.asked).toEqual([])
    await tab.context().close()
  })
})

describe('files dropped anywhere on the page', () => {
  it('are taken as a model, or said to be none', async () => {
    const { page: tab } = await openPage(address('max_steps=1'))
    await tab.getByText('Nothing runs until you press Play').waitFor()
    const drag = (type: 'dragover' | 'drop', files: [string, number[]][]) =>
      tab.evaluate(
        ([type, files]) => {
          const dataTransfer = new DataTransfer()
          for (const [name, bytes] of files) dataTransfer.items.add(new File([Uint8Array.from(bytes)], name))
          window.dispatchEvent(new DragEvent(type, { dataTransfer, cancelable: true }))
        },
        [type, files] as const,
      )
    const whole = Object.entries(nano.files).map(([name, bytes]): [string, number[]] => [name, [...bytes]])
    await drag('dragover', whole.slice(0, 1))
    await tab.getByText('Drop a model folder:').waitFor()
    await drag('drop', [['notes.txt', [1]]])
    await storage(tab)
      .getByText(/The folder model is not a model: .* found notes\.txt/)
      .waitFor()
    expect(await tab.getByText('Drop a model folder:').count()).toBe(0)
    await drag('drop', whole)
    await storage(tab).getByText('dropped here').waitFor()
    await tab.keyboard.press('Escape')
    await expect.poll(() => tab.getByRole('textbox', { name: /^Model/ }).inputValue()).toBe('dropped:model')
    await tab.context().close()
  })
})

describe('a run that cannot fit', () => {
  it('is told so before anything is fetched, with a button for what would make it fit', async () => {
    const { page: tab, requests } = await openPage(
      address('browser.memory_gb=2&micro_batch_size=8', 'HuggingFaceTB/SmolLM2-135M-Instruct'),
    )
    const refusal = tab.getByRole('alert').filter({ hasText: 'may be used' })
    await refusal.waitFor()
    await shot(tab, 'misfit')
    await refusal.getByRole('button', { name: 'Set it so' }).click()
    await expect.poll(() => refusal.count()).toBe(0)
    await tab.getByText(/^about .* at most$/).waitFor()
    // Of a model that nobody knows the numbers are asked for on a click.
    await openPage(address('max_steps=1')).then(async ({ page: other }) => {
      await other.getByRole('button', { name: 'estimate' }).click()
      await other.getByText(/^about .* at most$/).waitFor()
      expect(hub.asked.map(({ path }) => path).some((path) => path.endsWith('/config.json'))).toBe(true)
      expect(hub.asked.some(({ path }) => path.endsWith('.safetensors'))).toBe(false)
      await other.context().close()
    })
    expect(requests.filter((url) => !url.startsWith(inject('devServer')))).toEqual([])
    await tab.context().close()
  })
})
