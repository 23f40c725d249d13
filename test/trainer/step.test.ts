import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { GroupRecord, RunEvent } from '../../workers/protocol.ts'
import { kinds, Lab, labConfig, trainingTokens } from './lab.ts'

let lab: Lab
beforeEach(async () => {
  lab = await Lab.open()
})
afterEach(() => lab.close())

function groupsOf(events: RunEvent[], step: number): GroupRecord[] {
  return kinds(events, 'samples').find((event) => event.step === step && event.split === 'train')?.groups ?? []
}

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

  it('learns the same whatever the size of its passes', async () => {
    const states: Float32Array[] = []
    for (const micro_batch_size of [1, 3, 16]) {
      await lab.run(labConfig({ micro_batch_size, max_steps: 3 }), { run: `passes of ${micro_batch_size}` })
      states.push((await lab.policy.state()).trainable)
    }
    // Sums in another order differ by rounding alone.
    for (const state of states.slice(1)) {
      state.forEach((value, i) => {
        expect(value).toBeCloseTo(states[0][i], 4)
      })
    }
  })

  it('scores each token when learning as it did when sampling', async () => {
    const events = await lab.run(labConfig({ max_steps: 3, sampling: { max_tokens: 6, temperature: 0.7 } }))
    let tokens = 0
    for (const { groups } of kinds(events, 'samples')) {
      for (const { rollouts } of groups) {
        for (const { tokens: record } of rollouts) {
          record?.logp?.forEach((logp, i) => {
            expect(logp).toBeCloseTo(record.logMu[i], 5)
            tokens++
          })
        }
      }
    }
    expect(tokens).toBeGreaterThan(50)
  })

  it('pushes up what did better than its siblings: slopes have the sign of −advantage, and log π follows', async () => {
    const events = await lab.run(labConfig({ max_steps: 1, browser: { rescored_groups: 4 } }))
    let followed = 0
    let counted = 0
    for (const { rollouts } of groupsOf(events, 1)) {
      for (const { advantage, tokens } of rollouts) {
        if (!tokens?.slope || !tokens.logp || !tokens.logpAfter || !advantage) continue
        tokens.slope.forEach((slope, i) => {
          expect(Math.sign(slope)).toBe(-Math.sign(advantage))
          counted++
          if (Math.sign((tokens.logpAfter as number[])[i] - (tokens.logp as number[])[i]) === Math.sign(advantage))
            followed++
        })
      }
    }
    expect(counted).toBeGreaterThan(20)
    // Tokens share their row of the table, so a few are pulled along by others.
    expect(followed / counted).toBeGreaterThan(0.7)
  })

  it('rescores as many groups as asked for', async () => {
    const events = await lab.run(labConfig({ max_steps: 1, browser: { rescored_groups: 1 } }))
    const rescored = groupsOf(events, 1).filter(({ rollouts }) => rollouts.some(({ tokens }) => tokens?.logpAfter))
    expect(rescored).toHaveLength(1)
  })
})

describe('several turns', () => {
  it('append the environment’s tokens, mark who wrote them, and learn from the policy’s own alone', async () => {
    const config = labConfig({ max_steps: 4, sampling: { max_tokens: 3 }, seq_len: 40 })
    const events = await lab.run(config, { letters: { turns: 3 } })
    const rollouts = groupsOf(events, 1).flatMap((group) => group.rollouts)
    for (const { messages, tokens, promptTokens, stop } of rollouts) {
      expect(messages.map(({ role }) => role)).toEqual(['assistant', 'user', 'assistant', 'user', 'assistant'])
      expect(stop).toBe('all_said')
      expect(promptTokens).toBe(3)
      const text = tokens?.text.join('') ?? ''
      // Each turn ends with its own «.» or has one put behind it; then come the environment's «bb» and «>».
      expect(text).toMatch(/^[^.]{0,3}\.bb>[^.]{0,3}\.bb>[^.]{0,3}\.?$/)
      const environment = tokens?.text.filter((_, i) => tokens.sampled[i] === 0).join('') ?? ''
      expect(environment.replaceAll('.', '')).toBe('bb>bb>')
      for (const [i, slope] of (tokens?.slope ?? []).entries()) if (!tokens?.sampled[i]) expect(slope).toBe(0)
    }
    expect(kinds(events, 'step')[0].metrics['num_turns/mean']).toBe(3)
  })

  it('end when no room is left for another', async () => {
    const config = labConfig({ max_steps: 1, sampling: { max_tokens: 3 }, seq_len: 10 })
    const events = await lab.run(config, { letters: { turns: 5 } })
    const rollouts = groupsOf(events, 1).flatMap((group) => group.rollouts)
    expect(rollouts.some(({ stop, truncated }) => stop === 'prompt_too_long' && truncated)).toBe(true)
    for (const { tokens, promptTokens } of rollouts)
      expect(promptTokens + (tokens?.text.length ?? 0)).toBeLessThanOrEqual(10)
  })
})

