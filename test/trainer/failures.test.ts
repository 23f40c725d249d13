import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { RunEvent } from '../../workers/protocol.ts'
import { decodeSave } from '../../workers/storage/record.ts'
import { type RunLibrary, type RunWriter, StorageFull } from '../../workers/storage/store.ts'
import { kinds, Lab, labConfig, trainingTokens, until } from './lab.ts'

let lab: Lab
beforeEach(async () => {
  lab = await Lab.open()
})
afterEach(() => lab.close())

function lastState(events: RunEvent[]) {
  return kinds(events, 'state').at(-1)
}

describe('an environment that fails', () => {
  it('makes an errored rollout: shown, counted, and left out of its group’s baseline', async () => {
    const fail = (call: string, position: number, attempt: number) =>
      call === 'score' && position === 1 && attempt === 2 ? 'The judge could not be reached.' : null
    const events = await lab.run(labConfig({ max_steps: 1 }), { letters: { fail } })
    const group = kinds(events, 'samples')[0].groups[1]
    expect(group.rollouts[2]).toMatchObject({ reward: null, advantage: null, error: 'The judge could not be reached.' })
    const scored = group.rollouts.filter(({ error }) => error === null)
    const mean = scored.reduce((sum, { reward }) => sum + (reward as number), 0) / 3
    for (const { reward, advantage } of scored) expect(advantage).toBeCloseTo((reward as number) - mean, 10)
    expect(kinds(events, 'step')[0].metrics['has_error/mean']).toBe(1 / 16)
  })

  it('in setup or in the middle of a conversation costs those rollouts alone', async () => {
    const fail = (call: string, position: number, attempt: number) =>
      (call === 'setup' && position === 0) || (call === 'respond' && attempt === 1) ? `No ${call} today.` : null
    const events = await lab.run(labConfig({ max_steps: 2 }), { letters: { fail } })
    const [first, second] = kinds(events, 'samples')[0].groups
    expect(first.rollouts.map(({ error }) => error)).toEqual(Array(4).fill('No setup today.'))
    expect(first.reason).toMatch(/every rollout of the group errored/)
    expect(second.rollouts.map(({ error }) => error)).toEqual([null, 'No respond today.', null, null])
    expect(lastState(events)?.state).toBe('finished')
    expect(lab.port.open_.size).toBe(0)
  })

  it('with a reward that is no number makes an errored rollout too', async () => {
    const worth = (_answer: string, position: number) => (position === 0 ? Number.NaN : 1)
    const events = await lab.run(labConfig({ max_steps: 1 }), { letters: { worth } })
    expect(kinds(events, 'samples')[0].groups[0].rollouts[0]).toMatchObject({
      reward: null,
      error: 'letters scored an answer NaN; expected a finite number.',
    })
  })

  it('pauses the run after ten steps with nothing to learn from', async () => {
    const events = await lab.run(labConfig({ max_steps: 30 }), { letters: { worth: () => 0 } })
    expect(lastState(events)).toMatchObject({ state: 'paused', reason: expect.stringMatching(/^10 steps in a row/) })
    expect(kinds(events, 'step').map(({ learned }) => learned)).toEqual(Array(10).fill(false))
  })
})

