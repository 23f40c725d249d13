// A whole run: starts or resumes it, takes its steps, evaluates, saves, and tells what happens as events. What a step
// does is step.ts; how a device, a model, an environment and a disk are obtained is the host's business, who hands them
// in.

import type { RunConfig } from '../configs/schema.ts'
import { evaluate, evaluationIsDue } from './evaluate.ts'
import type { Policy } from './policy/policy.ts'
import type {
  DeviceDescription,
  ExportedFile,
  ModelDescription,
  Phase,
  RunDescription,
  RunEvent,
  SaveDescription,
  StartRequest,
  Trainer,
} from './protocol.ts'
import { RandomStream } from './random.ts'
import { returnFractions } from './rl/pools.ts'
import { evaluationSamples, stepReport, stepSamples } from './step/report.ts'
import { initialProgress, NotFinite, type Progress, type Run, type Script } from './step/run.ts'
import { concluded, createVerbs, rescore, type StepWork } from './step/verbs.ts'
import { step } from './step.ts'
import type { SaveRecord } from './storage/record.ts'
import { type RunLibrary, type RunState, type RunSummary, type RunWriter, StorageFull } from './storage/store.ts'
import { refusal, runNotes } from './trainer/configNotes.ts'
import { type ConnectEnvironment, EnvironmentGuard } from './trainer/environmentGuard.ts'
import { EventLog } from './trainer/eventLog.ts'
import { isCheckpoint, SaveClock } from './trainer/saving.ts'

/** What the host brings. */
export interface TrainerServices {
  library: RunLibrary
  connectEnvironment: ConnectEnvironment
  /** Opens device and model and makes the policy. `choices` are an earlier start's, to be kept on resume. */
  openLearner(config: RunConfig, choices: Record<string, unknown> | null): Promise<Learner>
}

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

/** After so many steps without a row to learn from, or so many skipped updates, a run pauses and says why. */
const MOST_EMPTY_STEPS = 10
const MOST_SKIPPED_UPDATES = 3

/** Everything of a run that is open. */
interface OpenRun {
  request: StartRequest
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
  /** The newest save. */
  savedStep: number
  savedEvaluation: number
}

type Wish = 'run' | 'once' | 'pause' | 'stop'

interface Errand {
  run(): Promise<void>
  /** The run has ended before its turn came. */
  refuse(error: Error): void
}

export class LocalTrainer implements Trainer {
  #services: TrainerServices
  #listeners = new Set<(event: RunEvent) => void>()
  #open: OpenRun | null = null
  #wish: Wish = 'pause'
  #loop: Promise<void> | null = null
  /** Ends the step under way, or only the evaluation under way. */
  #stepAbort = new AbortController()
  #evaluationAbort = new AbortController()
  #starting = false
  /** What was asked for at the next step boundary. */
  #errands: Errand[] = []

  constructor(services: TrainerServices) {
    this.#services = services
  }

  async subscribe(listener: (event: RunEvent) => void): Promise<void> {
    this.#listeners.add(listener)
  }

  // ── Starting ───────────────────────────────────────────────────────────────────────────────────────────────────

  async start(request: StartRequest): Promise<RunDescription> {
    if (this.#open || this.#starting) {
      throw new Error('A run is open in this worker already: stop it before starting another.')
    }
    const problem = refusal(request.config)
    if (problem) throw new Error(problem)
    this.#starting = true
    try {
      const writer = await this.#services.library.open(request.run)
      try {
        return await this.#begin(request, writer)
      } catch (error) {
        await writer.close()
        throw error
      }
    } finally {
      this.#starting = false
    }
  }

