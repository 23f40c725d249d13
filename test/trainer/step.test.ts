import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { kinds, Lab, labConfig, trainingTokens } from './lab.ts'

let lab: Lab
beforeEach(async () => {
  lab = await Lab.open()
})
afterEach(() => lab.close())

describe('a run on the table policy', () => {
  it('learns: the reward rises', async () => {
    const events = await lab.run(labConfig({ max_steps: 25 }))
    const rewards = kinds(events, 'step').map(({ metrics }) => metrics['reward/mean'])
    expect(rewards).toHaveLength(25)
    expect(rewards[0]).toBeLessThan(0.35)
    expect(rewards.at(-1)).toBeGreaterThan(0.8)
  })

  it('gives the same tokens for the same seed, and others for another', async () => {
    const first = trainingTokens(await lab.run(labConfig(), { run: 'first' }))
    const second = trainingTokens(await lab.run(labConfig(), { run: 'second' }))
    const other = trainingTokens(await lab.run(labConfig({ seed: 8 }), { run: 'other' }))
    expect(first).toHaveLength(6 * 16)
    expect(second).toEqual(first)
    expect(other).not.toEqual(first)
  })
})
