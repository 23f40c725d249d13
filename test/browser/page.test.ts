// The page itself, in a real Chromium: what it shows, what it refuses, and what it leaves alone until a click. The
// trainer behind `simulated.html` is a stand-in that only tells events; the real one is in run.test.ts.

import type { Page } from 'playwright-core'
import { describe, expect, inject, it } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { browser, openPage, type Watched } from './harness.ts'

const page = (fragment = '') => new URL(`index.html${fragment}`, inject('devServer')).href
const simulated = (query: string) =>
  new URL(`/@fs${ROOT}/test/browser/fixtures/simulated.html?${query}`, inject('devServer')).href

/** A context in which the page meets another browser than it is. */
async function contextWith(script: () => void) {
  const context = await (await browser()).newContext()
  await context.addInitScript(script)
  return context
}

/** The stand-in for a graphics adapter, so that Play asks for no consent. */
function pretendAdapter() {
  Object.defineProperty(navigator, 'gpu', {
    value: {
      requestAdapter: async () => ({
        info: { vendor: 'acme', architecture: 'one', description: 'Acme One', device: '' },
        features: new Set(['shader-f16']),
        limits: { maxBufferSize: 2 ** 31 },
      }),
    },
  })
}

async function openSimulated(query = 'pace=0'): Promise<Watched> {
  const watched = await openPage(simulated(query), await contextWith(pretendAdapter))
  await watched.page.getByText('Acme One').waitFor()
  return watched
}

/** A knob of the form; one that differs from its recipe says so in its name. */
const field = ({ page }: Watched, name: string) =>
  page.getByRole('textbox', { name: new RegExp(`^${name}( \\(changed\\))?$`) })

async function openToml({ page }: Watched) {
  await page.getByRole('tab', { name: 'TOML' }).click()
  const editor = page.locator('.cm-content')
  await editor.waitFor()
  return editor
}

/** Pixels by which the page is wider than its window; charts follow a new width a frame later. */
const overhang = (tab: Page) => tab.evaluate(() => document.documentElement.scrollWidth - innerWidth)

/** What must not happen before a click: weights fetched, a worker started. */
const work = (requests: string[]) =>
  requests.filter((url) => /\/models\/(?!\w+\.ts)|safetensors|\.worker\.ts\?/.test(url))

describe('opening the page', () => {
  it('shows the first recipe and a Play button, complains of nothing and fetches no weights', async () => {
    const { page: tab, errors, requests } = await openPage(page())
    await tab.getByRole('button', { name: 'Play' }).first().waitFor()
    await expect.poll(() => tab.getByLabel('Recipe').inputValue()).toBe('rl/reverse-text')
    await tab.getByText('Watch a language model teach itself').waitFor()
    await tab.waitForLoadState('networkidle')
    expect(errors).toEqual([])
    expect(work(requests)).toEqual([])
  })

  it('fills the form from a link, says so, and starts nothing', async () => {
    const watched = await openPage(page('#recipe=rl/reverse-text&seed=7&learning_rate=0.0005'))
    await watched.page.getByText('Nothing runs until you press Play').waitFor()
    expect(await field(watched, 'Seed').inputValue()).toBe('7')
    expect(await field(watched, 'Learning rate').inputValue()).toBe('5e-4')
    await watched.page.waitForLoadState('networkidle')
    expect(work(watched.requests)).toEqual([])
    expect(watched.errors).toEqual([])
  })

  it('says what is wrong with a damaged link and keeps the recipe', async () => {
    const { page: tab } = await openPage(page('#recipe=rl/reverse-txt'))
    await tab.getByText('did it mean rl/reverse-text?').waitFor()
    expect(await tab.getByLabel('Recipe').inputValue()).toBe('rl/reverse-text')
  })
})

