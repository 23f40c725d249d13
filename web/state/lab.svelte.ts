// The page's whole state and everything that a button does. Components draw it and call it; it draws nothing.

import { getContext, setContext } from 'svelte'
import type { RunConfig } from '../../configs/schema.ts'
import type { ExportedFile } from '../../workers/protocol.ts'
import type { Connection, OpenTrainer } from '../connect.ts'
import { saveFile } from '../download.ts'
import { Device } from './device.svelte.ts'
import { Draft } from './draft.svelte.ts'
import { Run, type Split } from './run.svelte.ts'
import { Selection } from './selection.svelte.ts'
import type { Server } from './server.svelte.ts'
import { Shelf } from './shelf.svelte.ts'
import { Theme } from './theme.svelte.ts'

/** Between a click and the trainer's word that it happened. */
type Pending = 'starting' | 'pausing' | 'stopping' | null

/** Evaluations whose samples are read back for a stored run. */
const HELD_OUT_READ = 12

export type View = 'run' | 'samples' | 'config'
export type Drawer = 'metrics' | 'runs' | 'device' | 'models' | null

export class Lab {
  readonly connection: Connection
  readonly theme = new Theme()
  readonly draft = new Draft()
  readonly device = new Device()
  readonly shelf: Shelf
  readonly selection: Selection
  /** null where a static folder sent the page. */
  readonly server: Server | null

  #run = $state.raw<Run | null>(null)
  #opened = $state.raw<OpenTrainer | null>(null)
  #pending = $state<Pending>(null)
  #problem = $state<string | null>(null)
  #askedForSlow = $state(false)

  /** Narrow screens show one of these at a time. */
  view = $state<View>('run')
  drawer = $state<Drawer>(null)

