import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { RunEvent } from '../../workers/protocol.ts'
import { kinds, Lab, labConfig, trainingTokens, until } from './lab.ts'

let lab: Lab
beforeEach(async () => {
  lab = await Lab.open()
})
afterEach(() => lab.close())

function states(events: RunEvent[]): string[] {
  return kinds(events, 'state').map(({ state }) => state)
}

describe('play, pause, step and stop', () => {
  it('lead through the states of a run, and the events count up by one', async () => {
    const { trainer, events } = lab.trainer()
    const description = await trainer.start({ run: 'run', config: labConfig(), source: 'test' })
    expect(description).toMatchObject({ run: 'run', attempt: 1, step: 0, maxSteps: 6 })
    expect(states(events)).toEqual(['loading', 'paused'])

    await trainer.step()
    expect(kinds(events, 'step').map(({ step }) => step)).toEqual([1])
    expect(states(events)).toEqual(['loading', 'paused', 'running', 'paused'])

    await trainer.play()
    await until(events, (event) => event.kind === 'step' && event.step === 3)
    await trainer.pause()
    const paused = kinds(events, 'step').length
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(kinds(events, 'step')).toHaveLength(paused)

    await trainer.stop()
    expect(states(events).at(-1)).toBe('stopped')
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1))
    expect(new Set(events.map(({ run, attempt, source }) => `${run} ${attempt} ${source}`))).toEqual(
      new Set(['run 1 test']),
    )
    expect(lab.policy.alive).toBe(0)
  })

  it('change no token, wherever the pauses fall', async () => {
    const whole = trainingTokens(await lab.run(labConfig(), { run: 'whole' }))
    const { trainer, events } = lab.trainer()
    await trainer.start({ run: 'pieces', config: labConfig() })
    await trainer.step()
    await trainer.step()
    await trainer.play()
    await trainer.pause()
    await trainer.play()
    await until(events, (event) => event.kind === 'state' && event.state === 'finished')
    expect(trainingTokens(events)).toEqual(whole)
  })

  it('tell every phase of a step, in order, by the name of the verb in step.ts', async () => {
    const { trainer, events } = lab.trainer()
    await trainer.start({ run: 'run', config: labConfig({ max_steps: 1 }) })
    await trainer.step()
    const lines = kinds(events, 'phase').map(({ line }) => line)
    expect([...new Set(lines)]).toEqual([
      'ask',
      'answer',
      'judge',
      'compare',
      'admit',
      'leaveOut',
      'logprobs',
      'slopes',
      'backward',
      'update',
    ])
    const { readFile } = await import('node:fs/promises')
    const source = await readFile(new URL('../../workers/step.ts', import.meta.url), 'utf8')
    for (const line of lines) expect(source).toContain(` ${line}(`)
  })

  it('save at the boundary when asked, and give the adapter away while the run goes on', async () => {
    const { trainer, events } = lab.trainer()
    await trainer.start({ run: 'run', config: labConfig({ max_steps: 40 }) })
    await trainer.play()
    const [save, files] = await Promise.all([trainer.save(), trainer.exportAdapter()])
    expect(save.bytes).toBeGreaterThan(0)
    expect(files.map(({ name }) => name)).toEqual(['adapter_model.safetensors'])
    expect(states(events).at(-1)).toBe('running')
    await trainer.stop()
  })

  it('refuse what cannot be', async () => {
    const { trainer } = lab.trainer()
    await expect(trainer.play()).rejects.toThrow('No run is open')
    await expect(trainer.start({ run: 'run', config: labConfig({ sampling: { temperature: 0 } }) })).rejects.toThrow(
      /temperature is 0/,
    )
    await trainer.start({ run: 'run', config: labConfig() })
    await expect(trainer.start({ run: 'other', config: labConfig() })).rejects.toThrow(/open in this worker/)
    await trainer.stop()
    const { trainer: again } = lab.trainer()
    await expect(again.start({ run: 'run', config: labConfig() })).rejects.toThrow(/exists already, at step 0/)
  })

  it('stop in the middle of a step without a trace of it', async () => {
    const { trainer, events } = lab.trainer()
    await trainer.start({ run: 'run', config: labConfig() })
    await trainer.step()
    await trainer.play()
    await until(events, (event) => event.kind === 'phase' && event.step === 2 && event.line === 'answer')
    await trainer.stop()
    const done = kinds(events, 'step').length
    const resumed = await lab.run(labConfig(), { resume: true })
    expect(kinds(resumed, 'step')[0].step).toBe(done + 1)
    const whole = trainingTokens(await lab.run(labConfig(), { run: 'whole' }))
    expect([...trainingTokens(events), ...trainingTokens(resumed)]).toEqual(whole)
  })
})

describe('memory', () => {
  it('is told after every step and is the same over 200 steps', async () => {
    const events = await lab.run(labConfig({ max_steps: 200, learning_rate: 0.001 }))
    const memory = kinds(events, 'memory').map(({ gpuBytes, tensors, buffers }) => ({ gpuBytes, tensors, buffers }))
    expect(memory).toHaveLength(200)
    expect(new Set(memory.map((at) => JSON.stringify(at))).size).toBe(1)
    expect(lab.port.open_.size).toBe(0)
  }, 60_000)
})
