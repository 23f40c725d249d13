// One step and one evaluation of an open run, with everything around step.ts: what is told of them, what happens when
// they are broken off, and the update that is skipped because a number was not finite.

import { evaluate } from '../evaluate.ts'
import type { Phase } from '../protocol.ts'
import { evaluationSamples, stepReport, stepSamples } from '../step/report.ts'
import { NotFinite, type Progress } from '../step/run.ts'
import { concluded, rescore, type StepListener, type StepWork } from '../step/verbs.ts'
import { step } from '../step.ts'
import { type Answering, answerNext, forgetAnswers, stepAtHand, whenAnswered } from './ahead.ts'
import type { EventLog } from './eventLog.ts'
import type { OpenRun } from './openRun.ts'
import { seconds } from './saving.ts'

/** After so many steps without a row to learn from, or so many skipped updates, a run pauses and says why. */
const MOST_EMPTY_STEPS = 10
const MOST_SKIPPED_UPDATES = 3

/** Not a failure: somebody asked for it. */
export class Interrupted extends Error {
  override name = 'Interrupted'
}

export interface Taken {
  /** False when it was broken off and has changed nothing. */
  done: boolean
  /** A sentence when the run had better pause now. */
  pause: string | null
}

export async function takeStep(open: OpenRun, signal: AbortSignal): Promise<Taken> {
  const { run, log, progress } = open
  const index = progress.step + 1
  await run.policy.busySeconds?.()
  const began = seconds()
  const { verbs, work, abandon } = stepAtHand(open, tellingOf(log, index, signal))
  const muted = whileMuted(tellingOf(log, index + 1, signal))
  let next: Answering | null = null
  verbs.meanwhile = async () => {
    next = answerNext(open, work.progress, muted.listener)
    if (!run.policy.concurrent) await next?.step
  }
  let skipped: string | null = null
  try {
    await step(verbs)
    await rescore(run, work)
  } catch (error) {
    await abandon()
    if (!(error instanceof NotFinite)) {
      if (open.ahead) open.ahead.step = null
      await forgetAnswers(next)
      if (error instanceof Interrupted) return { done: false, pause: null }
      throw error
    }
    skipped = error.message
    const { skipped: before, skippedInARow } = work.progress
    work.progress = { ...work.progress, skipped: before + 1, skippedInARow: skippedInARow + 1 }
  }
  muted.speak()
  open.ahead?.snapshot?.dispose()
  open.ahead = await whenAnswered(next)
  work.seconds.total = seconds() - began
  const after = concluded(run, work)
  tellStep(open, work, after, skipped, await run.policy.busySeconds?.())
  open.progress = after
  open.version = run.policy.version
  open.summary.step = after.step
  return { done: true, pause: whyPause(after, skipped) }
}

/** False when it was broken off. */
export async function takeEvaluation(open: OpenRun, signal: AbortSignal): Promise<boolean> {
  const { run, log } = open
  const { step: index } = open.progress
  const { num_examples, rollouts_per_example } = run.config.eval
  const total = num_examples * rollouts_per_example
  const began = seconds()
  log.emit({ kind: 'phase', step: index, phase: 'answer', line: 'evaluate', note: 'Held-out questions' })
  try {
    const { questions, metrics } = await evaluate(run, {
      signal,
      onProgress: (done) => log.progress({ kind: 'progress', step: index, phase: 'answer', done, total }),
    })
    const environment = run.environments.map(({ name }) => name).join(', ')
    log.emit({ kind: 'samples', step: index, split: 'eval', groups: evaluationSamples(run.script, questions) })
    log.emit({ kind: 'evaluation', step: index, metrics, seconds: seconds() - began, environment })
  } catch (error) {
    if (error instanceof Interrupted) return false
    throw error
  }
  open.evaluated = index
  return true
}

function tellStep(
  { log, run }: OpenRun,
  work: StepWork,
  after: Progress,
  skipped: string | null,
  gpuSeconds: number | null | undefined,
): void {
  const memory = run.policy.memory()
  const learned = work.updates > 0 && skipped === null
  const note = skipped ? `The update was skipped. ${skipped}` : learned ? undefined : 'There was nothing to learn from.'
  log.emit({ kind: 'samples', step: work.index, split: 'train', groups: stepSamples(run.script, work) })
  const metrics = stepReport(work, after, { peakBytes: memory.gpuPeakBytes, seconds: gpuSeconds })
  log.emit({ kind: 'step', step: work.index, metrics, seconds: work.seconds, learned, note })
  if (skipped && note) log.emit({ kind: 'note', level: 'warning', sentence: note })
  log.emit({ kind: 'memory', ...memory })
}

function whyPause({ skippedInARow, emptyInARow }: Progress, skipped: string | null): string | null {
  if (skipped && skippedInARow >= MOST_SKIPPED_UPDATES) {
    return (
      `${skippedInARow} updates in a row were skipped. ${skipped} ` +
      'Lower the learning rate, or go back to an earlier checkpoint.'
    )
  }
  if (emptyInARow > 0 && emptyInARow % MOST_EMPTY_STEPS === 0) {
    return (
      `${emptyInARow} steps in a row left nothing to learn from: every answer scored like its siblings, or was ` +
      'filtered out. The samples say which; a harder or easier task, or a higher temperature, brings differences.'
    )
  }
  return null
}

/** What a step says of itself while it is under way. */
function tellingOf(log: EventLog, index: number, signal: AbortSignal): Required<StepListener> {
  const began = seconds()
  return {
    signal,
    onVerb: tellVerbs(log, index),
    onProgress: (phase, done, total, tokens) => {
      const tokensPerSecond = tokens === null ? undefined : tokens / Math.max(1e-3, seconds() - began)
      log.progress({ kind: 'progress', step: index, phase, done, total, tokensPerSecond })
    },
  }
}

/** The batch that is answered ahead says nothing while another is learned; then it says how far it is. */
function whileMuted({ signal, onVerb, onProgress }: Required<StepListener>) {
  let speaking = false
  let last: Parameters<typeof onVerb> | null = null
  const listener: StepListener = {
    signal,
    onVerb: (...verb) => {
      last = verb
      if (speaking) onVerb(...verb)
    },
    onProgress: (...progress) => {
      if (speaking) onProgress(...progress)
    },
  }
  const speak = () => {
    speaking = true
    if (last) onVerb(...last)
  }
  return { listener, speak }
}

/** A loop's verbs follow one another faster than anybody can watch: each is told once, and then ten times a second. */
function tellVerbs(log: EventLog, index: number): (phase: Phase, verb: string) => void {
  const told = new Set<string>()
  let last = 0
  return (phase, verb) => {
    const now = seconds()
    if (told.has(verb) && now - last < 0.1) return
    told.add(verb)
    last = now
    log.emit({ kind: 'phase', step: index, phase, line: verb })
  }
}