  constructor(connection: Connection, server: Server | null = null) {
    this.connection = connection
    this.server = server
    this.shelf = new Shelf(connection)
    this.selection = new Selection(() => this.#run)
  }

  get run() {
    return this.#run
  }
  get pending() {
    return this.#pending
  }
  /** What went wrong outside a run, as a sentence. */
  get problem() {
    return this.#problem
  }
  /** Play was pressed where only a slow backend works: the choice stands on the page. */
  get askedForSlow() {
    return this.#askedForSlow
  }

  /** The run on the page is one that this tab drives. */
  readonly driven = $derived(this.#opened !== null && (this.#run?.live ?? false))
  readonly running = $derived(this.driven && this.#run?.state === 'running')
  readonly canPlay = $derived(
    this.#pending === null &&
      !this.running &&
      (this.driven ? this.#run?.state === 'paused' : this.draft.config !== null),
  )
  readonly canPause = $derived(
    this.#pending === null && this.running && this.#run?.description?.capabilities.pause !== false,
  )
  readonly canStep = $derived(this.canPlay && this.#run?.description?.capabilities.step !== false)
  readonly canStop = $derived(this.driven && this.#pending !== 'stopping')
  /** Knobs in which the draft differs from the run on the page; they wait for a new run. */
  readonly waiting = $derived.by(() =>
    this.#run?.config && this.driven ? this.draft.differencesFrom(this.#run.config) : [],
  )

  async play(): Promise<void> {
    if (!this.canPlay) return
    if (this.driven) await this.#ask(() => this.#opened!.trainer.play())
    else await this.#begin('play')
  }

  async pause(): Promise<void> {
    if (!this.canPause) return
    this.#pending = 'pausing'
    await this.#ask(() => this.#opened!.trainer.pause())
  }

  async toggle(): Promise<void> {
    await (this.running ? this.pause() : this.play())
  }

  async step(): Promise<void> {
    if (!this.canStep) return
    if (this.driven) await this.#ask(() => this.#opened!.trainer.step())
    else await this.#begin('step')
  }

  async stop(): Promise<void> {
    if (!this.canStop) return
    this.#pending = 'stopping'
    await this.#ask(() => this.#opened!.trainer.stop())
    this.#close()
    await this.shelf.refresh()
  }

  /** Stops what runs, and starts the draft from its first step. */
  async startAnew(): Promise<void> {
    if (this.driven) await this.stop()
    await this.#begin('play')
  }

  /** Plays although no fast device is there: the trainer takes the best of what is. */
  async acceptSlow(): Promise<void> {
    this.device.accept()
    this.#askedForSlow = false
    await this.#begin('play')
  }

  /** Shows a run that storage keeps. Its config fills the form. */
  async open(id: string): Promise<void> {
    if (this.driven && this.#run?.id === id) return
    if (this.driven) await this.stop()
    await this.#try(async () => {
      const runs = await this.connection.runs()
      const summary = (await runs.list()).find((one) => one.run === id)
      if (!summary) throw new Error('This run is not in this browser any more.')
      const run = new Run(id)
      for (const event of await runs.events(id)) run.take(event)
      run.rest(summary.state, summary.reason)
      this.#run = run
      this.selection.follow()
      this.draft.showConfig(summary.config)
      this.drawer = null
    })
  }

  /** Continues the run on the page, or the named one, from its newest save. */
  async resume(id: string): Promise<void> {
    if (this.#run?.id !== id) await this.open(id)
    const run = this.#run
    if (run?.id === id && run.config) await this.#start(run, run.config, true, 'play')
  }

  async remove(id: string): Promise<void> {
    if (this.#run?.id === id) {
      if (this.driven) await this.stop()
      this.#run = null
    }
    await this.#try(async () => (await this.connection.runs()).remove(id))
    await this.shelf.refresh()
  }

  /** Reads samples that are not in memory, if there are any to read. */
  async fetchSamples(): Promise<void> {
    const { step, split, groups } = this.selection
    const run = this.#run
    if (!run || step === null) return
    const wanted: [number, Split][] = groups === null ? [[step, split]] : []
    // Held-out samples are few, and one prompt is followed through all of them.
    for (const at of run.sampleSteps.eval.slice(-HELD_OUT_READ)) if (!run.samples(at, 'eval')) wanted.push([at, 'eval'])
    for (const [at, which] of wanted) {
      if (run.samples(at, which)) continue
      const event = await (await this.connection.runs()).samples(run.id, at, which)
      if (event) run.keep(event.step, event.split, event.groups)
    }
  }

  async downloadAdapter(id: string): Promise<void> {
    await this.#try(async () => {
      const files =
        this.driven && this.#run?.id === id
          ? await this.#opened!.trainer.exportAdapter()
          : await this.#storedAdapter(id)
      if (!files.length) throw new Error('This run has kept no adapter yet: it is written when a run ends or is saved.')
      for (const file of files) saveFile(`${id}-${file.name}`, file.bytes)
    })
  }

  /** One line per step: `{ step, time, …metrics }`, as in a run folder. */
  downloadMetrics(): void {
    const run = this.#run
    if (!run) return
    const lines = run.steps.map(({ step, metrics }) => JSON.stringify({ step, ...metrics }))
    saveFile(`${run.id}-metrics.jsonl`, new TextEncoder().encode(`${lines.join('\n')}\n`))
  }

  dismiss(): void {
    this.#problem = null
    this.#askedForSlow = false
  }

  async #storedAdapter(id: string): Promise<ExportedFile[]> {
    const runs = await this.connection.runs()
    const files = await runs.adapter(id)
    if (files.length) return files
    const newest = (await runs.files(id)).checkpoints.at(-1)
    return newest === undefined
      ? []
      : (await runs.checkpoint(id, newest)).filter(({ name }) => name.startsWith('adapter'))
  }

  async #begin(then: 'play' | 'step'): Promise<void> {
    const config = this.draft.config
    if (!config) return
    if (this.device.isSlowFor(config) && !this.device.accepted) {
      this.#askedForSlow = true
      return
    }
    this.#run = new Run(newRunId(config, this.draft.recipe?.id))
    this.selection.follow()
    await this.#start(this.#run, config, false, then)
  }

  async #start(run: Run, config: RunConfig, resume: boolean, then: 'play' | 'step'): Promise<void> {
    this.#close()
    this.#problem = null
    this.#pending = 'starting'
    this.view = 'run'
    run.wake()
    const started = await this.#try(async () => {
      const opened = await this.connection.open()
      this.#opened = opened
      opened.lost.then((sentence) => {
        if (this.#opened !== opened) return
        run.lose(sentence)
        this.#close()
      })
      await opened.trainer.subscribe((event) => this.#take(run, event))
      const description = await opened.trainer.start({
        run: run.id,
        config: $state.snapshot(config) as RunConfig,
        resume,
        source: 'tab',
      })
      this.device.learn(description.device)
      await (then === 'play' ? opened.trainer.play() : opened.trainer.step())
    })
    if (!started) {
      if (run.live) run.lose(this.#problem ?? 'The run did not start.')
      this.#problem = null
      this.#close()
    }
    this.#pending = null
  }

  #take(run: Run, event: Parameters<Run['take']>[0]): void {
    run.take(event)
    if (event.kind === 'step' && run.config && run.secondsPerStep) this.device.remember(run.config, run.secondsPerStep)
    if (event.kind !== 'state') return
    if (this.#pending === 'pausing' && event.state !== 'running') this.#pending = null
    if (event.state === 'finished' || event.state === 'failed') {
      this.#close()
      void this.shelf.refresh()
    }
  }

  async #ask(action: () => Promise<unknown>): Promise<void> {
    await this.#try(action)
    this.#pending = null
  }

  async #try(action: () => Promise<unknown>): Promise<boolean> {
    try {
      await action()
      return true
    } catch (error) {
      this.#problem = error instanceof Error ? error.message : String(error)
      return false
    }
  }

  #close(): void {
    this.#opened?.close()
    this.#opened = null
    this.#pending = null
  }
}

/** `reverse-text-2026-11-21-14.05.09-k3f`: readable, and sorted by time among runs of one name. */
function newRunId(config: RunConfig, recipe: string | undefined): string {
  const name = (config.name ?? recipe ?? config.env[0]?.id ?? 'run').toLowerCase().replace(/[^a-z0-9]+/g, '-')
  const now = new Date(Date.now() - new Date().getTimezoneOffset() * 60_000).toISOString()
  const random = Math.random().toString(36).slice(2, 5)
  return `${name.split('/').at(-1)}-${now.slice(0, 10)}-${now.slice(11, 19).replaceAll(':', '.')}-${random}`
}

const KEY = Symbol('lab')

export function provideLab(lab: Lab): Lab {
  return setContext(KEY, lab)
}

export function useLab(): Lab {
  return getContext<Lab>(KEY)
}