describe('a browser without WebGPU', () => {
  it('is told what is missing and how to get it, and is offered the slower way', async () => {
    const context = await contextWith(() => {
      Object.defineProperty(navigator, 'gpu', { value: undefined })
    })
    const { page: tab, requests } = await openPage(page(), context)
    await tab.getByText('This browser offers no WebGPU').waitFor()
    await tab.getByRole('button', { name: 'Train on the processor, slower' }).waitFor()
    // Play alone does not take the slow way silently.
    await tab.getByRole('button', { name: 'Play' }).first().click()
    await tab.getByRole('alert').getByText('This browser offers no WebGPU').waitFor()
    expect(work(requests)).toEqual([])
    await tab.setViewportSize({ width: 360, height: 740 })
    await expect.poll(() => overhang(tab)).toBeLessThanOrEqual(0)
  })

  it('is told about the address where that is the reason', async () => {
    const context = await contextWith(() => {
      Object.defineProperty(globalThis, 'isSecureContext', { value: false })
    })
    const { page: tab } = await openPage(page(), context)
    await tab.getByText('This page came over an insecure address').waitFor()
    await tab.getByText('http://localhost').waitFor()
    expect(await tab.getByRole('button', { name: 'Train on the processor, slower' }).count()).toBe(0)
  })
})

describe('the config in three views', () => {
  it('says in the TOML what the form was given, keeps comments, and marks and resets the change', async () => {
    const watched = await openPage(page())
    const { page: tab } = watched
    await field(watched, 'Learning rate').fill('5e-4')
    await field(watched, 'Learning rate').press('Enter')
    await tab.getByText('1 change').waitFor()
    const editor = await openToml(watched)
    await editor.getByText('learning_rate = 5e-4').waitFor()
    await editor.getByText('# 16 prompts').waitFor()
    await tab.getByRole('tab', { name: 'Form' }).click()
    await tab.getByRole('button', { name: 'Reset Learning rate' }).click()
    await expect.poll(() => field(watched, 'Learning rate').inputValue()).toBe('0.001')
    expect(await tab.getByText('1 change').count()).toBe(0)
    expect(watched.errors).toEqual([])
  })

  it('shows in the form what the TOML was given', async () => {
    const watched = await openPage(page())
    const { page: tab } = watched
    await (await openToml(watched)).getByText('max_steps = 40').click()
    await tab.keyboard.press('End')
    await tab.keyboard.press('Backspace')
    await tab.keyboard.type('2')
    await tab.getByRole('tab', { name: 'Form' }).click()
    await expect.poll(() => field(watched, 'Steps').inputValue()).toBe('42')
  })

  it('shows a problem as a sentence at its line, at its field, and holds Play back', async () => {
    const watched = await openPage(page())
    const { page: tab } = watched
    await field(watched, 'Rollouts per step').fill('100')
    await field(watched, 'Rollouts per step').press('Enter')
    const sentence = 'batch_size = 100 cannot be split into groups of rollouts_per_example = 8'
    await tab.getByText(sentence).first().waitFor()
    await expect.poll(() => tab.getByRole('button', { name: 'Play' }).first().isDisabled()).toBe(true)
    await openToml(watched)
    // The 14th line of the recipe holds batch_size; its marker stands there, and the remark leads to it.
    await tab.getByRole('button', { name: /^14:/ }).click()
    await expect.poll(() => tab.locator('.cm-activeLine').textContent()).toContain('batch_size = 100')
    expect(await tab.locator('.cm-lint-marker-error').count()).toBe(1)
  })

  it('shares a link that gives the same form again', async () => {
    const first = await openPage(page())
    await field(first, 'Rank').fill('4')
    await field(first, 'Rank').press('Enter')
    await first.page.getByRole('button', { name: 'Share' }).click()
    await expect.poll(() => first.page.url()).toContain('lora.r=4')
    const second = await openPage(first.page.url())
    await expect.poll(() => field(second, 'Rank').inputValue()).toBe('4')
    expect(await field(second, 'Learning rate').inputValue()).toBe('0.001')
  })
})