  async #begin(request: StartRequest, writer: RunWriter): Promise<RunDescription> {
    const { config } = request
    const earlier = await writer.summary()
    if (earlier && !request.resume) {
      throw new Error(`Run ${request.run} exists already, at step ${earlier.step}: resume it, or choose another name.`)
    }
    const { record, notes } = earlier ? await writer.newestSave() : { record: null, notes: [] }
    const summary: RunSummary = {
      run: request.run,
      name: config.name ?? request.run,
      config,
      state: 'loading',
      reason: null,
      attempt: (earlier?.attempt ?? 0) + 1,
      step: record?.header.step ?? 0,
      created: earlier?.created ?? Date.now(),
      updated: Date.now(),
      seqCeiling: earlier?.seqCeiling ?? 0,
    }
    const { run: name, attempt } = summary
    const log = new EventLog(
      { run: name, attempt, source: request.source ?? 'worker' },
      summary.seqCeiling,
      this.#listeners,
      async (ceiling) => {
        summary.seqCeiling = ceiling
        await writer.describe(summary)
      },
    )
    // A run that has never begun leaves no trace when it cannot begin.
    if (earlier) await log.reserve()
    log.emit({ kind: 'state', state: 'loading' })
    try {
      const loaded = await this.#load(config, record, log)
      if (record) notes.push(...(await restore(record, config, loaded.learner)))
      await writer.cut(record?.header.seq ?? 0)
      await log.reserve()
      this.#open = {
        ...loaded,
        request,
        writer,
        log,
        clock: new SaveClock(seconds()),
        summary,
        progress: record ? resumedProgress(record, config, attempt) : initialProgress(config),
        version: loaded.run.policy.version,
        evaluated: record?.header.evaluated ?? -1,
        savedStep: record?.header.step ?? -1,
        savedEvaluation: record?.header.evaluated ?? -1,
      }
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      log.emit({ kind: 'state', state: 'failed', reason })
      if (earlier) await writer.describe({ ...summary, state: 'failed', reason })
      throw error
    }
    this.#wish = 'pause'
    const open = this.#open
    const description = describe(open, [...notes, ...open.learner.notes, ...runNotes(config)])
    log.emit({ kind: 'started', description, config })
    for (const sentence of description.notes) log.emit({ kind: 'note', level: 'info', sentence })
    await this.#settle(open, 'paused')
    this.#watch(open)
    return description
  }

  async #load(config: RunConfig, record: SaveRecord | null, log: EventLog) {
    const learner = await this.#services.openLearner(config, record?.header.choices ?? null)
    const guard = new EnvironmentGuard(this.#services.connectEnvironment, (sentence) =>
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

  /** A lost device ends the run whether or not a step is under way. */
  #watch(open: OpenRun): void {
    open.learner.lost.then((sentence) => {
      if (this.#open !== open) return
      const error = new DeviceLost(sentence)
      this.#deviceLost?.(error)
      if (!this.#loop) this.#fail(open, error)
    })
  }

  #deviceLost: ((error: DeviceLost) => void) | null = null

  // ── What may be asked of a run ─────────────────────────────────────────────────────────────────────────────────

  async play(): Promise<void> {
    const open = this.#opened()
    this.#wish = 'run'
    this.#loop ??= this.#advance(open)
  }

  async step(): Promise<void> {
    const open = this.#opened()
    this.#wish = 'once'
    this.#loop ??= this.#advance(open)
    await this.#loop
  }

  /** An evaluation under way is broken off, to be done again on play; a step is finished first. */
  async pause(): Promise<void> {
    this.#opened()
    this.#wish = 'pause'
    this.#evaluationAbort.abort(new Interrupted())
    await this.#loop
  }

  /** A step under way is broken off: until its update it has changed nothing. */
  async stop(): Promise<void> {
    const open = this.#open
    if (!open) return
    this.#wish = 'stop'
    this.#evaluationAbort.abort(new Interrupted())
    this.#stepAbort.abort(new Interrupted())
    if (this.#loop) await this.#loop
    else await this.#guarded(open, async () => void (await this.#end(open, 'stopped')))
  }

  save(): Promise<SaveDescription> {
    return this.#atBoundary((open) => this.#save(open))
  }

  exportAdapter(): Promise<ExportedFile[]> {
    return this.#atBoundary((open) => open.learner.export())
  }

  #opened(): OpenRun {
    if (!this.#open) throw new Error('No run is open: start one first.')
    return this.#open
  }

  /** Does something at the next step boundary: at once while nothing runs. */
  #atBoundary<T>(errand: (open: OpenRun) => Promise<T>): Promise<T> {
    const open = this.#opened()
    return new Promise<T>((resolve, reject) => {
      this.#errands.push({ run: () => errand(open).then(resolve, reject), refuse: reject })
      // Without a wish to go on, the loop only runs the errand.
      if (!this.#loop) {
        this.#wish = 'pause'
        this.#loop = this.#advance(open)
      }
    })
  }

  // ── The loop ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** From one pause to the next. Never rejects: a failure is an event and a state. */
  async #advance(open: OpenRun): Promise<void> {
    const lost = new Promise<never>((_, reject) => {
      this.#deviceLost = reject
    })
    lost.catch(() => {})
    await this.#guarded(open, async () => {
      const done = this.#steps(open)
      // After the loss of a device its promises may never settle; whatever they say later is of no interest.
      done.catch(() => {})
      await Promise.race([done, lost])
    })
    this.#deviceLost = null
    this.#loop = null
    if (this.#open === open && this.#errands.length > 0) this.#loop = this.#advance(open)
  }

  async #steps(open: OpenRun): Promise<void> {
    const { max_steps } = open.run.config
    let running = false
    let stepped = false
    for (;;) {
      await this.#runErrands()
      if (this.#wish === 'stop') {
        await this.#end(open, 'stopped')
        return
      }
      if (this.#wish === 'pause' || (this.#wish === 'once' && stepped && open.progress.step < max_steps)) break

      if (!running) open.log.emit({ kind: 'state', state: 'running' })
      running = true
      const due = evaluationIsDue(open.run.config, open.progress.step)
      if (due && open.evaluated < open.progress.step) {
        await this.#evaluate(open)
        continue
      }
      if (open.progress.step < max_steps) stepped = (await this.#step(open)) || stepped
      else if (await this.#end(open, 'finished')) return
    }
    if (running) {
      await this.#saveIfNeeded(open, true)
      await this.#settle(open, 'paused', this.#pauseReason)
    }
    this.#pauseReason = undefined
  }

  #pauseReason: string | undefined

  #pauseBecause(reason: string): void {
    this.#pauseReason = reason
    if (this.#wish !== 'stop') this.#wish = 'pause'
  }

  async #runErrands(): Promise<void> {
    const errands = this.#errands
    this.#errands = []
    for (const errand of errands) await errand.run()
  }

  /** False when it was broken off. */
  async #step(open: OpenRun): Promise<boolean> {
    this.#stepAbort = new AbortController()
    const { run, log } = open
    const index = open.progress.step + 1
    const began = performance.now()
    const { verbs, work, abandon } = createVerbs(run, open.progress, {
      signal: this.#stepAbort.signal,
      onVerb: tellVerbs(log, index),
      onProgress: (phase, done, total, tokens) => {
        const tokensPerSecond = tokens / Math.max(1e-3, (performance.now() - began) / 1000)
        log.progress({ kind: 'progress', step: index, phase, done, total, tokensPerSecond })
      },
    })
    let skipped: string | null = null
    try {
      await step(verbs)
      await rescore(run, work)
    } catch (error) {
      await abandon()
      if (error instanceof Interrupted) return false
      if (!(error instanceof NotFinite)) throw error
      skipped = error.message
      const { skipped: before, skippedInARow } = work.progress
      work.progress = { ...work.progress, skipped: before + 1, skippedInARow: skippedInARow + 1 }
    }
    work.seconds.total = (performance.now() - began) / 1000
    const after = concluded(run, work)
    this.#tellStep(open, work, after, skipped)
    open.progress = after
    open.version = run.policy.version
    open.summary.step = after.step
    this.#considerPausing(after, skipped)
    await this.#flush(open)
    await this.#saveIfNeeded(open, false)
    return true
  }

  #tellStep(open: OpenRun, work: StepWork, after: Progress, skipped: string | null): void {
    const { log, run } = open
    const memory = run.policy.memory()
    const learned = work.updates > 0 && skipped === null
    const note = skipped
      ? `The update was skipped. ${skipped}`
      : learned
        ? undefined
        : 'There was nothing to learn from.'
    log.emit({ kind: 'samples', step: work.index, split: 'train', groups: stepSamples(run.script, work) })
    const metrics = stepReport(work, after, memory.gpuPeakBytes)
    log.emit({ kind: 'step', step: work.index, metrics, seconds: work.seconds, learned, note })
    if (skipped && note) log.emit({ kind: 'note', level: 'warning', sentence: note })
    log.emit({ kind: 'memory', ...memory })
  }

  #considerPausing(after: Progress, skipped: string | null): void {
    if (skipped && after.skippedInARow >= MOST_SKIPPED_UPDATES) {
      this.#pauseBecause(
        `${after.skippedInARow} updates in a row were skipped. ${skipped} ` +
          'Lower the learning rate, or go back to an earlier checkpoint.',
      )
    }
    if (after.emptyInARow >= MOST_EMPTY_STEPS && after.emptyInARow % MOST_EMPTY_STEPS === 0) {
      this.#pauseBecause(
        `${after.emptyInARow} steps in a row left nothing to learn from: every answer scored like its siblings, or was ` +
          'filtered out. The samples say which; a harder or easier task, or a higher temperature, brings differences.',
      )
    }
  }

  async #evaluate(open: OpenRun): Promise<void> {
    this.#evaluationAbort = new AbortController()
    const { run, log } = open
    const index = open.progress.step
    const { num_examples, rollouts_per_example } = run.config.eval
    const total = Math.max(1, num_examples * rollouts_per_example)
    const began = performance.now()
    log.emit({ kind: 'phase', step: index, phase: 'answer', line: 'evaluate', note: 'Held-out questions' })
    try {
      const { questions, metrics } = await evaluate(run, {
        signal: this.#evaluationAbort.signal,
        onProgress: (done) => log.progress({ kind: 'progress', step: index, phase: 'answer', done, total }),
      })
      const took = (performance.now() - began) / 1000
      const environment = run.environments.map(({ name }) => name).join(', ')
      log.emit({ kind: 'samples', step: index, split: 'eval', groups: evaluationSamples(run.script, questions) })
      log.emit({ kind: 'evaluation', step: index, metrics, seconds: took, environment })
    } catch (error) {
      if (error instanceof Interrupted) return
      throw error
    }
    open.evaluated = index
    await this.#flush(open)
    await this.#saveIfNeeded(open, false)
  }

  // ── Saving ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Before a pause whatever is unsaved is saved; in between, when the clock says so or a checkpoint is due. */
  async #saveIfNeeded(open: OpenRun, always: boolean): Promise<void> {
    const { progress, evaluated, savedStep, savedEvaluation, clock } = open
    if (progress.step === savedStep && evaluated === savedEvaluation) return
    const due = progress.step !== savedStep && isCheckpoint(open.run.config, progress.step)
    if (always || due || clock.isDue(seconds())) {
      await this.#orPause(open, async () => {
        await this.#save(open)
      })
    }
  }

  async #save(open: OpenRun): Promise<SaveDescription> {
    const { run, learner, writer, log, clock, progress } = open
    const began = seconds()
    await log.flush(writer)
    const state = await run.policy.state()
    const spoiled = state.trainable.findIndex((value) => !Number.isFinite(value))
    if (spoiled >= 0) {
      throw new Error(
        `The policy is not saved: its trained number ${spoiled} is ${state.trainable[spoiled]}. The save of step ${open.savedStep} stays.`,
      )
    }
    const { config } = run
    const record: SaveRecord = {
      header: {
        run: open.request.run,
        attempt: open.summary.attempt,
        step: progress.step,
        evaluated: open.evaluated,
        seq: log.seq,
        savedAt: Date.now(),
        config,
        model: { name: learner.model.name, hash: learner.model.hash },
        device: { backend: learner.device.backend, adapter: learner.device.adapter },
        optimizerSteps: state.optimizerSteps,
        version: state.version,
        progress,
        choices: learner.choices,
      },
      arrays: { trainable: state.trainable, firstMoment: state.firstMoment, secondMoment: state.secondMoment },
    }
    const { keep_n_checkpoints, keep_every_n_steps } = config.checkpointing
    const kept = isCheckpoint(config, progress.step)
      ? { files: await learner.export(), keepLast: keep_n_checkpoints, keepEvery: keep_every_n_steps }
      : null
    const save = await writer.save(record, kept)
    open.savedStep = progress.step
    open.savedEvaluation = open.evaluated
    clock.saved(seconds(), seconds() - began)
    log.emit({ kind: 'saved', save })
    return save
  }

  async #flush(open: OpenRun): Promise<void> {
    await this.#orPause(open, async () => {
      open.summary.updated = Date.now()
      await open.log.flush(open.writer)
      await open.writer.describe(open.summary)
    })
  }

  /** A full disk pauses the run: nothing is lost, and it goes on when there is room. */
  async #orPause(open: OpenRun, write: () => Promise<void>): Promise<void> {
    try {
      await write()
    } catch (error) {
      if (!(error instanceof StorageFull)) throw error
      open.log.emit({ kind: 'note', level: 'error', sentence: error.message })
      this.#pauseBecause(error.message)
    }
  }

  // ── Ending ─────────────────────────────────────────────────────────────────────────────────────────────────────

  async #settle(open: OpenRun, state: RunState, reason?: string): Promise<void> {
    open.log.emit({ kind: 'state', state, reason })
    Object.assign(open.summary, { state, reason: reason ?? null })
    await this.#flush(open)
  }

  /** False when there was no room for the last save of a finished run: it is paused then, and still open. */
  async #end(open: OpenRun, state: 'finished' | 'stopped'): Promise<boolean> {
    await this.#saveIfNeeded(open, true)
    if (state === 'finished' && open.savedStep !== open.progress.step) return false
    await this.#orPause(open, async () => open.writer.putAdapter(await open.learner.export()))
    await this.#conclude(open, state)
    return true
  }

  async #guarded(open: OpenRun, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      await this.#fail(open, error)
    }
  }

  async #fail(open: OpenRun, error: unknown): Promise<void> {
    if (this.#open !== open) return
    const step = open.progress.step
    // The steps that are done are whole, unless the one under way has changed the policy already.
    const whole = !(error instanceof DeviceLost) && open.run.policy.version === open.version
    if (whole && step > 0 && step !== open.savedStep) await this.#save(open).catch(() => {})
    const said = error instanceof Error ? error.message : String(error)
    const safe =
      open.savedStep < 0
        ? 'Nothing had been saved yet.'
        : `The run is saved up to step ${open.savedStep} and goes on from there when it is resumed.`
    const reason = `Step ${Math.min(step + 1, open.run.config.max_steps)} failed. ${said} ${safe}`
    if (error instanceof Error && !(error instanceof DeviceLost)) console.error(error)
    await this.#conclude(open, 'failed', reason)
  }

  /** The last state of a run: told when all is stored and closed, so that whoever hears it may begin another. */
  async #conclude(open: OpenRun, state: 'finished' | 'stopped' | 'failed', reason?: string): Promise<void> {
    const event = open.log.compose({ kind: 'state', state, reason })
    Object.assign(open.summary, { state, reason: reason ?? null })
    try {
      await this.#flush(open)
      await open.log.settle()
    } catch (error) {
      // A run that has failed already must still be closed.
      if (state !== 'failed') throw error
    }
    await this.#close(open)
    open.log.announce(event)
  }

  async #close(open: OpenRun): Promise<void> {
    this.#open = null
    open.guard.close()
    try {
      open.learner.dispose()
    } catch {
      // A lost device may refuse to be put away.
    }
    await open.writer.close()
    const errands = this.#errands
    this.#errands = []
    for (const { refuse } of errands) refuse(new Error(`Run ${open.request.run} has ended.`))
  }
}

