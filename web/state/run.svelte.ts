// One run as its events tell it: the page's only source for charts, samples and diagnosis. Knows no trainer, so a run
// in this tab, a stored one and one on a cluster look alike.

import type { RunConfig } from '../../configs/schema.ts'
import type { GroupRecord, Metrics, Phase, RunDescription, RunEvent, RunEventBody } from '../../workers/protocol.ts'

export type RunState = Extract<RunEventBody, { kind: 'state' }>['state']

/** One finished step; the first has number 1. */
export interface StepPoint {
  step: number
  metrics: Metrics
  seconds: Record<Phase | 'total', number>
  learned: boolean
  note?: string
}

/** Held-out numbers after `step` updates; 0 is before the first. */
export interface EvaluationPoint {
  step: number
  metrics: Metrics
  environment: string
}

export interface Note {
  level: 'info' | 'warning' | 'error'
  sentence: string
  seq: number
}

export interface Fetching {
  file: string
  doneBytes: number
  totalBytes: number | null
}

export interface Moment {
  step: number
  phase: Phase
  line: string
  done: number
  total: number
}

export interface Memory {
  gpuBytes: number
  gpuPeakBytes: number
  tensors: number
  buffers: number
}

export type KernelTimes = Extract<RunEventBody, { kind: 'kernels' }>

export type Split = 'train' | 'eval'

/** Training samples of so many steps stay in the tab's memory; older ones are read back from storage when looked at. */
const SAMPLES_KEPT = 60

export class Run {
  readonly id: string

  #state = $state<RunState>('loading')
  #reason = $state<string | null>(null)
  #description = $state.raw<RunDescription | null>(null)
  #config = $state.raw<RunConfig | null>(null)
  #steps = $state.raw<StepPoint[]>([])
  #evaluations = $state.raw<EvaluationPoint[]>([])
  #sampleSteps = $state.raw<Record<Split, number[]>>({ train: [], eval: [] })
  #samples = $state.raw<Record<Split, ReadonlyMap<number, GroupRecord[]>>>({ train: new Map(), eval: new Map() })
  #notes = $state.raw<Note[]>([])
  #moment = $state.raw<Moment | null>(null)
  #lineNotes = $state.raw<Record<string, string>>({})
  #memory = $state.raw<Memory | null>(null)
  #kernels = $state.raw<KernelTimes | null>(null)
  #saved = $state<number | null>(null)
  #tokensPerSecond = $state<number | null>(null)
  #fetching = $state.raw<Fetching | null>(null)
  #noRoom = $state(false)
  #lastSeq = -1

  constructor(id: string) {
    this.id = id
  }

  get state() {
    return this.#state
  }
  /** Why the run is in this state, in a sentence, where the trainer said so. */
  get reason() {
    return this.#reason
  }
  get description() {
    return this.#description
  }
  get config() {
    return this.#config
  }
  get steps() {
    return this.#steps
  }
  get evaluations() {
    return this.#evaluations
  }
  /** Steps of which samples exist, increasing. */
  get sampleSteps() {
    return this.#sampleSteps
  }
  get notes() {
    return this.#notes
  }
  /** What the trainer is doing now; null between runs. */
  get moment() {
    return this.#moment
  }
  /** What the lines of this step have said so far, by line marker. */
  get lineNotes() {
    return this.#lineNotes
  }
  get memory() {
    return this.#memory
  }
  /** GPU time by kernel; null where it was never asked for. */
  get kernels() {
    return this.#kernels
  }
  /** Steps in the newest save. */
  get saved() {
    return this.#saved
  }
  /** A file of the model on its way; null at all other times. */
  get fetching() {
    return this.#fetching
  }
  /** Storage was full when this run was last to be stored. */
  get noRoom() {
    return this.#noRoom
  }
  get tokensPerSecond() {
    return this.#tokensPerSecond
  }

