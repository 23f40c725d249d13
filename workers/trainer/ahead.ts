// Asynchronous steps (`max_async_level = 1`): while one batch is learned, the next is answered already, by the policy as it
// was before that update. Both end before the step does, so which version samples which rollout depends on counters,
// never on the clock. With `browser.in_flight_updates` the answers change over to the new adapters in mid-sentence
// instead, which is fresher and not reproducible (Piché et al., PipelineRL, 2025).

import type { Snapshot } from '../policy/policy.ts'
import type { Progress } from '../step/run.ts'
import { createVerbs, type Group, type OpenStep, type StepListener } from '../step/verbs.ts'
import { rollOut } from '../step.ts'
import type { OpenRun } from './openRun.ts'

/** What a step boundary holds of the step that follows. */
export interface Ahead {
  /** Of the policy that answers it; null where that is the live one. */
  snapshot: Snapshot | null
  /** Null when it was broken off, or has not begun since the run was resumed: it is answered again. */
  batch: Answered | null
}

export interface Answered {
  step: OpenStep
  groups: Group[]
}

/** The next batch on its way. */
export interface Answering {
  snapshot: Snapshot | null
  /** Never rejects: what went wrong is met again when the batch is answered again, and told then. */
  batch: Promise<Answered | null>
}

/** The batch whose turn it is: the one answered during the step before, or else a new one. */
export async function answered({ run, ahead, progress }: OpenRun, listener: StepListener): Promise<Answered> {
  if (ahead?.batch) {
    ahead.batch.step.takeUp(progress, listener)
    return ahead.batch
  }
  return answer(createVerbs(run, progress, listener, ahead?.snapshot ?? 'live'))
}

/** Begins to answer the batch after this one, whose questions have brought the run to `before`; null after the last. */
export function answerNext({ run }: OpenRun, before: Progress, listener: StepListener): Answering | null {
  const { config, policy } = run
  if (config.max_async_level === 0 || before.step >= config.max_steps) return null
  const snapshot = config.browser.in_flight_updates ? null : policy.snapshot()
  const batch = answer(createVerbs(run, before, listener, snapshot ?? 'live')).catch(() => null)
  return { snapshot, batch }
}

async function answer(step: OpenStep): Promise<Answered> {
  try {
    return { step, groups: await rollOut(step.verbs) }
  } catch (error) {
    await step.abandon()
    throw error
  }
}

/** Waits for what is on its way, and forgets it. */
export async function forgetAnswers(next: Answering | Ahead | null): Promise<void> {
  await next?.batch
  next?.snapshot?.dispose()
}