describe('driving a run', () => {
  it('plays and pauses with the space bar, but not from a field', async () => {
    const watched = await openSimulated('pace=0.2')
    const { page: tab } = watched
    await tab.getByRole('searchbox', { name: 'Find a setting' }).press(' ')
    expect(await tab.getByRole('button', { name: 'Play' }).count()).toBeGreaterThan(0)
    await tab.locator('h1').click()
    await tab.keyboard.press(' ')
    await tab.getByRole('button', { name: 'Pause' }).waitFor()
    await tab
      .getByText(/^step [1-9]\d* \/ 40$/)
      .first()
      .waitFor()
    await tab.keyboard.press(' ')
    await tab.getByRole('button', { name: 'Play' }).first().waitFor()
    expect(watched.errors).toEqual([])
  })

  it('draws the curve, the health and the samples from events, and follows a chosen step', async () => {
    const watched = await openSimulated('pace=0&until=6')
    const { page: tab } = watched
    await tab.getByRole('button', { name: 'Play' }).first().click()
    await tab.getByText('step 6 / 40').waitFor()
    const chart = tab.getByRole('slider', { name: 'Reward by step: choose a step' })
    expect(await chart.getAttribute('aria-valuenow')).toBe('6')
    // Held-out rings before the first step and after the fifth.
    expect(await chart.locator('circle.ring').count()).toBe(2)
    expect(await tab.getByRole('listbox').getByRole('option').count()).toBe(8)
    await chart.focus()
    await tab.keyboard.press('ArrowLeft')
    await tab.locator('.stepper').getByText('5').waitFor()
    await tab.getByRole('button', { name: 'Newest' }).click()
    await tab.locator('.stepper').getByText('6').waitFor()
    expect(watched.errors).toEqual([])
  })

  it('gives the numbers of a token and the formula of its slope to the keyboard', async () => {
    const watched = await openSimulated('pace=0&until=2')
    const { page: tab } = watched
    await tab.getByRole('button', { name: 'Play' }).first().click()
    await tab.getByText('step 2 / 40').waitFor()
    await tab.getByRole('slider', { name: /^Tokens of the answer/ }).focus()
    await tab.keyboard.press('ArrowRight')
    await tab.getByText('slope = −advantage × ratio ÷ loss tokens of the step').waitFor()
    expect(watched.errors).toEqual([])
  })

  it('times each kernel from the next step on, and says where that cannot be', async () => {
    const watched = await openSimulated('pace=0&until=2')
    const { page: tab } = watched
    await tab.getByRole('button', { name: 'Play' }).first().click()
    await tab.getByText('step 2 / 40').waitFor()
    await tab.getByRole('button', { name: /Apple M3/ }).click()
    const timing = tab.getByRole('switch', { name: 'Time each kernel' })
    await timing.click()
    await tab.getByText('The first numbers come with the next step.').waitFor()
    await tab.keyboard.press('Escape')
    await tab.getByRole('button', { name: 'Step', exact: true }).click()
    await tab.getByText('step 3 / 40').waitFor()
    await tab.getByRole('button', { name: /Apple M3/ }).click()
    await tab.getByText('Step 3: 0.23 s in kernels, of 0.62 s.').waitFor()
    const rows = tab.getByRole('table').getByRole('row')
    expect(await rows.nth(1).innerText()).toMatch(/^qkv\s+3,072\s+61\.2\s+26\.8 %$/)
    await timing.click()
    await expect.poll(() => timing.isChecked()).toBe(false)

    const untimed = await openSimulated('pace=0&until=1&untimed=1')
    await untimed.page.getByRole('button', { name: 'Play' }).first().click()
    await untimed.page.getByText('step 1 / 40').waitFor()
    await untimed.page.getByRole('button', { name: /Apple M3/ }).click()
    await untimed.page.getByText('this device tells no times').waitFor()
    expect(await untimed.page.getByRole('switch').count()).toBe(0)
    expect([...watched.errors, ...untimed.errors]).toEqual([])
  })

  it('keeps a running config, and offers to start anew with what was changed since', async () => {
    const watched = await openSimulated('pace=0&until=2')
    const { page: tab } = watched
    await tab.getByRole('button', { name: 'Play' }).first().click()
    await tab.getByText('step 2 / 40').waitFor()
    await field(watched, 'Steps').fill('12')
    await field(watched, 'Steps').press('Enter')
    await tab.getByRole('button', { name: 'Start anew with 1 change' }).click()
    await tab.getByText('step 2 / 12').waitFor()
  })
})

describe('the page at every size', () => {
  it.each([
    [360, 740],
    [390, 844],
    [768, 1024],
    [1024, 768],
    [1480, 800],
    [1920, 1080],
  ])('is no wider than a window of %i × %i', async (width, height) => {
    const watched = await openSimulated('pace=0&until=3')
    const { page: tab } = watched
    await tab.setViewportSize({ width, height })
    await tab.getByRole('button', { name: 'Play' }).first().click()
    await tab.getByText('step 3 / 40').waitFor()
    await expect.poll(() => overhang(tab)).toBeLessThanOrEqual(0)
  })
})
