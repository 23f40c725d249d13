// A run on the page that loses what it stands on: its tab, its graphics process, its place as the one writer. It goes on
// from its newest save with the tokens of a run that nothing happened to.

import type { BrowserContext } from 'playwright-core'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { browser, openPage } from './harness.ts'
import { ended, eventsOf, newestRun, play, playButton, type Stored, untilStep } from './playing.ts'

const QUICK = 'recipe=rl/reverse-text-nano&scheduler.warmup_steps=1&eval.interval=null'
const link = (rest: string) => new URL(`index.html#${QUICK}&${rest}`, inject('devServer')).href

let context: BrowserContext
beforeEach(async () => {
  context = await (await browser()).newContext()
})
afterEach(() => context.close())

const open = async (url: string) => (await openPage(url, context)).page

/** A run that nothing happens to. */
async function unbroken(url: string): Promise<Stored> {
  const page = await open(url)
  await play(page)
  const run = await ended(page)
  await page.close()
  return run
}

/** The same steps once each, and the same tokens in each of them. */
function expectSame(run: Stored, whole: Stored): void {
  const steps = eventsOf(whole, 'step').map(({ step }) => step)
  expect(eventsOf(run, 'step').map(({ step }) => step)).toEqual(steps)
  expect(Object.keys(run.tokens)).toEqual(steps.map(String))
  expect(run.tokens).toEqual(whole.tokens)
}

describe('a run whose tab crashes in the middle of a step', () => {
  it('is offered by the next tab and goes on with the tokens of an unbroken run', async () => {
    const url = link('browser.backend=wasm&max_steps=6&batch_size=32')
    const whole = await unbroken(url)

    const doomed = await open(url)
    await play(doomed)
    await untilStep(doomed, 2)
    await Promise.all([doomed.waitForEvent('crash'), crash(doomed)])
    await doomed.close()

    const next = await open(url)
    const left = (await newestRun(next)) as Stored
    expect(left.summary.run).not.toBe(whole.summary.run)
    expect(left.summary.state).toBe('running')
    await next.getByText('was interrupted at step').waitFor()
    await next.getByRole('button', { name: 'Resume' }).click()
    const run = await ended(next)
    expect(run.summary.run).toBe(left.summary.run)
    expect(run.summary.attempt).toBe(2)
    const [, { description }] = eventsOf(run, 'started')
    expect(description.step).toBeGreaterThanOrEqual(1)
    expect(description.step).toBeLessThan(6)
    expectSame(run, whole)
  })
})

// The compiled engine takes its time in software: to make its kernels, not to run them.
const SMALL = 'batch_size=8&sampling.max_tokens=8&browser.slots=8&lora.target_modules=["q_proj"]'

describe.each([
  ['plain', 'batch_size=16'],
  ['compiled', SMALL],
])('a run on WebGPU, %s, whose device is lost in the middle of a step', (engine, size) => {
  it('says so in a sentence, keeps what was saved, and goes on with the tokens of an unbroken run', async () => {
    const url = link(`browser.backend=webgpu&browser.engine=${engine}&max_steps=3&${size}`)
    const whole = await unbroken(url)

    const page = await open(url)
    await play(page)
    await untilStep(page, 1)
    await (await (await browser()).newBrowserCDPSession()).send('Browser.crashGpuProcess')
    const alert = page.getByRole('alert').filter({ hasText: 'The run stopped.' })
    await alert.waitFor()
    expect(await alert.innerText()).toMatch(/Step [23] failed\. The GPU device was lost.* saved up to step [12]/)
    expect(await alert.innerText()).toMatch(/Nothing that was saved is lost: it can go on after step [12]\./)
    expect((await ended(page, 'failed')).summary.reason).toMatch(/The GPU device was lost/)

    await alert.getByRole('button', { name: 'Resume' }).click()
    await untilStep(page, 3)
    expectSame(await ended(page), whole)
  }, 240_000)
})

describe('a second tab', () => {
  it('that still offers a run which another has taken up is told who writes it, and harms nothing', async () => {
    const url = link('browser.backend=wasm&max_steps=400&batch_size=16')
    const doomed = await open(url)
    await play(doomed)
    await untilStep(doomed, 2)
    await doomed.close()

    // Both saw the run interrupted, and one was quicker.
    const [first, second] = [await open(url), await open(url)]
    for (const page of [first, second]) await page.getByText('was interrupted at step').waitFor()
    await first.getByRole('button', { name: 'Resume' }).click()
    await expect.poll(() => playButton(first).innerText()).toMatch(/Pause/)
    await second.getByRole('button', { name: 'Resume' }).click()
    const alert = second.getByRole('alert').filter({ hasText: 'open for writing in another tab' })
    await alert.waitFor()
    expect(await alert.innerText()).toMatch(/close it there, or go on there/)

    const before = eventsOf((await newestRun(second)) as Stored, 'step').length
    await expect
      .poll(async () => eventsOf((await newestRun(second)) as Stored, 'step').length, { timeout: 20_000 })
      .toBeGreaterThan(before + 1)
    await first.getByRole('button', { name: 'Stop' }).click()
    const run = await ended(first, 'stopped')
    const steps = eventsOf(run, 'step').map(({ step }) => step)
    expect(steps).toEqual(steps.map((_, i) => i + 1))
  })
})

async function crash(page: Awaited<ReturnType<typeof open>>): Promise<void> {
  const session = await context.newCDPSession(page)
  // The answer never comes.
  session.send('Page.crash').catch(() => {})
}
