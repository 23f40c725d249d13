// The page's whole state and everything that a button does. Components draw it and call it; it draws nothing.

import { getContext, setContext } from 'svelte'
import type { RunConfig } from '../../configs/schema.ts'
import type { ExportedFile } from '../../workers/protocol.ts'
import { type Connect, type OpenTrainer, openStoreroom, type RunLine, type Target } from '../connect.ts'
import { saveFile } from '../download.ts'
import { Device } from './device.svelte.ts'
import { Draft } from './draft.svelte.ts'
import { Place } from './place.svelte.ts'
import { Run, type Split } from './run.svelte.ts'
import { Selection } from './selection.svelte.ts'
import type { Server } from './server.svelte.ts'
import { StoreroomState } from './storeroom.svelte.ts'
import { Theme } from './theme.svelte.ts'

/** Between a click and the trainer's word that it happened. */
type Pending = 'starting' | 'pausing' | 'stopping' | null

/** Evaluations whose samples are read back for a stored run. */
const HELD_OUT_READ = 12

export type View = 'run' | 'samples' | 'config'
export type Drawer = 'metrics' | 'runs' | 'device' | 'models' | 'storage' | null

export class Lab {
  readonly tab: Place
  /** null where a static folder sent the page, as is `server`. */
  readonly remote: Place | null
  readonly server: Server | null
  readonly theme = new Theme()
  readonly draft = new Draft()
  readonly device = new Device()
  readonly storeroom = new StoreroomState(openStoreroom)
  readonly selection: Selection

  #target = $state<Target['kind']>('tab')
  /** Of the run on the page. */
  #place = $state.raw<Place>() as Place
  #run = $state.raw<Run | null>(null)
  #opened = $state.raw<OpenTrainer | null>(null)
  #pending = $state<Pending>(null)
  #problem = $state<string | null>(null)
  #askedForSlow = $state(false)

  /** Narrow screens show one of these at a time. */
  view = $state<View>('run')
  drawer = $state<Drawer>(null)

