import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { RunEvent } from '../../workers/protocol.ts'
import { type ConfigInput, kinds, Lab, labConfig, trainingTokens } from './lab.ts'

let lab: Lab
beforeEach(async () => {
  lab = await Lab.open()
})
afterEach(() => lab.close())

const ahead = (overrides: ConfigInput = {}) => labConfig({ max_async_level: 1, ...overrides })

describe('a run at async level 1', () => {
  it('samples each batch from the policy before the last update, and learns', async () => {
    const events = await lab.run(ahead({ max_steps: 25 }))
    const steps = kinds(events, 'step')
    expect(steps.map(({ metrics }) => metrics['off_policy/max'])).toEqual([0, ...Array.from({ length: 24 }, () => 1)])
    expect(steps.map(({ metrics }) => metrics['off_policy/mean'])).toEqual(
      steps.map(({ metrics }) => metrics['off_policy/max']),
    )
    expect(steps[0].metrics['reward/mean']).toBeLessThan(0.35)
    expect(steps.at(-1)!.metrics['reward/mean']).toBeGreaterThan(0.75)
    // A ratio of exactly 1 would say that the batch was sampled by the policy that learns from it.
    expect(steps[0].metrics['importance_ratio/mean']).toBeCloseTo(1, 5)
    expect(Math.abs(steps[5].metrics['importance_ratio/mean'] - 1)).toBeGreaterThan(1e-4)
    expect(lab.policy.alive).toBe(0)
  })

  it('asks the questions of level 0, answers the first two batches with the first policy, and then differs', async () => {
    const level0 = trainingTokens(await lab.run(labConfig({ max_steps: 4 }), { run: 'level 0' }))
    const level1 = trainingTokens(await lab.run(ahead({ max_steps: 4 }), { run: 'level 1' }))
    const tasks = (tokens: string[]) => tokens.map((line) => line.split(' ')[0])
    expect(tasks(level1)).toEqual(tasks(level0))
    expect(level1.slice(0, 16)).toEqual(level0.slice(0, 16))
    expect(level1.slice(16, 32)).not.toEqual(level0.slice(16, 32))
    // The table of a policy that never learns: what step 2 is answered from.
    const frozen = trainingTokens(await lab.run(labConfig({ max_steps: 2, learning_rate: 0 }), { run: 'frozen' }))
    expect(level1.slice(16, 32)).toEqual(frozen.slice(16, 32))
  })

  it('gives the same tokens where sampling must wait for learning', async () => {
    const config = ahead({ eval: { interval: 2, num_examples: 5 } })
    const beside = await lab.run(config, { run: 'beside' })
    const waiting = await lab.run(config, { run: 'waiting', table: { concurrent: false } })
    expect(trainingTokens(waiting)).toEqual(trainingTokens(beside))
    const heldOut = (events: RunEvent[]) => kinds(events, 'evaluation').map(({ metrics }) => metrics)
    expect(heldOut(waiting)).toEqual(heldOut(beside))
    const without = await lab.run(ahead(), { run: 'without' })
    expect(trainingTokens(without)).toEqual(trainingTokens(beside))
  })

  it('gives the same tokens after pauses and resumptions, and over a pool of difficulties', async () => {
    const config = ahead({
      max_steps: 6,
      env: [{ id: 'letters' }],
      curriculum: { sampler: 'difficulty_pool' },
      buffer: { easy_threshold: 0.95, hard_threshold: 0.01 },
    })
    const options = { letters: { trainSize: 12 } }
    const whole = trainingTokens(await lab.run(config, { run: 'whole', ...options }))
    let tokens: string[] = []
    for (let step = 1; step <= 6; step++) {
      const { trainer, events } = lab.trainer(options)
      await trainer.start({ run: 'broken', config, resume: step > 1 })
      await trainer.step()
      await trainer.stop()
      tokens = [...tokens, ...trainingTokens(events)]
    }
    expect(tokens).toEqual(whole)
  })

  it('skips an update that is not finite and goes on', async () => {
    let spoiled = false
    const events = await lab.run(ahead({ max_steps: 5, browser: { rescored_groups: 0 } }), {
      table: {
        spoil: (_, token, version) => {
          if (spoiled || version !== 2 || token !== 4) return undefined
          spoiled = true
          return Number.NaN
        },
      },
    })
    const steps = kinds(events, 'step')
    expect(steps.map(({ learned }) => learned)).toEqual([true, true, false, true, true])
    // The policy did not change in step 3, so the batch of step 4 was answered by the one that learns from it.
    expect(steps.map(({ metrics }) => metrics['off_policy/max'])).toEqual([0, 1, 1, 0, 1])
    expect(lab.policy.alive).toBe(0)
  })

  it('leaves out answers that are older than max_off_policy_steps, with their group', async () => {
    // Two updates a batch: what was sampled before them is two updates old.
    const config = ahead({ max_steps: 3, num_iterations: 2, max_off_policy_steps: 1 })
    const events = await lab.run(config)
    const steps = kinds(events, 'step')
    expect(steps.map(({ learned }) => learned)).toEqual([true, false, true])
    const second = kinds(events, 'samples').find(({ step, split }) => step === 2 && split === 'train')!
    for (const { reason } of second.groups) expect(reason).toMatch(/Too old: sampled 2 updates ago/)
  })

  it('says what it does otherwise than written', async () => {
    const { trainer } = lab.trainer()
    const { notes } = await trainer.start({ run: 'three', config: ahead({ max_async_level: 3 }) })
    expect(notes.join(' ')).toMatch(/max_async_level is 3; here .* as with 1/)
    await trainer.stop()
    const { trainer: refusing } = lab.trainer()
    await expect(refusing.start({ run: 'none', config: ahead({ max_off_policy_steps: 0 }) })).rejects.toThrow(
      /Set it to 1 or more/,
    )
  })

  it('with updates in flight goes on with the new adapters, token for token said which', async () => {
    const events = await lab.run(ahead({ max_steps: 12, browser: { in_flight_updates: true } }))
    const lags = kinds(events, 'step').map(({ metrics }) => metrics['off_policy/mean'])
    for (const lag of lags) {
      expect(lag).toBeGreaterThanOrEqual(0)
      expect(lag).toBeLessThanOrEqual(1)
    }
    expect(kinds(events, 'started')[0].description.notes.join(' ')).toMatch(/other tokens each time/)
    expect(lab.policy.alive).toBe(0)
  })

  it('forgets what was answered ahead when it is stopped in a step', async () => {
    const { trainer, events } = lab.trainer()
    await trainer.start({ run: 'stopped', config: ahead({ max_steps: 50 }) })
    await trainer.play()
    while (kinds(events, 'step').length < 3) await new Promise((resolve) => setTimeout(resolve, 1))
    await trainer.stop()
    expect(lab.policy.alive).toBe(0)
    expect(kinds(events, 'state').at(-1)?.state).toBe('stopped')
  })
})
