// Asynchronous steps (`max_async_level = 1`): while one batch is learned, the next is answered already, by the policy as it
// was before that update. Both end before the step does, so which version samples which rollout depends on counters,
// never on the clock. With `browser.in_flight_updates` the answers change over to the new adapters in mid-sentence
// instead, which is fresher and not reproducible (Piché et al., PipelineRL, 2025).

import type { Snapshot } from '../policy/policy.ts'
import type { Progress } from '../step/run.ts'
import { createVerbs, type OpenStep, type StepListener } from '../step/verbs.ts'
import { rollOut } from '../step.ts'
import type { OpenRun } from './openRun.ts'

/** What a step boundary holds of the step that follows. */
export interface Ahead {
  /** Of the policy that answers it; null where that is the live one. */
  snapshot: Snapshot | null
  /** With its answers. Null when it was broken off, or has not begun since the run was resumed: it is answered again. */
  step: OpenStep | null
}

/** The next step while it is being answered. */
export interface Answering {
  snapshot: Snapshot | null
  /** Never rejects: what went wrong is met again when the step is answered again, and told then. */
  step: Promise<OpenStep | null>
}

/** The step whose turn it is: the one answered during the step before, or else a new one. */
export function stepAtHand({ run, ahead, progress }: OpenRun, listener: StepListener): OpenStep {
  if (!ahead?.step) return createVerbs(run, progress, listener, ahead?.snapshot ?? 'live')
  ahead.step.takeUp(progress, listener)
  return ahead.step
}

/** Begins to answer the step after this one, whose questions have brought the run to `before`; null after the last. */
export function answerNext({ run }: OpenRun, before: Progress, listener: StepListener): Answering | null {
  const { config, policy } = run
  if (config.max_async_level === 0 || before.step >= config.max_steps) return null
  const snapshot = config.browser.in_flight_updates ? null : policy.snapshot()
  return { snapshot, step: answer(createVerbs(run, before, listener, snapshot ?? 'live')) }
}

async function answer(step: OpenStep): Promise<OpenStep | null> {
  try {
    step.verbs.answered = await rollOut(step.verbs)
    return step
  } catch {
    await step.abandon()
    return null
  }
}

export async function whenAnswered(next: Answering | null): Promise<Ahead | null> {
  return next && { snapshot: next.snapshot, step: await next.step }
}

/** Waits for what is on its way, and forgets it. */
export async function forgetAnswers(next: Answering | Ahead | null): Promise<void> {
  await next?.step
  next?.snapshot?.dispose()
}