/** Not a failure: somebody asked for it. */
class Interrupted extends Error {
  override name = 'Interrupted'
}

class DeviceLost extends Error {
  override name = 'DeviceLost'
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

function differingKeys(a: RunConfig, b: RunConfig): string[] {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]) as Set<keyof RunConfig>
  return [...keys].filter((key) => JSON.stringify(a[key]) !== JSON.stringify(b[key]))
}

function resumedProgress({ header }: SaveRecord, config: RunConfig, attempt: number): Progress {
  const progress = header.progress as Progress
  const random = new RandomStream(config.seed).fork('returned examples', attempt)
  return { ...progress, pools: returnFractions(progress.pools, config.buffer, () => random.next()) }
}

function describe({ request, summary, progress, learner }: OpenRun, notes: string[]): RunDescription {
  return {
    run: request.run,
    attempt: summary.attempt,
    step: progress.step,
    maxSteps: request.config.max_steps,
    model: learner.model,
    device: learner.device,
    capabilities: { pause: true, step: true, save: true, exportAdapter: true, tokens: true },
    notes,
  }
}

/** A loop's verbs follow one another faster than anybody can watch: each is told once, and then ten times a second. */
function tellVerbs(log: EventLog, index: number): (phase: Phase, verb: string) => void {
  const told = new Set<string>()
  let last = 0
  return (phase, verb) => {
    const now = performance.now()
    if (told.has(verb) && now - last < 100) return
    told.add(verb)
    last = now
    log.emit({ kind: 'phase', step: index, phase, line: verb })
  }
}

function seconds(): number {
  return performance.now() / 1000
}
