// A run that is only there to be timed: what it is, and what its events say.

import { load } from '../../../configs/load.ts'
import type { RunConfig } from '../../../configs/schema.ts'
import type { GivenEvent } from '../../store/events/eventFile.ts'
import type { Measurement } from '../engine.ts'

/** Two small steps. The entropy bonus gives even a group of equal rewards something to learn. */
export function measuredConfig(model: string): RunConfig {
  const loaded = load({
    ...{ model, seed: 1, max_steps: 2, batch_size: 16, rollouts_per_example: 8, seq_len: 128, learning_rate: 1e-4 },
    env: [{ id: 'reverse-text', args: { min_length: 4, max_length: 8, system_prompt: 'Reverse.', tag: 'r' } }],
    sampling: { max_tokens: 32 },
    loss: { entropy_coefficient: 0.01 },
  })
  if (loaded.problems) throw new Error(`internal: ${loaded.problems[0].sentence}`)
  return loaded.config
}

/** Throws a sentence where the run has shown nothing. */
export function measurementOf(events: GivenEvent[]): Measurement {
  const started = events.find((event) => event.kind === 'started')
  // Of two steps the second: the first one warms up.
  const step = events.findLast((event) => event.kind === 'step')
  const state = events.findLast((event) => event.kind === 'state')
  if (!started || !step) {
    const reason = (state?.kind === 'state' && state.reason) || 'the run ended before its first step.'
    throw new Error(`Measured nothing: ${reason}`)
  }
  const { backend, adapter } = started.description.device
  const tokensPerSecond = step.metrics['perf/sampling_throughput'] ?? 0
  const stepTokensPerSecond = step.metrics['perf/throughput'] ?? 0
  if (!(tokensPerSecond > 0 && step.learned))
    throw new Error(`Measured nothing: ${step.note ?? 'no token was sampled.'}`)
  return { backend, adapter, tokensPerSecond, stepTokensPerSecond }
}