  readonly last = $derived(this.#steps.at(-1) ?? null)
  readonly maxSteps = $derived(this.#description?.maxSteps ?? this.#config?.max_steps ?? 0)
  /** Steps finished. */
  readonly done = $derived(Math.max(this.last?.step ?? 0, this.#description?.step ?? 0))
  readonly live = $derived(['loading', 'paused', 'running'].includes(this.#state))
  /** Mean seconds of the last five steps; null before the first. */
  readonly secondsPerStep = $derived.by(() => {
    const recent = this.#steps.slice(-5)
    return recent.length ? recent.reduce((sum, point) => sum + point.seconds.total, 0) / recent.length : null
  })
  readonly secondsLeft = $derived(
    this.secondsPerStep === null ? null : Math.max(0, this.maxSteps - this.done) * this.secondsPerStep,
  )
  /** The groups of a step; null where they do not lie in memory. */
  samples(step: number, split: Split): GroupRecord[] | null {
    return this.#samples[split].get(step) ?? null
  }

  take(event: RunEvent): void {
    if (event.run !== this.id || event.seq <= this.#lastSeq) return
    this.#lastSeq = event.seq
    switch (event.kind) {
      case 'started':
        this.#description = event.description
        this.#config = event.config
        this.#kernels = null
        this.#cut(event.description.step)
        break
      case 'state':
        this.#state = event.state
        this.#reason = event.reason ?? null
        if (event.state !== 'running') this.#moment = null
        else this.#noRoom = false
        this.#fetching = null
        break
      case 'fetch':
        this.#fetching = event
        break
      case 'phase':
        if (event.step !== this.#moment?.step) this.#lineNotes = {}
        this.#moment = { step: event.step, phase: event.phase, line: event.line, done: 0, total: 0 }
        if (event.note) this.#lineNotes = { ...this.#lineNotes, [event.line]: event.note }
        break
      case 'progress':
        if (this.#moment) this.#moment = { ...this.#moment, done: event.done, total: event.total }
        if (event.tokensPerSecond) this.#tokensPerSecond = event.tokensPerSecond
        break
      case 'step':
        this.#steps = [...this.#steps, event]
        break
      case 'samples':
        this.keep(event.step, event.split, event.groups)
        break
      case 'evaluation':
        this.#evaluations = [...this.#evaluations, event]
        break
      case 'saved':
        this.#saved = event.save.step
        break
      case 'note':
        this.#notes = [...this.#notes, { level: event.level, sentence: event.sentence, seq: event.seq }]
        if (event.about === 'storage') this.#noRoom = true
        break
      case 'memory':
        this.#memory = event
        break
      case 'kernels':
        this.#kernels = event
        break
    }
  }

  /** A stored run stands still, whatever its last event said. */
  rest(state: RunState, reason: string | null): void {
    const cutOff = ['loading', 'running', 'paused'].includes(state)
    this.#state = cutOff ? 'stopped' : state
    this.#reason = cutOff ? null : reason
  }

  /** A trainer is being asked to take it up. */
  wake(): void {
    this.#state = 'loading'
    this.#reason = null
  }

  /** The trainer is gone without a last word: its worker died or the tab was reloaded. */
  lose(reason: string): void {
    this.#state = 'failed'
    this.#reason = reason
    this.#moment = null
    this.#fetching = null
  }

  /** Brings back samples that storage kept, or adds those that an event carries. */
  keep(step: number, split: Split, groups: GroupRecord[]): void {
    if (!this.#sampleSteps[split].includes(step)) {
      const steps = [...this.#sampleSteps[split], step].sort((a, b) => a - b)
      this.#sampleSteps = { ...this.#sampleSteps, [split]: steps }
    }
    // A stored event names the step only; its groups are read when somebody looks.
    if (!groups.length) return
    const samples = new Map(this.#samples[split]).set(step, groups)
    if (split === 'train') for (const old of [...samples.keys()].slice(0, -SAMPLES_KEPT)) samples.delete(old)
    this.#samples = { ...this.#samples, [split]: samples }
  }

  // A resumed run continues from its save: what was shown past it happens again.
  #cut(done: number): void {
    const stays = ({ step }: { step: number }) => step <= done
    this.#steps = this.#steps.filter(stays)
    this.#evaluations = this.#evaluations.filter(stays)
    const filtered = (split: Split) => new Map([...this.#samples[split]].filter(([step]) => step <= done))
    this.#samples = { train: filtered('train'), eval: filtered('eval') }
    this.#sampleSteps = {
      train: this.#sampleSteps.train.filter((step) => step <= done),
      eval: this.#sampleSteps.eval.filter((step) => step <= done),
    }
  }
}
