// Everything of a run that is open, and how it comes to be: a writer, a learner, an environment, and the newest save.

import type { RunConfig } from '../../configs/schema.ts'
import type { Policy } from '../policy/policy.ts'
import type {
  DeviceDescription,
  ExportedFile,
  ModelDescription,
  Remedy,
  RunDescription,
  RunEvent,
  RunEventBody,
  StartRequest,
} from '../protocol.ts'
import { RandomStream } from '../random.ts'
import { returnFractions } from '../rl/pools.ts'
import { initialProgress, type Progress, type Run, type Script } from '../step/run.ts'
import type { SaveRecord } from '../storage/record.ts'
import type { RunLibrary, RunSummary, RunWriter } from '../storage/store.ts'
import type { Ahead } from './ahead.ts'
import { runNotes } from './configNotes.ts'
import { type ConnectEnvironment, EnvironmentGuard } from './environmentGuard.ts'
import { EventLog } from './eventLog.ts'
import { SaveClock, seconds } from './saving.ts'

const FETCH_EVERY_MS = 200

/** By the name of the error: it may come from a file, a hub or a disk. */
const REMEDIES: Record<string, Remedy> = { StorageFull: 'storage', GatedModel: 'token' }

/** What the host brings. */
export interface TrainerServices {
  library: RunLibrary
  connectEnvironment: ConnectEnvironment
  /** Opens device and model and makes the policy. `choices` are an earlier start's, to be kept on resume. */
  openLearner(
    config: RunConfig,
    choices: Record<string, unknown> | null,
    onFetch?: (progress: FetchProgress) => void,
  ): Promise<Learner>
}

/** How far the files of a model are, while they are fetched. */
export type FetchProgress = Omit<Extract<RunEventBody, { kind: 'fetch' }>, 'kind'>

/** A policy with everything around it. */
export interface Learner {
  policy: Policy
  script: Script
  model: ModelDescription
  device: DeviceDescription
  /** What the start-up trial chose: kernels, token budget, slots. Saved with the run. */
  choices: Record<string, unknown>
  notes: string[]
  /** Resolves with a sentence when the device is gone; never otherwise. */
  lost: Promise<string>
  /** The adapter as PEFT files, or the weights where all of them are trained. */
  export(): Promise<ExportedFile[]>
  dispose(): void
}

export interface OpenRun {
  request: StartRequest
  description: RunDescription
  run: Run
  learner: Learner
  guard: EnvironmentGuard
  writer: RunWriter
  log: EventLog
  clock: SaveClock
  summary: RunSummary
  progress: Progress
  /** Of the policy at the last step boundary. */
  version: number
  /** The last step whose evaluation is done; −1 before the first. */
  evaluated: number
  /** What the newest save covers; −1 before the first. */
  saved: { step: number; evaluated: number }
  /** Of the step that follows, where steps are asynchronous; null before the first. */
  ahead: Ahead | null
}

/** Loads the model and the environment, and restores the newest save if asked. Throws a sentence. */
export async function openRun(
  services: TrainerServices,
  request: StartRequest,
  listeners: Iterable<(event: RunEvent) => void>,
): Promise<OpenRun> {
  const writer = await services.library.open(request.run)
  try {
    return await begin(services, request, writer, listeners)
  } catch (error) {
    await writer.close()
    throw error
  }
}

