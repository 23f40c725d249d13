import { cp, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { RunEvent } from '../../workers/protocol.ts'
import type { RunLibrary, RunWriter } from '../../workers/storage/store.ts'
import { kinds, Lab, labConfig, trainingTokens, until } from './lab.ts'

let lab: Lab
beforeEach(async () => {
  lab = await Lab.open()
})
afterEach(() => lab.close())

const CONFIG = labConfig({ eval: { interval: 2, num_examples: 5 } })

class Killed extends Error {}

/** A library whose writes stop for good after a number of them: what a killed process leaves behind. */
function dying(library: RunLibrary, writes: number): RunLibrary {
  let left = writes
  const mortal =
    <A extends unknown[], R>(write: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      if (left-- <= 0) throw new Killed('killed')
      return write(...args)
    }
  return {
    ...bound(library),
    open: async (run) => {
      const writer = bound(await library.open(run)) as RunWriter
      return {
        ...writer,
        run,
        describe: mortal(writer.describe),
        append: mortal(writer.append),
        save: mortal(writer.save),
        putAdapter: mortal(writer.putAdapter),
      }
    },
  } as RunLibrary
}

function bound<T extends object>(object: T): T {
  const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(object)) as (keyof T)[]
  return Object.fromEntries(methods.map((name) => [name, (object[name] as () => unknown).bind(object)])) as T
}

describe('a run that was killed', () => {
  it.each([0, 1])(
    'goes on with the tokens of an unbroken one, whatever it wrote last (async level %i)',
    async (level) => {
      const config = { ...CONFIG, max_async_level: level }
      const whole = await lab.run(config, { run: 'whole' })
      const tokens = trainingTokens(whole)
      const metrics = heldOut(whole)
      let resumedLate = 0
      for (let writes = 3; writes < 60; writes += 3) {
        const run = `killed-${writes}`
        await lab.run(config, { run, library: dying(lab.library, writes) }).catch(() => {})
        await rm(join(lab.root, run, 'writer.lock'), { force: true })
        const resumed = await lab.run(config, { run, resume: true })
        const firstStep = kinds(resumed, 'step')[0]?.step ?? 7
        if (firstStep > 1) resumedLate++
        // Its own tokens are the end of the unbroken run's …
        expect(trainingTokens(resumed)).toEqual(tokens.slice((firstStep - 1) * 16))
        // … and what is stored is the whole of it, once.
        const stored = await lab.library.events(run)
        expect(kinds(stored, 'step').map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6])
        expect(heldOut(stored)).toEqual(metrics)
        expect(stored.map(({ seq }) => seq)).toEqual([...stored.map(({ seq }) => seq)].sort((a, b) => a - b))
      }
      expect(resumedLate).toBeGreaterThan(5)
    },
    60_000,
  )

  it('with its newest save torn goes on from the one before', async () => {
    const whole = trainingTokens(await lab.run(CONFIG, { run: 'whole' }))
    const { trainer } = lab.trainer()
    await trainer.start({ run: 'torn', config: CONFIG })
    for (let i = 0; i < 4; i++) await trainer.step()
    await trainer.stop()
    await truncate(join(lab.root, 'torn/checkpoints/step_4/save.bin'), 100)
    const resumed = await lab.run(CONFIG, { run: 'torn', resume: true })
    expect(kinds(resumed, 'step').map(({ step }) => step)).toEqual([4, 5, 6])
    expect(trainingTokens(resumed)).toEqual(whole.slice(3 * 16))
    expect(kinds(resumed, 'note').map(({ sentence }) => sentence)).toContainEqual(
      expect.stringMatching(/Passed over .*torn/),
    )
  })

  it('counts its events above every one that was seen before', async () => {
    const killed = await lab.run(CONFIG, { run: 'run', library: dying(lab.library, 12) })
    await rm(join(lab.root, 'run/writer.lock'), { force: true })
    const resumed = await lab.run(CONFIG, { run: 'run', resume: true })
    const last = Math.max(...killed.map(({ seq }) => seq))
    expect(resumed[0].seq).toBeGreaterThan(last)
    expect(resumed.map(({ seq }) => seq - resumed[0].seq)).toEqual(resumed.map((_, i) => i))
    expect(resumed[0].attempt).toBe(2)
  })

  it('says so when it goes on elsewhere, or with another config', async () => {
    const { trainer } = lab.trainer()
    await trainer.start({ run: 'run', config: CONFIG })
    await trainer.step()
    await trainer.stop()
    const { trainer: elsewhere } = lab.trainer({ device: { backend: 'webgpu', adapter: 'a graphics card' } })
    const { notes, step } = await elsewhere.start({
      run: 'run',
      config: { ...CONFIG, learning_rate: 0.2 },
      resume: true,
    })
    expect(step).toBe(1)
    expect(notes.join(' ')).toMatch(
      /made on plain JavaScript \(cpu\), this is a graphics card \(webgpu\): tokens may differ/,
    )
    expect(notes.join(' ')).toMatch(/The config is not the one of the save: learning_rate changed/)
    await elsewhere.stop()
  })

  it('cannot be written by two at once', async () => {
    const { trainer } = lab.trainer()
    await trainer.start({ run: 'run', config: CONFIG })
    const { trainer: second } = lab.trainer()
    await expect(second.start({ run: 'run', config: CONFIG, resume: true })).rejects.toThrow(/being written by process/)
    await trainer.stop()
    await second.start({ run: 'run', config: CONFIG, resume: true })
    await second.stop()
  })

  it('can be copied away and goes on there', async () => {
    const whole = trainingTokens(await lab.run(CONFIG, { run: 'whole' }))
    const { trainer } = lab.trainer()
    await trainer.start({ run: 'here', config: CONFIG })
    await trainer.step()
    await trainer.step()
    await trainer.stop()
    await cp(join(lab.root, 'here'), join(lab.root, 'there'), { recursive: true })
    expect(trainingTokens(await lab.run(CONFIG, { run: 'there', resume: true }))).toEqual(whole.slice(2 * 16))
  })
})

