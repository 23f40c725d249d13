// The page's panel that writes a config for a full-size trainer, behind a real server of ours; without one it is not there.

import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { openPage } from './harness.ts'
import { npmStart, type Started } from './started.ts'

let server: Started

beforeAll(async () => {
  server = await npmStart()
}, 120_000)

afterAll(async () => {
  await server?.interrupt()
})

describe('full size', () => {
  it('shows both texts side by side, and a note at its lines', async () => {
    const { page, errors } = await openPage(`${server.url}#recipe=rl/reverse-text&model=Qwen/Qwen3-0.6B`)
    await page.getByRole('button', { name: 'Full size…' }).click()
    await page.getByRole('region', { name: 'prime-rl of 2026-08' }).waitFor()
    expect(await page.getByRole('region', { name: 'This config' }).innerText()).toContain('rollouts_per_example = 8')
    expect(await page.getByRole('region', { name: 'prime-rl of 2026-08' }).innerText()).toContain('group_size = 8')
    const schedule = page.getByRole('listitem').filter({ hasText: 'said as linear with decay_steps = 0' })
    await schedule.getByRole('button').click()
    const sought = await page.locator('.row.sought').allInnerTexts()
    expect(sought.map((line) => line.replace(/^\d+/, ''))).toEqual(['type = "constant"', 'type = "linear"'])
    expect(errors).toEqual([])
  })

  it('says at which line a config cannot go along', async () => {
    const { page } = await openPage(`${server.url}#recipe=rl/reverse-text`)
    await page.getByRole('button', { name: 'Full size…' }).click()
    await page.getByRole('tab', { name: 'Hosted Training' }).click()
    await page.getByText('1 thing of this config cannot be done there.').waitFor()
    expect(await page.locator('.row.refuse').allInnerTexts()).toEqual([expect.stringContaining('model = "lab-tiny"')])
  })

  it('is not offered where no server of ours sent the page', async () => {
    const { page } = await openPage(new URL('index.html', inject('devServer')).href)
    await page.getByRole('heading', { name: 'Config' }).waitFor()
    expect(await page.getByText('Full size…').count()).toBe(0)
  })
})