describe('which groups are learned from', () => {
  it('leaves out groups that scored alike, and says so', async () => {
    // Only even questions tell good answers from bad ones.
    const worth = (answer: string, position: number) => (position % 2 === 0 ? answer.length : 0.5)
    const events = await lab.run(labConfig({ max_steps: 1 }), { letters: { worth } })
    expect(groupsOf(events, 1).map(({ reason }) => reason)).toEqual([
      null,
      'All answers scored 0.500: there is nothing to compare.',
      null,
      'All answers scored 0.500: there is nothing to compare.',
    ])
    expect(kinds(events, 'step')[0].metrics['batch/rejected_groups']).toBe(2)
  })

  it('asks others in place of those that a filter turned away, as far as oversampling allows', async () => {
    const worth = (answer: string, position: number) =>
      position % 2 === 0 ? Number(answer.includes('a')) / 2 + 0.1 : 1
    const filtered = (oversampling_factor: number) =>
      labConfig({
        max_steps: 1,
        oversampling_factor,
        buffer: { online_difficulty_filtering: true },
      })
    // P = 4. Odd questions are all right and turned away: factor 1 asks 0–3 and keeps two of them; factor 2 may ask 8 and
    // needs 0–3, 4–5, 6 to fill the batch with 0, 2, 4, 6.
    const once = await lab.run(filtered(1), { run: 'once', letters: { worth } })
    expect(groupsOf(once, 1).map(({ task }) => task)).toEqual([0, 1, 2, 3])
    const twice = await lab.run(filtered(2), { run: 'twice', letters: { worth } })
    expect(groupsOf(twice, 1).map(({ task }) => task)).toEqual([0, 1, 2, 3, 4, 5, 6])
    const turnedAway = groupsOf(twice, 1).filter(
      ({ reason }) => reason === 'Too easy by now: the mean reward is exactly 1.',
    )
    expect(turnedAway.map(({ task }) => task)).toEqual([1, 3, 5])
    expect(kinds(twice, 'step')[0].metrics['batch/admission_rate']).toBeCloseTo(4 / 7)
  })

  it('does not ask again what was put aside as too easy', async () => {
    // Of 6 examples, 3 are always right: after the first round the other 3 are all that is asked.
    const worth = (answer: string, position: number) => (position % 2 === 0 ? answer.length / 10 : 1)
    const config = labConfig({ max_steps: 4, buffer: { easy_threshold: 1 } })
    const events = await lab.run(config, { letters: { worth, trainSize: 6 } })
    const asked = kinds(events, 'samples').map(({ groups }) => groups.map(({ exampleId }) => exampleId))
    expect(asked).toEqual([
      [0, 1, 2, 3],
      [4, 5, 0, 2],
      [4, 0, 2, 4],
      [0, 2, 4, 0],
    ])
  })

  it('ends with a sentence when every example was put aside', async () => {
    const config = labConfig({ max_steps: 4, buffer: { easy_threshold: 0 } })
    const events = await lab.run(config, { letters: { trainSize: 6 } })
    expect(kinds(events, 'state').at(-1)).toMatchObject({
      state: 'failed',
      reason: expect.stringMatching(/all examples of letters have been put aside/),
    })
  })

  it('draws by difficulty when asked to, the same after a resume', async () => {
    const config = labConfig({ max_steps: 6, curriculum: { sampler: 'difficulty_pool' } })
    const whole = trainingTokens(await lab.run(config, { run: 'whole', letters: { trainSize: 9 } }))
    const { trainer } = lab.trainer({ letters: { trainSize: 9 } })
    await trainer.start({ run: 'half', config })
    for (let i = 0; i < 3; i++) await trainer.step()
    await trainer.stop()
    const rest = await lab.run(config, { run: 'half', resume: true, letters: { trainSize: 9 } })
    expect(trainingTokens(rest)).toEqual(whole.slice(3 * 16))
  })
})

describe('the reference and further rounds', () => {
  it('a penalty pulls to the reference: the policy stays nearer to it', async () => {
    const distance = async (kl_penalty: object, run: string) => {
      const events = await lab.run(labConfig({ max_steps: 15, kl_penalty }), { run })
      return { last: kinds(events, 'step').at(-1)?.metrics ?? {}, delta: (await lab.policy.state()).trainable }
    }
    const free = await distance({ enabled: false }, 'free')
    const held = await distance({ enabled: true, beta: 2 }, 'held')
    const norm = (values: Float32Array) => Math.hypot(...values)
    expect(norm(held.delta)).toBeLessThan(0.8 * norm(free.delta))
    expect(held.last['ref_kl/mean']).toBeGreaterThan(0)
    expect(held.last['kl_penalty/beta']).toBe(2)
    expect(free.last['ref_kl/mean']).toBeUndefined()
  })

  it('beta follows its target', async () => {
    const kl_penalty = { enabled: true, beta: 0.1, target_kl: 1e-9 }
    const events = await lab.run(labConfig({ max_steps: 4, kl_penalty }))
    // Step 1 is at the reference: KL 0, so β·(1 − 0.1·0.2). From step 2 on it is far above the target: β·(1 + 0.02).
    const betas = kinds(events, 'step').map(({ metrics }) => metrics['kl_penalty/beta'])
    expect(betas[1] / betas[0]).toBeCloseTo(0.98)
    expect(betas[2] / betas[1]).toBeCloseTo(1.02)
  })

  it('num_iterations updates more than once from a batch', async () => {
    const events = await lab.run(labConfig({ max_steps: 2, num_iterations: 3 }))
    expect(lab.policy.version).toBe(6)
    expect(kinds(events, 'step')[0].metrics['off_policy/max']).toBe(0)
  })
})
