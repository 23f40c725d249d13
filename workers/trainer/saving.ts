// Saves of a run: when, and what is in them. A run saves itself after every step while that is cheap, and at least every
// ten seconds otherwise; the [checkpointing] table governs only which saves are kept for good.

import type { RunConfig } from '../../configs/schema.ts'
import type { ExportedFile, SaveDescription } from '../protocol.ts'
import { encodeSave, type SaveRecord } from '../storage/record.ts'
import type { OpenRun } from './openRun.ts'

const MOST_SECONDS_UNSAVED = 10
/** Share of the time that saving may take when it happens after every step. */
const CHEAP = 0.05

export class SaveClock {
  #lastAt: number
  #lastTook = 0

  /** `now` in seconds, by any clock that does not jump. */
  constructor(now: number) {
    this.#lastAt = now
  }

  isDue(now: number): boolean {
    const since = now - this.#lastAt
    return since >= MOST_SECONDS_UNSAVED || this.#lastTook < CHEAP * since
  }

  saved(now: number, took: number): void {
    this.#lastAt = now
    this.#lastTook = took
  }
}

export function seconds(): number {
  return performance.now() / 1000
}

/** Whether the save of this step stays as a checkpoint: every n steps where asked for, and the last one always. */
export function isCheckpoint({ checkpointing, max_steps }: RunConfig, step: number): boolean {
  const every = checkpointing.save_every_n_steps
  return step >= max_steps || (every !== null && step > 0 && step % every === 0)
}

/** True when something has happened since the newest save. */
export function isUnsaved({ progress, evaluated, saved }: OpenRun): boolean {
  return progress.step !== saved.step || evaluated !== saved.evaluated
}

export function saveIsDue(open: OpenRun): boolean {
  if (!isUnsaved(open)) return false
  const { progress, saved, clock, run } = open
  return (progress.step !== saved.step && isCheckpoint(run.config, progress.step)) || clock.isDue(seconds())
}

/** Saves a step boundary; durable when it resolves. Throws `StorageFull`, or a sentence when the policy is spoiled. */
export async function saveRun(open: OpenRun): Promise<SaveDescription> {
  const { run, learner, writer, log, clock, progress, evaluated } = open
  const { config } = run
  const began = seconds()
  // What the save covers is stored before it.
  await log.flush(writer)
  const record = await recordOf(open)
  const { keep_n_checkpoints, keep_every_n_steps } = config.checkpointing
  const kept = isCheckpoint(config, progress.step)
    ? { files: await learner.export(), keepLast: keep_n_checkpoints, keepEvery: keep_every_n_steps }
    : null
  const save = await writer.save(record, kept)
  open.saved = { step: progress.step, evaluated }
  clock.saved(seconds(), seconds() - began)
  log.emit({ kind: 'saved', save })
  return save
}

/** What a save would be, as a file: for whoever has no room to store it. */
export async function saveToTake(open: OpenRun): Promise<ExportedFile[]> {
  return [{ name: `${open.request.run}-step_${open.progress.step}.save`, bytes: encodeSave(await recordOf(open)) }]
}

async function recordOf({
  request,
  run,
  learner,
  log,
  summary,
  progress,
  evaluated,
  saved,
  ahead,
}: OpenRun): Promise<SaveRecord> {
  const { trainable, firstMoment, secondMoment, optimizerSteps, version } = await run.policy.state()
  const answering = ahead?.snapshot ?? null
  const spoiled = trainable.findIndex((value) => !Number.isFinite(value))
  if (spoiled >= 0) {
    throw new Error(
      `The policy was not saved: its trained number ${spoiled} is ${trainable[spoiled]}. ` +
        (saved.step < 0 ? 'There is no earlier save.' : `The save of step ${saved.step} stays.`),
    )
  }
  return {
    header: {
      run: request.run,
      attempt: summary.attempt,
      step: progress.step,
      evaluated,
      seq: log.seq,
      savedAt: Date.now(),
      config: run.config,
      model: { name: learner.model.name, hash: learner.model.hash },
      device: { backend: learner.device.backend, adapter: learner.device.adapter },
      optimizerSteps,
      version,
      answeringVersion: answering?.version,
      progress,
      choices: learner.choices,
    },
    arrays: { trainable, firstMoment, secondMoment, answering: await answering?.read() },
  }
}