  constructor(connect: Connect, server: Server | null = null) {
    this.tab = new Place(connect({ kind: 'tab' }))
    this.remote = server && new Place(connect({ kind: 'server', ...server.line }))
    this.server = server
    this.#place = this.tab
    this.selection = new Selection(() => this.#run)
  }

  /** Where the next run will be. */
  get target() {
    return this.#target
  }
  /** Where the run on the page is. */
  get place() {
    return this.#place
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

  /** Where the next run will be, as a place. */
  readonly there = $derived.by(() => (this.#target === 'server' && this.remote ? this.remote : this.tab))
  /** The run on the page is one that this tab drives, or that it follows on a server. */
  readonly driven = $derived(this.#opened !== null && (this.#run?.live ?? false))
  readonly running = $derived(this.driven && this.#run?.state === 'running')
  /** The server has been asked, and takes this config. */
  readonly mayBegin = $derived.by(
    () => this.#target === 'tab' || (this.server?.session.signedIn && this.server.offer.takes) === true,
  )
  readonly canPlay = $derived(
    this.#pending === null &&
      !this.running &&
      (this.driven ? this.#run?.state === 'paused' : this.draft.config !== null && this.mayBegin),
  )
  readonly canPause = $derived(
    this.#pending === null && this.running && this.#run?.description?.capabilities.pause !== false,
  )
  readonly canStep = $derived(
    this.canPlay && this.#target === 'tab' && this.#run?.description?.capabilities.step !== false,
  )
  readonly canChoose = $derived.by(() => this.remote !== null && !(this.driven && this.#place.isTab))
  readonly canStop = $derived(this.driven && this.#pending !== 'stopping')
  /** Knobs in which the draft differs from the run on the page; they wait for a new run. */
  readonly waiting = $derived.by(() =>
    this.#run?.config && this.driven ? this.draft.differencesFrom(this.#run.config) : [],
  )

  /** Finds out who one is at the server, and whether it is at work. */
  async greetServer(): Promise<void> {
    const { server, remote } = this
    if (!server || !remote) return
    await server.session.open()
    if (server.session.signedIn) await remote.shelf.refresh()
  }

  /** Runs from now on are begun there. A run in this tab is left to be stopped by whoever started it. */
  choose(target: Target['kind']): void {
    if (target === this.#target || !this.canChoose) return
    this.#target = target
    this.#problem = null
    this.#askedForSlow = false
    // A run on a server goes on by itself.
    if (this.driven) this.#close()
    this.#run = null
    this.#place = this.there
    this.selection.follow()
  }

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
    // A server may take a while to end a run: its last events are still to come.
    if (this.#place.isTab) this.#close()
    await this.#place.shelf.refresh()
  }

  /** Stops what runs in this tab, or looks away from what runs elsewhere, and starts the draft from its first step. */
  async startAnew(): Promise<void> {
    await this.#leave()
    await this.#begin('play')
  }

  /** Plays although no fast device is there: the trainer takes the best of what is. */
  async acceptSlow(): Promise<void> {
    this.device.accept()
    this.#askedForSlow = false
    await this.#begin('play')
  }

  /** Shows a run that is kept somewhere; one that a server is at work on is followed. Its config fills the form. */
  async open(id: string, place: Place = this.#place): Promise<void> {
    if (this.driven && this.#run?.id === id) return
    await this.#leave()
    await this.#try(async () => {
      const runs = await place.connection.runs()
      const summary = (await runs.list()).find((one) => one.run === id)
      if (!summary) throw new Error(`This run is not ${place.isTab ? 'in this browser' : 'on the server'} any more.`)
      const config = await runs.config(id)
      const run = new Run(id)
      for (const event of await runs.events(id)) run.take(event)
      this.#run = run
      this.#place = place
      this.#target = place.connection.kind
      this.selection.follow()
      this.draft.showConfig(config)
      this.drawer = null
      if (place.isTab) run.rest(summary.state, summary.reason)
      else await this.#start(run, config, 'follow')
    })
  }

  /** Continues the run on the page, or the named one, from its newest save. */
  async resume(id: string, place: Place = this.#place): Promise<void> {
    if (this.#run?.id !== id) await this.open(id, place)
    const run = this.#run
    if (run?.id === id && run.config) await this.#start(run, run.config, 'resume', 'play')
  }

  async remove(id: string, place: Place = this.#place): Promise<void> {
    if (this.#run?.id === id) {
      if (this.driven) await this.stop()
      this.#close()
      this.#run = null
    }
    await this.#try(async () => (await place.connection.runs()).remove(id))
    await place.shelf.refresh()
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
      const event = await (await this.#place.connection.runs()).samples(run.id, at, which)
      if (event) run.keep(event.step, event.split, event.groups)
    }
  }

  async downloadAdapter(id: string, place: Place = this.#place): Promise<void> {
    await this.#try(async () => {
      const files =
        this.driven && this.#run?.id === id ? await this.#opened!.trainer.exportAdapter() : await keptAdapter(id, place)
      for (const file of files) saveFile(`${id}-${file.name}`, file.bytes)
    })
  }

  /** Has the nodes behind the server load the adapter of a run. */
  async serveAdapter({ run, name }: RunLine, place: Place): Promise<void> {
    const { server } = this
    if (!server) return
    await this.#try(async () => {
      await server.serveOnNodes(name, await keptAdapter(run, place))
      this.drawer = 'models'
    })
  }

  /** The state of a run that finds no room for its save. */
  async downloadSave(): Promise<void> {
    await this.#try(async () => {
      const files = (await this.#opened?.trainer.exportSave?.()) ?? []
      for (const file of files) saveFile(file.name, file.bytes)
    })
  }

  /** Brings the adapter of a run into this tab, over its base model, to talk to. */
  async tryAdapter({ run, name, model }: RunLine, place: Place): Promise<void> {
    const { server } = this
    if (!server) return
    await this.#try(async () => {
      const files = await keptAdapter(run, place)
      server.tryHere(run, `${name} on ${model}`, { key: run, model, adapter: files })
      const { env } = await (await place.connection.runs()).config(run)
      server.chat.system ||= String(env[0]?.args.system_prompt ?? '')
      this.drawer = 'models'
    })
  }

  /** Begins or ends to time the kernels of the run in this tab; settles when it has begun or ended. */
  async timeKernels(on: boolean): Promise<void> {
    await this.#try(async () => this.#opened?.trainer.timeKernels?.(on))
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

  async #begin(then: 'play' | 'step'): Promise<void> {
    const config = this.draft.config
    if (!config) return
    const place = this.there
    if (place.isTab && this.device.isSlowFor(config) && !this.device.accepted) {
      this.#askedForSlow = true
      return
    }
    this.#problem = null
    this.#pending = 'starting'
    const begun = await this.#try(async () => {
      const id = await place.connection.begin($state.snapshot(config) as RunConfig, this.draft.recipe?.id)
      this.#run = new Run(id)
      this.#place = place
      this.selection.follow()
    })
    this.#pending = null
    if (begun) await this.#start(this.#run!, config, 'begin', then)
  }

  async #start(run: Run, config: RunConfig, how: 'begin' | 'resume' | 'follow', then?: 'play' | 'step'): Promise<void> {
    this.#close()
    this.#problem = null
    this.#pending = 'starting'
    this.view = 'run'
    run.wake()
    const started = await this.#try(async () => {
      const opened = await this.#place.connection.open()
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
        resume: how === 'resume',
        source: 'tab',
      })
      if (this.#place.isTab) this.device.learn(description.device)
      if (then) await (then === 'play' ? opened.trainer.play() : opened.trainer.step())
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
    const here = this.#place.isTab
    if (here && event.kind === 'step' && run.config && run.secondsPerStep)
      this.device.remember(run.config, run.secondsPerStep)
    // Where room is made, and where a token is given.
    if ('about' in event && event.about && here) this.drawer = 'storage'
    if (event.kind !== 'state') return
    if (this.#pending === 'pausing' && event.state !== 'running') this.#pending = null
    if (event.state === 'finished' || event.state === 'failed' || (event.state === 'stopped' && !here)) {
      this.#close()
      void this.#place.shelf.refresh()
    }
  }

  /** Before another run is shown: one in this tab would end unsaved. */
  async #leave(): Promise<void> {
    if (this.driven && this.#place.isTab) await this.stop()
    else this.#close()
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

/** PEFT's two files: those of the run's end, or of its newest checkpoint. */
async function keptAdapter(id: string, place: Place): Promise<ExportedFile[]> {
  const runs = await place.connection.runs()
  const files = await runs.adapter(id)
  if (files.length) return files
  const newest = (await runs.files(id)).checkpoints.at(-1)
  const kept = newest === undefined ? [] : await runs.checkpoint(id, newest)
  const adapter = kept.filter(({ name }) => name.startsWith('adapter'))
  if (adapter.length) return adapter
  throw new Error('This run has kept no adapter yet: it is written when a run ends or is saved.')
}

const KEY = Symbol('lab')

export function provideLab(lab: Lab): Lab {
  return setContext(KEY, lab)
}

export function useLab(): Lab {
  return getContext<Lab>(KEY)
}
