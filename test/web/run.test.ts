import { describe, expect, it } from 'vitest'
import { runConfig } from '../../configs/schema.ts'
import { Run } from '../../web/state/run.svelte.ts'
import { Selection } from '../../web/state/selection.svelte.ts'
import type { GroupRecord, RunEvent, RunEventBody } from '../../workers/protocol.ts'

const config = runConfig.parse({ max_steps: 10 })
const seconds = { ask: 0.1, answer: 0.5, judge: 0.1, learn: 0.3, total: 1 }

function teller(run: Run) {
  let seq = 0
  return (body: RunEventBody) => {
    run.take({ ...body, run: run.id, attempt: 1, seq: seq++, time: 0, source: 'tab' } as RunEvent)
  }
}

const started = (step: number) =>
  ({
    kind: 'started',
    config,
    description: { run: 'r', attempt: 1, step, maxSteps: 10, notes: [], capabilities: {}, model: {}, device: {} },
  }) as unknown as RunEventBody
const stepped = (step: number): RunEventBody => ({
  kind: 'step',
  step,
  metrics: { 'reward/mean': step / 10 },
  seconds,
  learned: true,
})
const group = (exampleId: number, rewards: number[]): GroupRecord => ({
  task: exampleId,
  exampleId,
  environment: 'e',
  prompt: [],
  answer: '',
  reason: null,
  rollouts: rewards.map((reward, attempt) => ({
    attempt,
    messages: [{ role: 'assistant', content: String(reward) }],
    reward,
    advantage: 0,
    metrics: {},
    stop: 'token',
    error: null,
    truncated: false,
    promptTokens: 1,
    tokens: null,
  })),
})

describe('a run told by its events', () => {
  it('keeps the newest times of kernels, and forgets them when another attempt begins', () => {
    const run = new Run('r')
    const tell = teller(run)
    tell(started(0))
    expect(run.kernels).toBeNull()
    const kernels = [{ name: 'draw', dispatches: 16, milliseconds: 2 }]
    const times = { kind: 'kernels', on: true, since: 0, seconds: 1, kernels, untimed: 0 } as const
    tell({ ...times, step: 1 })
    tell({ ...times, step: 2 })
    expect(run.kernels).toMatchObject({ step: 2, kernels })
    tell(started(2))
    expect(run.kernels).toBeNull()
  })

  it('counts steps, and says how long the rest takes', () => {
    const run = new Run('r')
    const tell = teller(run)
    tell(started(0))
    for (const step of [1, 2, 3]) tell(stepped(step))
    expect(run.done).toBe(3)
    // 7 steps left at a second each
    expect(run.secondsLeft).toBe(7)
  })

  it('forgets what was shown past the save from which it is resumed', () => {
    const run = new Run('r')
    const tell = teller(run)
    tell(started(0))
    for (const step of [1, 2, 3, 4]) {
      tell(stepped(step))
      tell({ kind: 'samples', step, split: 'train', groups: [group(step, [0, 1])] })
    }
    tell({ kind: 'evaluation', step: 2, metrics: {}, seconds: 1, environment: 'e' })
    tell({ kind: 'evaluation', step: 4, metrics: {}, seconds: 1, environment: 'e' })
    tell(started(2))
    expect(run.steps.map(({ step }) => step)).toEqual([1, 2])
    expect(run.evaluations.map(({ step }) => step)).toEqual([2])
    expect(run.sampleSteps.train).toEqual([1, 2])
    expect(run.samples(4, 'train')).toBeNull()
  })

  it('takes an event once, and no other run’s', () => {
    const run = new Run('r')
    const event = { ...stepped(1), run: 'r', attempt: 1, seq: 5, time: 0, source: '' } as RunEvent
    run.take(event)
    run.take(event)
    run.take({ ...event, run: 'other', seq: 6 })
    expect(run.steps.length).toBe(1)
  })

  it('knows of samples that storage keeps, and takes their groups later', () => {
    const run = new Run('r')
    teller(run)({ kind: 'samples', step: 3, split: 'eval', groups: [] })
    expect(run.sampleSteps.eval).toEqual([3])
    expect(run.samples(3, 'eval')).toBeNull()
    run.keep(3, 'eval', [group(0, [1])])
    expect(run.samples(3, 'eval')?.length).toBe(1)
  })

  it('shows a run that was cut off as stopped', () => {
    const run = new Run('r')
    teller(run)({ kind: 'state', state: 'running' })
    run.rest('running', null)
    expect(run.state).toBe('stopped')
    expect(run.live).toBe(false)
  })
})

describe('what is looked at', () => {
  function withSamples() {
    const run = new Run('r')
    const tell = teller(run)
    tell({ kind: 'samples', step: 1, split: 'train', groups: [group(0, [1, 1]), group(1, [0, 0.9])] })
    return { run, tell, selection: new Selection(() => run) }
  }

  it('is the newest step, the group that differs most, its best answer', () => {
    const { selection } = withSamples()
    expect(selection.step).toBe(1)
    expect(selection.groupIndex).toBe(1)
    expect(selection.rollout?.reward).toBe(0.9)
  })

  it('stays once something is chosen, until asked to follow again', () => {
    const { selection, tell } = withSamples()
    selection.chooseRollout(0)
    tell({ kind: 'samples', step: 2, split: 'train', groups: [group(5, [0, 1])] })
    expect([selection.step, selection.groupIndex, selection.rollout?.attempt]).toEqual([1, 1, 0])
    selection.follow()
    expect([selection.step, selection.rollout?.attempt]).toEqual([2, 1])
  })

  it('walks along steps that have samples, and stops at the ends', () => {
    const { selection, tell } = withSamples()
    tell({ kind: 'samples', step: 4, split: 'train', groups: [group(5, [0, 1])] })
    selection.moveStep(-1)
    selection.moveStep(-1)
    expect(selection.step).toBe(1)
    selection.chooseStep(3)
    expect(selection.step).toBe(4)
  })
})
