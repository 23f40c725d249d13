// A run as a user takes it: the page, Play, lab-nano on software WebGPU in its worker, a reload, the list of runs.

import { describe, expect, inject, it } from 'vitest'
import { browser, openPage } from './harness.ts'

const QUICK = 'batch_size=16&scheduler.warmup_steps=0&eval.num_examples=8&eval.interval=2&browser.backend=webgpu'
const page = (rest: string) =>
  new URL(`index.html#recipe=rl/reverse-text-nano&${QUICK}&${rest}`, inject('devServer')).href

describe('a run on the page', () => {
  it('goes from Play to a curve, samples with tokens, and an end; and is there again after a reload', async () => {
    const context = await (await browser()).newContext()
    const { page: tab, errors } = await openPage(page('max_steps=3'), context)
    await tab.getByText('Nothing runs until you press Play').waitFor()
    await tab.locator('h1').click()
    await tab.keyboard.press(' ')
    await tab.getByText('step 3 / 3').waitFor({ timeout: 110_000 })
    await tab.getByRole('button', { name: 'Play' }).first().waitFor()
    // Evaluations before the first step, after the second, and at the end.
    await expect.poll(() => tab.locator('circle.ring').count(), { timeout: 30_000 }).toBe(3)
    expect(await tab.getByRole('listbox').getByRole('option').count()).toBe(8)

    // The group shown first was scored again after the update, so its tokens tell what changed.
    await tab.getByText('tokens by advantage × change in log-prob').waitFor()
    await tab.getByRole('slider', { name: /^Tokens of the answer/ }).focus()
    await tab.keyboard.press('ArrowRight')
    await tab.getByText(/^= \(.*\) ÷ \d+ = /).waitFor()

    await tab.reload()
    await tab.getByRole('button', { name: 'Runs', exact: true }).click()
    await tab.getByText('finished').waitFor()
    await tab.getByRole('button', { name: 'Open' }).click()
    await tab.getByText('step 3 / 3').waitFor()
    await expect.poll(() => tab.locator('circle.ring').count()).toBe(3)
    await expect.poll(() => tab.getByRole('listbox').getByRole('option').count()).toBe(8)

    const download = tab.waitForEvent('download')
    await tab.getByRole('button', { name: 'Runs', exact: true }).click()
    await tab.getByRole('button', { name: 'Adapter' }).click()
    expect((await download).suggestedFilename()).toMatch(/adapter/)
    expect(errors).toEqual([])
  })

  it('offers to resume after a reload in the middle, and goes on from its save', async () => {
    const context = await (await browser()).newContext()
    const { page: tab } = await openPage(page('max_steps=4&eval.interval=4'), context)
    await tab.locator('.drive').getByRole('button', { name: 'Play' }).click()
    await tab.getByText('step 2 / 4').waitFor({ timeout: 110_000 })

    // Meanwhile another tab sees whose it is, and leaves it alone.
    const other = await openPage(page('max_steps=4'), context)
    await other.page.getByRole('button', { name: 'Runs', exact: true }).click()
    await other.page.getByText('in another tab').waitFor()
    expect(await other.page.getByRole('button', { name: 'Resume' }).count()).toBe(0)
    await other.page.close()

    await tab.reload()
    await tab.getByText('was interrupted at step').waitFor()
    await tab.getByRole('button', { name: 'Resume' }).click()
    await tab.getByText('step 4 / 4').waitFor({ timeout: 110_000 })
    // Steps 1 … 4 once each, though the last ones before the reload may have happened twice.
    await tab.getByRole('button', { name: 'All metrics' }).click()
    const download = tab.waitForEvent('download')
    await tab.getByRole('button', { name: 'metrics.jsonl' }).click()
    const stream = await (await download).createReadStream()
    let text = ''
    for await (const piece of stream) text += piece
    const steps = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).step)
    expect(steps).toEqual([1, 2, 3, 4])
  })

  it('trains on the processor where there is no graphics card, once that was agreed to', async () => {
    const quick = 'scheduler.warmup_steps=0&batch_size=16&eval.num_examples=8&max_steps=2'
    const { page: tab, errors } = await openPage(
      new URL(`index.html#recipe=rl/reverse-text-nano&${quick}`, inject('devServer')).href,
    )
    await tab.getByRole('button', { name: 'Train on the processor, slower' }).click()
    await tab.getByText('step 2 / 2').waitFor({ timeout: 110_000 })
    await tab.getByText('this processor · WebAssembly').waitFor()
    expect(errors).toEqual([])
  })

  it('says in a sentence what is wrong with a model that is not there, and can be started again', async () => {
    const { page: tab } = await openPage(page('max_steps=1&model=lab-nona'))
    await tab.locator('.drive').getByRole('button', { name: 'Play' }).click()
    await tab.getByRole('alert').getByText('The run did not start.').waitFor()
    await tab
      .getByRole('alert')
      .getByText(/lab-nona/)
      .waitFor()
    expect(await tab.locator('.drive').getByRole('button', { name: 'Play' }).isEnabled()).toBe(true)
  })
})
