// Saves and events as a small run would leave them, for the tests of both stores.

import { runConfig } from '../../configs/schema.ts'
import type { RunEvent, RunEventBody } from '../../workers/protocol.ts'
import type { SaveRecord } from '../../workers/storage/record.ts'
import type { RunSummary } from '../../workers/storage/store.ts'

export const CONFIG = runConfig.parse({
  model: 'table',
  env: [{ id: 'letters' }],
  batch_size: 4,
  rollouts_per_example: 2,
})

/** A save whose numbers tell its step apart from every other. */
export function saveOf(run: string, step: number, seq = step * 10, size = 5): SaveRecord {
  const filled = (part: number) => Float32Array.from({ length: size }, (_, i) => step + part / 10 + i / 1000)
  return {
    header: {
      run,
      attempt: 1,
      step,
      evaluated: step,
      seq,
      savedAt: 1_700_000_000_000 + step,
      config: CONFIG,
      model: { name: 'table', hash: 'abc' },
      device: { backend: 'cpu', adapter: 'this processor' },
      optimizerSteps: step,
      version: step,
      progress: { cursor: step * 2 },
      choices: {},
    },
    arrays: { trainable: filled(1), firstMoment: filled(2), secondMoment: filled(3) },
  }
}

export function summaryOf(run: string, step = 0): RunSummary {
  return {
    run,
    name: run,
    config: CONFIG,
    state: 'running',
    reason: null,
    attempt: 1,
    step,
    created: 1_700_000_000_000,
    updated: 1_700_000_000_000 + step,
    seqCeiling: 0,
  }
}

export function eventOf(run: string, seq: number, body: RunEventBody): RunEvent {
  return { run, attempt: 1, seq, time: 1_700_000_000_000 + seq, source: 'test', ...body }
}

/** What one step leaves: its samples, its metrics, and an event that is not kept. Counters are 10·step + 1, 2, 3. */
export function eventsOfStep(run: string, step: number): RunEvent[] {
  const seconds = { ask: 0, answer: 1, judge: 0, learn: 2, total: 3 }
  return [
    eventOf(run, step * 10 + 1, { kind: 'phase', step, phase: 'ask', line: 'ask' }),
    eventOf(run, step * 10 + 2, {
      kind: 'samples',
      step,
      split: 'train',
      groups: [
        {
          task: step,
          exampleId: 7,
          environment: 'letters',
          prompt: [{ role: 'user', content: `« ${step} »` }],
          answer: 'b\n"a"',
          rollouts: [0, 1].map((attempt) => ({
            attempt,
            messages: [{ role: 'assistant', content: `answer ${attempt}\n` }],
            reward: attempt === 0 ? 0.5 : null,
            advantage: attempt === 0 ? 0.25 : null,
            metrics: { exact: attempt },
            stop: 'token',
            error: attempt === 0 ? null : 'The judge could not be reached.',
            truncated: false,
            promptTokens: 3,
            tokens: {
              text: ['a'],
              sampled: [1],
              logMu: [-0.5],
              entropy: [0.1],
              logp: [-0.5],
              logpAfter: null,
              slope: [-1],
            },
          })),
          reason: null,
        },
      ],
    }),
    eventOf(run, step * 10 + 3, {
      kind: 'step',
      step,
      metrics: { 'reward/all/mean': step / 10 },
      seconds,
      learned: true,
    }),
  ]
}