async function begin(
  services: TrainerServices,
  request: StartRequest,
  writer: RunWriter,
  listeners: Iterable<(event: RunEvent) => void>,
): Promise<OpenRun> {
  const { config } = request
  const earlier = await writer.summary()
  if (earlier && !request.resume) {
    throw new Error(`Run ${request.run} exists already, at step ${earlier.step}: resume it, or choose another name.`)
  }
  const { record, notes } = earlier ? await writer.newestSave() : { record: null, notes: [] }
  const summary = summaryOf(request, earlier, record)
  const { run: name, attempt } = summary
  const source = { run: name, attempt, source: request.source ?? 'worker' }
  const log = new EventLog(source, summary.seqCeiling, listeners, async (ceiling) => {
    summary.seqCeiling = ceiling
    await writer.describe(summary)
  })
  // A run that has never begun leaves no trace when it cannot begin.
  if (earlier) await log.reserve()
  log.emit({ kind: 'state', state: 'loading' })
  try {
    const loaded = await load(services, config, record, log)
    const { learner } = loaded
    if (record) notes.push(...(await restore(record, config, learner)))
    await writer.cut(record?.header.seq ?? 0)
    await log.reserve()
    const progress = record ? resumedProgress(record, config, attempt) : initialProgress(config)
    const evaluated = record?.header.evaluated ?? -1
    const description: RunDescription = {
      run: name,
      attempt,
      step: progress.step,
      maxSteps: config.max_steps,
      model: learner.model,
      device: learner.device,
      capabilities: {
        pause: true,
        step: true,
        save: true,
        exportAdapter: true,
        tokens: true,
        kernels: learner.policy.kernelTimer !== undefined,
      },
      notes: [...notes, ...learner.notes, ...runNotes(config)],
    }
    return {
      ...loaded,
      request,
      description,
      writer,
      log,
      clock: new SaveClock(seconds()),
      summary,
      progress,
      version: learner.policy.version,
      evaluated,
      saved: { step: record?.header.step ?? -1, evaluated },
      ahead: record && resumedAhead(record, config, learner.policy),
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    if (earlier) await writer.describe({ ...summary, state: 'failed', reason })
    log.announce(log.compose({ kind: 'state', state: 'failed', reason, about: REMEDIES[(error as Error).name] }))
    throw error
  }
}

function summaryOf(request: StartRequest, earlier: RunSummary | null, record: SaveRecord | null): RunSummary {
  return {
    run: request.run,
    name: request.config.name ?? request.run,
    config: request.config,
    state: 'loading',
    reason: null,
    attempt: (earlier?.attempt ?? 0) + 1,
    step: record?.header.step ?? 0,
    created: earlier?.created ?? Date.now(),
    updated: Date.now(),
    seqCeiling: earlier?.seqCeiling ?? 0,
  }
}

/** Passes on the newest of what it is told, so often at most; the last one comes too. */
function rarely<T>(everyMs: number, say: (value: T) => void): { tell(value: T): void; end(): void } {
  let waiting: T | null = null
  let timer: ReturnType<typeof setTimeout> | null = null
  const next = () => {
    timer = null
    if (waiting === null) return
    say(waiting)
    waiting = null
    timer = setTimeout(next, everyMs)
  }
  return {
    tell(value) {
      waiting = value
      if (timer === null) next()
    },
    end() {
      if (timer !== null) clearTimeout(timer)
      timer = null
      if (waiting !== null) say(waiting)
      waiting = null
    },
  }
}

async function load(services: TrainerServices, config: RunConfig, record: SaveRecord | null, log: EventLog) {
  const fetching = rarely<FetchProgress>(FETCH_EVERY_MS, (progress) => log.emit({ kind: 'fetch', ...progress }))
  const learner = await services
    .openLearner(config, record?.header.choices ?? null, fetching.tell)
    .finally(() => fetching.end())
  const guard = new EnvironmentGuard(services.connectEnvironment, (sentence) =>
    log.emit({ kind: 'note', level: 'warning', sentence }),
  )
  try {
    const environments = await guard.open({
      environments: config.env.map(({ id, name, args, ratio }) => ({ id, name: name ?? id, args, ratio })),
      seed: config.seed,
    })
    const run: Run = { config, policy: learner.policy, script: learner.script, environment: guard, environments }
    return { run, learner, guard }
  } catch (error) {
    guard.close()
    learner.dispose()
    throw error
  }
}

async function restore(record: SaveRecord, config: RunConfig, learner: Learner): Promise<string[]> {
  const { header, arrays } = record
  const { policy, model, device } = learner
  if (header.model.hash !== model.hash) {
    throw new Error(
      `The save of run ${header.run} was made with another ${header.model.name} (${header.model.hash.slice(0, 12)}…, ` +
        `here ${model.hash.slice(0, 12)}…): its adapter does not fit. Put the model back, or start a new run.`,
    )
  }
  await policy.restore({ ...arrays, optimizerSteps: header.optimizerSteps, version: header.version })
  const notes = [`Resumed after step ${header.step}.`]
  if (header.device.backend !== device.backend || header.device.adapter !== device.adapter) {
    notes.push(
      `The save was made on ${header.device.adapter} (${header.device.backend}), this is ${device.adapter} ` +
        `(${device.backend}): tokens may differ from what they would have been there.`,
    )
  }
  const changed = differingKeys(header.config, config)
  if (changed.length > 0) notes.push(`The config is not the one of the save: ${changed.join(', ')} changed.`)
  return notes
}

/** The policy that was answering the next batch: it answers it again. */
function resumedAhead({ header, arrays }: SaveRecord, config: RunConfig, policy: Policy): Ahead | null {
  const { answering } = arrays
  if (!answering || header.answeringVersion === undefined || config.max_async_level === 0) return null
  return { snapshot: policy.snapshot({ trainable: answering, version: header.answeringVersion }), step: null }
}

function differingKeys(a: RunConfig, b: RunConfig): string[] {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]) as Set<keyof RunConfig>
  return [...keys].filter((key) => JSON.stringify(a[key]) !== JSON.stringify(b[key]))
}

// Of the examples put aside, a share comes back with each resume (prime-rl 2026-01); none unless asked for.
function resumedProgress({ header }: SaveRecord, config: RunConfig, attempt: number): Progress {
  const progress = header.progress as Progress
  const random = new RandomStream(config.seed).fork('returned examples', attempt)
  return { ...progress, pools: returnFractions(progress.pools, config.buffer, () => random.next()) }
}
