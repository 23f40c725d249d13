// A whole run: starts or resumes it, takes its steps, evaluates, saves, and tells what happens as events. What a step
// does is step.ts; how a device, a model, an environment and a disk are obtained is the host's business, who hands them
// in.

import { evaluationIsDue } from './evaluate.ts'
import type { ExportedFile, RunDescription, RunEvent, SaveDescription, StartRequest, Trainer } from './protocol.ts'
import { StorageFull } from './storage/store.ts'
import { forgetAnswers } from './trainer/ahead.ts'
import { refusal } from './trainer/configNotes.ts'
import { KernelWatch } from './trainer/kernelWatch.ts'
import { type OpenRun, openRun, type TrainerServices } from './trainer/openRun.ts'
import { isUnsaved, saveIsDue, saveRun, saveToTake } from './trainer/saving.ts'
import { Interrupted, takeEvaluation, takeStep } from './trainer/takeStep.ts'

export type { FetchProgress, Learner, TrainerServices } from './trainer/openRun.ts'

type Wish = 'run' | 'once' | 'pause' | 'stop'

interface Errand {
  run(): Promise<void>
  /** The run has ended before its turn came. */
  refuse(error: Error): void
}

export class LocalTrainer implements Trainer {
  #services: TrainerServices
  #listeners = new Set<(event: RunEvent) => void>()
  #starting = false
  #open: OpenRun | null = null
  #wish: Wish = 'pause'
  /** From one pause to the next; null while the run is paused. */
  #loop: Promise<void> | null = null
  #pauseReason: string | null = null
  /** Breaks off the step under way, or only the evaluation under way. */
  #stepAbort = new AbortController()
  #evaluationAbort = new AbortController()
  #deviceLost: (loss: DeviceLost) => void = () => {}
  /** What is being stored beside the step under way. */
  #kept: Promise<void> = Promise.resolve()
  /** What was asked for at the next step boundary. */
  #errands: Errand[] = []
  #kernels = new KernelWatch()

  constructor(services: TrainerServices) {
    this.#services = services
  }

  async subscribe(listener: (event: RunEvent) => void): Promise<void> {
    this.#listeners.add(listener)
  }

  async start(request: StartRequest): Promise<RunDescription> {
    if (this.#open || this.#starting) {
      throw new Error('A run is open in this worker already: stop it before starting another.')
    }
    const problem = refusal(request.config)
    if (problem) throw new Error(problem)
    this.#starting = true
    try {
      const open = await openRun(this.#services, request, this.#listeners)
      this.#open = open
      this.#kernels = new KernelWatch()
      this.#kept = Promise.resolve()
      this.#wish = 'pause'
      const { description, log } = open
      log.emit({ kind: 'started', description, config: request.config })
      for (const sentence of description.notes) log.emit({ kind: 'note', level: 'info', sentence })
      try {
        await this.#pauseHere(open)
      } catch (error) {
        await this.#fail(open, error)
        throw error
      }
      this.#watchDevice(open)
      return description
    } finally {
      this.#starting = false
    }
  }

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

  /** A step under way is finished first; an evaluation is broken off, to be done again on play. */
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
    this.#loop ??= this.#advance(open)
    await this.#loop
  }

  save(): Promise<SaveDescription> {
    return this.#atBoundary(saveRun)
  }

  exportAdapter(): Promise<ExportedFile[]> {
    return this.#atBoundary(({ learner }) => learner.export())
  }

  exportSave(): Promise<ExportedFile[]> {
    return this.#atBoundary(saveToTake)
  }

  timeKernels(on: boolean): Promise<void> {
    return this.#atBoundary((open) => this.#kernels.turn(open, on))
  }

  #opened(): OpenRun {
    if (!this.#open) throw new Error('No run is open: start one first.')
    return this.#open
  }

