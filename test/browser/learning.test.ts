// What everything else is for: from `npm start`, by Play, on WebGPU, a policy gets better at its task.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openPage } from './harness.ts'
import { ended, eventsOf, play } from './playing.ts'
import { npmStart, type Started } from './started.ts'

describe('lab-nano on software WebGPU', () => {
  let started: Started
  beforeAll(async () => {
    started = await npmStart()
  })
  afterAll(() => started.interrupt())

  it('raises the reward of held-out texts by a quarter or more in 15 steps of 64 rollouts', async () => {
    // The recipe as it is, seed and all, but evaluated only before the first step and after the last.
    const link = '#recipe=rl/reverse-text-nano&browser.backend=webgpu&eval.interval=15'
    const { page, errors } = await openPage(new URL(link, started.url).href)
    await play(page)
    const run = await ended(page, 'finished', 240_000)

    const [{ description, config }] = eventsOf(run, 'started')
    expect([description.device.backend, description.device.selfTest.passed]).toEqual(['webgpu', true])
    expect([config.max_steps, config.batch_size, config.eval.num_examples]).toEqual([15, 64, 128])
    const evaluations = eventsOf(run, 'evaluation')
    expect(evaluations.map(({ step }) => step)).toEqual([0, 15])
    const [before, after] = evaluations.map(({ metrics }) => metrics['eval/reward/mean'])
    expect(before).toBeGreaterThan(0.3)
    expect(before).toBeLessThan(0.6)
    expect(after - before).toBeGreaterThanOrEqual(0.25)

    // The rewards of training rise with them: the last five steps against the first five.
    const steps = eventsOf(run, 'step')
    expect(steps.map(({ step }) => step)).toEqual(Array.from({ length: 15 }, (_, i) => i + 1))
    const mean = (some: typeof steps) =>
      some.reduce((sum, { metrics }) => sum + metrics['reward/mean'], 0) / some.length
    expect(mean(steps.slice(-5)) - mean(steps.slice(0, 5))).toBeGreaterThan(0.15)
    expect(errors).toEqual([])
  }, 250_000)
})