describe('what is kept', () => {
  it('is what [checkpointing] says, and the last step always', async () => {
    await lab.run(labConfig({ max_steps: 9, checkpointing: { save_every_n_steps: 2, keep_n_checkpoints: 2 } }))
    const { checkpoints } = await lab.library.files('run')
    // 2, 4, 6, 8 and the last; two of them stay.
    expect(checkpoints).toEqual([8, 9])
    expect((await lab.library.adapter('run')).map(({ name }) => name)).toEqual(['adapter_model.safetensors'])
    expect((await lab.library.list())[0]).toMatchObject({ run: 'run', state: 'finished', step: 9 })
  })

  it('spares the multiples of keep_every_n_steps', async () => {
    const checkpointing = { save_every_n_steps: 1, keep_n_checkpoints: 1, keep_every_n_steps: 4 }
    await lab.run(labConfig({ max_steps: 9, checkpointing }))
    expect((await lab.library.files('run')).checkpoints).toEqual([4, 8, 9])
  })
})

function heldOut(events: RunEvent[]): unknown[] {
  return kinds(events, 'evaluation').map(({ step, metrics }) => ({ step, metrics }))
}

describe('held-out evaluation', () => {
  it('happens before, every interval, and after, on the same questions each time', async () => {
    const events = await lab.run(labConfig({ max_steps: 5, eval: { interval: 2, num_examples: 5 } }))
    expect(kinds(events, 'evaluation').map(({ step }) => step)).toEqual([0, 2, 4, 5])
    const asked = kinds(events, 'samples')
      .filter(({ split }) => split === 'eval')
      .map(({ groups }) => groups.map(({ task, prompt }) => `${task} ${prompt[0].content}`))
    expect(asked[0]).toHaveLength(5)
    expect(new Set(asked.map((questions) => questions.join())).size).toBe(1)
    const rewards = kinds(events, 'evaluation').map(({ metrics }) => metrics['eval/reward/mean'])
    expect(rewards.at(-1)).toBeGreaterThan(rewards[0])
  })

  it('changes no training token, on or off', async () => {
    const off = await lab.run(labConfig(), { run: 'off' })
    const on = await lab.run(
      labConfig({ eval: { interval: 1, num_examples: 7, rollouts_per_example: 2, temperature: 0.5 } }),
      { run: 'on' },
    )
    expect(kinds(on, 'evaluation')).toHaveLength(7)
    expect(kinds(off, 'evaluation')).toHaveLength(0)
    expect(trainingTokens(on)).toEqual(trainingTokens(off))
  })

  it('is broken off by a pause and done again afterwards', async () => {
    const config = labConfig({ max_steps: 2, eval: { interval: 1, num_examples: 200 } })
    const whole = heldOut(await lab.run(config, { run: 'whole' }))
    const { trainer, events } = lab.trainer()
    await trainer.start({ run: 'run', config })
    let pausing = true
    await trainer.subscribe((event) => {
      if (event.kind === 'progress' && pausing) trainer.pause()
    })
    await trainer.play()
    await until(events, (event) => event.kind === 'state' && event.state === 'paused')
    expect(kinds(events, 'evaluation')).toHaveLength(0)
    pausing = false
    await trainer.play()
    await until(events, (event) => event.kind === 'state' && event.state === 'finished')
    expect(heldOut(events)).toEqual(whole)
  })
})
