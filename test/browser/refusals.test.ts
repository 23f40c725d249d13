// What a run needs and does not find: weights that are whole, a device. A sentence on the page says so, what was kept
// before stays, and the next Play works.

import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type FolderServer, serveFolder } from '../../bench/serveFolder.mjs'
import { build } from '../../bin/prepare.mjs'
import { PAGE_DIST, ROOT } from '../../build/paths.ts'
import { browserWithoutAdapter, openPage } from './harness.ts'
import { ended, eventsOf, newestRun, play, playButton } from './playing.ts'

const QUICK = '#recipe=rl/reverse-text-nano&max_steps=1&batch_size=16&scheduler.warmup_steps=0&eval.num_examples=8'
const WEIGHTS = join(ROOT, 'models/lab-nano/model.safetensors')

let folder: string
let server: FolderServer
beforeAll(async () => {
  await build(['web'])
  // The page as it is handed out, with models of its reader's own beside it.
  folder = await mkdtemp(join(tmpdir(), 'rollout-lab-models-'))
  for (const name of ['index.html', 'assets', 'configs', 'wasm'])
    await symlink(join(PAGE_DIST, name), join(folder, name))
  const whole = await readFile(WEIGHTS)
  await model('lab-nano', whole)
  await model('cut-off', whole.subarray(0, whole.length - 5000))
  await model('cut-in-the-header', whole.subarray(0, 500))
  await model('without-a-norm', withoutTensor(whole, 'model.norm.weight'))
  await model('an-answer-of-a-proxy', Buffer.from('{"error": "too many requests, come back in a while"}'))
  server = await serveFolder(folder, { under: '/lab/', isolated: false })
}, 120_000)
afterAll(async () => {
  await server.close()
  await rm(folder, { recursive: true })
})

async function model(name: string, weights: Buffer): Promise<void> {
  const target = join(folder, 'models', name)
  await mkdir(join(folder, 'models'), { recursive: true })
  await cp(join(ROOT, 'models/lab-nano'), target, { recursive: true })
  await writeFile(join(target, 'model.safetensors'), weights)
}

/** The same file with one tensor's entry renamed: as long as before, and nothing by that name in it. */
function withoutTensor(file: Buffer, name: string): Buffer {
  const text = file.toString('latin1')
  expect(text).toContain(`"${name}"`)
  return Buffer.from(text.replace(`"${name}"`, `"${name.replace(/.$/, '_')}"`), 'latin1')
}

const refusal = (page: Page) => page.getByRole('alert').filter({ hasText: 'The run did not start.' })

describe('a model folder whose weights are not whole', () => {
  it('is refused in a sentence each; the run kept before stays, and the next one trains', async () => {
    const { page, errors } = await openPage(`${server.url}${QUICK}&browser.backend=wasm`)
    await play(page)
    const kept = await ended(page)

    for (const [name, sentence] of [
      [
        'cut-off',
        /model\.safetensors: the tensor \S+ needs \d+ bytes, \d+ came: the file is cut off; download it again/,
      ],
      ['cut-in-the-header', /model\.safetensors: its safetensors header of \d+ bytes is cut off or broken; download/],
      ['without-a-norm', /without-a-norm: the tensor model\.norm\.weight of shape \[\d+\] is missing from its weights/],
      ['an-answer-of-a-proxy', /model\.safetensors: it does not begin with a safetensors header/],
      ['not-there', /model not-there: it is not beside this page/],
    ] as const) {
      await page.goto(`${server.url}${QUICK}&browser.backend=wasm&model=${name}`)
      await page.reload()
      await play(page)
      await refusal(page).waitFor()
      expect(await refusal(page).innerText(), name).toMatch(sentence)
      expect(await playButton(page).isEnabled(), name).toBe(true)
      // No half run is left behind.
      expect((await newestRun(page))?.summary, name).toEqual(kept.summary)
    }
    expect(errors.filter((error) => !error.includes('404'))).toEqual([])

    await page.goto(`${server.url}${QUICK}&browser.backend=wasm&seed=2`)
    await page.reload()
    await play(page)
    await refusal(page).waitFor({ state: 'detached' })
    await expect.poll(async () => (await newestRun(page))?.summary.run).not.toBe(kept.summary.run)
    expect(eventsOf(await ended(page), 'step').length).toBe(1)
    await page.context().close()
  })
})

describe('a browser that has no adapter for WebGPU', () => {
  let context: BrowserContext
  beforeAll(async () => {
    context = await (await browserWithoutAdapter()).newContext()
  })

  it('refuses a run that names WebGPU, in a sentence, and trains the slower way once that is agreed to', async () => {
    const { page, errors } = await openPage(`${server.url}${QUICK}&browser.backend=webgpu`, context)
    expect(await page.evaluate(async () => navigator.gpu.requestAdapter())).toBeNull()
    await play(page)
    await refusal(page).waitFor()
    expect(await refusal(page).innerText()).toMatch(/Opened no device to compute on\. Tried webgpu: .* no adapter/)
    expect(await newestRun(page)).toBeNull()

    // Left to choose, the page asks first.
    await page.goto(server.url + QUICK)
    await page.reload()
    await play(page)
    await page.getByRole('alert').getByText('it offers no graphics adapter').waitFor()
    expect(await newestRun(page)).toBeNull()
    await page.getByRole('button', { name: 'Train on the processor, slower' }).click()
    const run = await ended(page)
    expect(['wasm', 'webgl']).toContain(eventsOf(run, 'started')[0].description.device.backend)
    expect(eventsOf(run, 'step').length).toBe(1)
    expect(errors).toEqual([])
  })

  it('hears over an insecure address that the address is the reason, and what to open instead', async () => {
    const insecure = new URL(server.url)
    insecure.hostname = 'lab.example'
    const { page } = await openPage(insecure.href + QUICK, context)
    expect(await page.evaluate(() => [isSecureContext, 'gpu' in navigator])).toEqual([false, false])
    const notice = page.getByRole('complementary', { name: 'No fast device' }).or(page.getByRole('alert')).first()
    await notice.getByText('This page came over an insecure address').waitFor()
    await notice.getByText(`http://localhost:${insecure.port}`).waitFor()
    await play(page)
    await page.getByRole('alert').getByText('This page came over an insecure address').waitFor()
    expect(await newestRun(page)).toBeNull()
  })
})