describe('a number that is not finite', () => {
  it('skips the update, names row and token, and leaves the policy as it was', async () => {
    const spoil = (_row: unknown, token: number, version: number) =>
      version === 2 && token === 4 ? Number.NaN : undefined
    // The spoiled version is that of step 3; it stays until an update goes through, so step 3 to 5 are skipped.
    const events = await lab.run(labConfig({ max_steps: 9 }), { table: { spoil } })
    const steps = kinds(events, 'step')
    expect(steps.map(({ learned }) => learned)).toEqual([true, true, false, false, false])
    expect(steps.map(({ metrics }) => metrics['optim/skipped'])).toEqual([0, 0, 1, 2, 3])
    expect(steps[2].note).toMatch(/In step 3, log π of token 4 \(id \d+\) is NaN, in answer \d to question \d+\./)
    expect(lastState(events)).toMatchObject({
      state: 'paused',
      reason: expect.stringMatching(/^3 updates in a row were skipped/),
    })
    expect(lab.policy.version).toBe(2)
    expect(lab.policy.alive).toBe(0)
  })

  it('once is survived: the next update goes through and the count starts again', async () => {
    let spoiled = 0
    const spoil = (_row: unknown, _token: number, version: number) =>
      version === 1 && spoiled++ === 0 ? Number.NEGATIVE_INFINITY : undefined
    const config = labConfig({ max_steps: 4, browser: { rescored_groups: 0 } })
    const events = await lab.run(config, { table: { spoil } })
    expect(kinds(events, 'step').map(({ learned }) => learned)).toEqual([true, false, true, true])
    expect(lastState(events)?.state).toBe('finished')
    expect(kinds(events, 'note').some(({ level, sentence }) => level === 'warning' && /skipped/.test(sentence))).toBe(
      true,
    )
  })

  it('in the gradient skips the update too', async () => {
    const events = await lab.run(labConfig({ max_steps: 2 }), {
      onPolicy: (policy) => {
        const update = policy.update.bind(policy)
        let first = true
        policy.update = async (step) => {
          if (!first) return update(step)
          first = false
          policy.clearGradient()
          return { gradientNorm: Number.POSITIVE_INFINITY }
        }
      },
    })
    expect(kinds(events, 'step').map(({ learned }) => learned)).toEqual([false, true])
    expect(kinds(events, 'step')[0].note).toMatch(/The gradient's norm is Infinity/)
  })

  it('in the policy itself is never saved', async () => {
    const { trainer, events } = lab.trainer()
    await trainer.start({ run: 'run', config: labConfig() })
    await trainer.step()
    const state = await lab.policy.state()
    state.trainable[3] = Number.NaN
    await lab.policy.restore(state)
    await expect(trainer.save()).rejects.toThrow(/number 3 is NaN.*save of step 1 stays/)
    await trainer.stop()
    expect(kinds(events, 'saved').map(({ save }) => save.step)).toEqual([1])
  })
})

describe('a device that is lost', () => {
  it('ends the run with a sentence; it goes on from its save with the same tokens', async () => {
    const whole = trainingTokens(await lab.run(labConfig(), { run: 'whole' }))
    let lose: (sentence: string) => void = () => {}
    const lost = new Promise<string>((resolve) => {
      lose = resolve
    })
    const { trainer, events } = lab.trainer({
      lost,
      // The device hangs for good in step 4: its promises never settle.
      onPolicy: (policy) => {
        const backward = policy.backward.bind(policy)
        policy.backward = (pass, slopes) => {
          if (policy.version < 3) return backward(pass, slopes)
          lose('The GPU device was lost: the driver was reset.')
          return new Promise(() => {})
        }
      },
    })
    await trainer.start({ run: 'run', config: labConfig() })
    await trainer.play()
    await until(events, (event) => event.kind === 'state' && event.state === 'failed')
    expect(lastState(events)?.reason).toMatch(
      /^Step 4 failed\. The GPU device was lost: the driver was reset\. The run is saved up to step \d and goes on from there when it is resumed\.$/,
    )
    const saved = kinds(events, 'saved').at(-1)?.save.step as number
    const resumed = await lab.run(labConfig(), { resume: true })
    expect(trainingTokens(resumed)).toEqual(whole.slice(saved * 16))
  })

  it('is noticed while the run is paused', async () => {
    let lose: (sentence: string) => void = () => {}
    const lost = new Promise<string>((resolve) => {
      lose = resolve
    })
    const { trainer, events } = lab.trainer({ lost })
    await trainer.start({ run: 'run', config: labConfig() })
    lose('The GPU device was lost.')
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(lastState(events)).toMatchObject({
      state: 'failed',
      reason: expect.stringMatching(/Nothing had been saved yet/),
    })
    await expect(trainer.play()).rejects.toThrow('No run is open')
  })
})

describe('a full disk', () => {
  it('pauses the run with a sentence; nothing is lost, and it goes on when there is room', async () => {
    const whole = trainingTokens(await lab.run(labConfig(), { run: 'whole' }))
    let room = true
    const { trainer, events } = lab.trainer({ library: narrow(lab.library, () => room) })
    await trainer.start({ run: 'run', config: labConfig() })
    await trainer.step()
    room = false
    await trainer.play()
    await until(events, (event) => event.kind === 'state' && event.state === 'paused' && event.reason !== undefined)
    expect(lastState(events)?.reason).toBe('There was no room.')
    expect(kinds(events, 'note').at(-1)).toMatchObject({ level: 'error', about: 'storage' })
    // The state that could not be stored can be taken away as it is.
    const [file] = await trainer.exportSave()
    // Step 2 is stored before step 3 or beside it, as a save was due or not.
    const step = kinds(events, 'step').at(-1)?.step
    expect([2, 3]).toContain(step)
    expect(file.name).toBe(`run-step_${step}.save`)
    expect(decodeSave(file.bytes).header).toMatchObject({ run: 'run', step })
    room = true
    await trainer.play()
    await until(events, (event) => event.kind === 'state' && event.state === 'finished')
    expect(trainingTokens(events)).toEqual(whole)
    const stored = await lab.library.events('run')
    expect(kinds(stored, 'step').map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6])
  })
})

function narrow(library: RunLibrary, hasRoom: () => boolean): RunLibrary {
  return {
    open: async (run: string) => {
      const writer = await library.open(run)
      const guarded =
        <A extends unknown[], R>(write: (...args: A) => Promise<R>) =>
        (...args: A): Promise<R> =>
          hasRoom() ? write.apply(writer, args) : Promise.reject(new StorageFull('There was no room.'))
      writer.append = guarded(writer.append)
      writer.save = guarded(writer.save)
      return writer as RunWriter
    },
  } as RunLibrary
}

describe('a start that fails', () => {
  it('says why and leaves no run behind; the trainer can start another', async () => {
    const { trainer, events } = lab.trainer({
      onPolicy: () => {
        throw new Error('Opened no device to compute on.')
      },
    })
    await expect(trainer.start({ run: 'run', config: labConfig() })).rejects.toThrow('Opened no device')
    expect(lastState(events)).toMatchObject({ state: 'failed', reason: 'Opened no device to compute on.' })
    expect(await lab.library.list()).toEqual([])
    await expect(trainer.start({ run: 'run', config: labConfig() })).rejects.toThrow('Opened no device')
  })
})