  /** Does something at the next step boundary: at once while the run is paused. */
  #atBoundary<T>(errand: (open: OpenRun) => Promise<T>): Promise<T> {
    const open = this.#opened()
    return new Promise<T>((resolve, reject) => {
      this.#errands.push({ run: () => errand(open).then(resolve, reject), refuse: reject })
      this.#loop ??= this.#advance(open)
    })
  }

  // ── From one pause to the next ─────────────────────────────────────────────────────────────────────────────────

  /** Never rejects: a failure is a state of the run. */
  async #advance(open: OpenRun): Promise<void> {
    do {
      const lost = new Promise<never>((_, reject) => {
        this.#deviceLost = reject
      })
      const steps = this.#steps(open)
      // After the loss of a device its promises may never settle, and what they say later is of no interest.
      for (const promise of [lost, steps]) promise.catch(() => {})
      await Promise.race([steps, lost]).catch((error) => this.#fail(open, error))
    } while (this.#open === open && (this.#errands.length > 0 || this.#wish !== 'pause'))
    this.#loop = null
  }

  async #steps(open: OpenRun): Promise<void> {
    const { config } = open.run
    let running = false
    let stepped = false
    for (;;) {
      await this.#runErrands()
      const { step } = open.progress
      if (this.#wish === 'stop') {
        await this.#end(open, 'stopped')
        return
      }
      if (this.#wish === 'pause' || (this.#wish === 'once' && stepped && step < config.max_steps)) break

      if (!running) {
        Object.assign(open.summary, { state: 'running', reason: null })
        open.log.emit({ kind: 'state', state: 'running' })
      }
      running = true
      if (evaluationIsDue(config, step) && open.evaluated < step) await this.#evaluate(open)
      else if (step < config.max_steps) stepped = (await this.#step(open)) || stepped
      else if (await this.#end(open, 'finished')) return
    }
    if (this.#wish === 'once') this.#wish = 'pause'
    if (!running) return
    await this.#keep(open, isUnsaved(open))
    await this.#pauseHere(open)
  }

  async #step(open: OpenRun): Promise<boolean> {
    this.#stepAbort = new AbortController()
    const { done, pause } = await this.#kernels.over(open, () => takeStep(open, this.#stepAbort.signal))
    if (pause !== null) this.#pauseBecause(pause)
    if (!done) return false
    if (saveIsDue(open)) await this.#keep(open, true)
    else await this.#keepMeanwhile(open)
    return true
  }

  async #evaluate(open: OpenRun): Promise<void> {
    this.#evaluationAbort = new AbortController()
    const done = await this.#kernels.over(open, () => takeEvaluation(open, this.#evaluationAbort.signal))
    if (done) await this.#keep(open, saveIsDue(open))
  }

  async #runErrands(): Promise<void> {
    const errands = this.#errands
    this.#errands = []
    for (const errand of errands) await errand.run()
  }

  #pauseBecause(reason: string): void {
    this.#pauseReason = reason
    if (this.#wish !== 'stop') this.#wish = 'pause'
  }

  /** Told when all is stored. */
  async #pauseHere(open: OpenRun): Promise<void> {
    Object.assign(open.summary, { state: 'paused', reason: this.#pauseReason })
    await this.#keep(open, false)
    open.log.emit({ kind: 'state', state: 'paused', reason: this.#pauseReason ?? undefined })
    this.#pauseReason = null
  }

  /** Stores what has been told so far, and saves if asked to. A full disk pauses the run: nothing is lost. */
  async #keep(open: OpenRun, save: boolean): Promise<void> {
    const { log, writer, summary } = open
    await this.#kept
    try {
      summary.updated = Date.now()
      await log.flush(writer)
      if (save) await saveRun(open)
      await writer.describe(summary)
    } catch (error) {
      if (!(error instanceof StorageFull)) throw error
      // On the way to the pause the same is found out once more.
      if (this.#pauseReason !== error.message)
        log.emit({ kind: 'note', level: 'error', sentence: error.message, about: 'storage' })
      this.#pauseBecause(error.message)
    }
  }

  /** As `#keep`, while the next step goes on, one step at most; what goes wrong is met at the boundary after it. */
  async #keepMeanwhile(open: OpenRun): Promise<void> {
    await this.#kept
    this.#kept = this.#keep(open, false)
    this.#kept.catch(() => {})
  }

  // ── The end ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** False when there was no room for the last save of a finished run: it is paused then, and still open. */
  async #end(open: OpenRun, state: 'finished' | 'stopped'): Promise<boolean> {
    await this.#keep(open, isUnsaved(open))
    if (state === 'finished' && isUnsaved(open)) return false
    const { writer, learner } = open
    await writer.putAdapter(await learner.export()).catch((error) => {
      if (!(error instanceof StorageFull)) throw error
      open.log.emit({ kind: 'note', level: 'error', sentence: error.message, about: 'storage' })
    })
    await this.#conclude(open, state)
    return true
  }

  async #fail(open: OpenRun, error: unknown): Promise<void> {
    if (this.#open !== open) return
    const { progress, run } = open
    // The steps that are done are whole, unless the one under way has changed the policy already.
    const whole = !(error instanceof DeviceLost) && run.policy.version === open.version
    if (whole && progress.step > 0 && isUnsaved(open)) await saveRun(open).catch(() => {})
    const what = progress.step < run.config.max_steps ? `Step ${progress.step + 1}` : 'The last evaluation'
    const safe =
      open.saved.step < 0
        ? 'Nothing had been saved yet.'
        : `The run is saved up to step ${open.saved.step} and goes on from there when it is resumed.`
    if (isBug(error)) console.error(error)
    await this.#conclude(open, 'failed', `${what} failed. ${sentence(error)} ${safe}`)
  }

  /** The last state of a run: told when all is stored and closed, so that whoever hears it may begin another. */
  async #conclude(open: OpenRun, state: 'finished' | 'stopped' | 'failed', reason?: string): Promise<void> {
    const { log, summary, guard, learner, writer } = open
    const event = log.compose({ kind: 'state', state, reason })
    Object.assign(summary, { state, reason: reason ?? null })
    try {
      await this.#keep(open, false)
      await log.settle()
    } catch (error) {
      // A run that has failed already must still be closed.
      if (state !== 'failed') throw error
    }
    this.#open = null
    guard.close()
    try {
      await forgetAnswers(open.ahead)
      learner.dispose()
    } catch {
      // A lost device may refuse to be put away.
    }
    await writer.close()
    const errands = this.#errands
    this.#errands = []
    for (const { refuse } of errands) refuse(new Error(`Run ${open.request.run} has ended.`))
    log.announce(event)
  }

  /** A lost device ends the run whether or not a step is under way. */
  #watchDevice(open: OpenRun): void {
    open.learner.lost.then((said) => {
      if (this.#open !== open) return
      const loss = new DeviceLost(said)
      if (this.#loop) this.#deviceLost(loss)
      else this.#fail(open, loss)
    })
  }
}

class DeviceLost extends Error {
  override name = 'DeviceLost'
}

/** Whoever mends it needs the stack; everything else is told in a sentence. */
function isBug(error: unknown): boolean {
  if (!(error instanceof Error)) return true
  return error instanceof TypeError || error instanceof RangeError || error.message.startsWith('internal')
}

function sentence(error: unknown): string {
  const said = error instanceof Error ? error.message : String(error)
  return /[.!?…]$/.test(said) ? said : `${said}.`
}
