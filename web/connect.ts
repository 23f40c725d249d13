// From a target to a trainer and to the runs kept beside it. Nothing below this file can tell a worker in this tab from a
// server: both are a Trainer and a stream of RunEvent.

import type { RunConfig } from '../configs/schema.ts'
import type { RunDetails } from '../server/runs/views.ts'
import { type OpenTrainer, openRuns, openTrainer } from '../workers/host.browser.ts'
import type { RunLibrary, RunState, RunSummary } from '../workers/storage/store.ts'
import { newRunId } from './runName.ts'
import { type ServerLine, serverConnection } from './server/connection.ts'

export type { KeptModel, OpenPrompter, OpenTrainer, Prompter, Storeroom } from '../workers/host.browser.ts'
export { openPrompter, openStoreroom } from '../workers/host.browser.ts'

export type Target = { kind: 'tab' } | ({ kind: 'server' } & ServerLine)

/** A run in a list. */
export interface RunLine {
  run: string
  name: string
  model: string
  state: RunState
  reason: string | null
  /** The state in a server's own word. */
  standing?: string
  /** Steps done when this was last written. */
  step: number
  maxSteps: number
  /** Milliseconds since the epoch. */
  created: number
  updated: number
}

/** How a run came to be where it is, for places that begin a run more than once. */
export interface RunHistory
  extends Pick<RunDetails, 'createdAt' | 'endedAt' | 'reason' | 'queuePosition' | 'attempts' | 'pricePerGpuHour'> {
  /** By how much the clock of that place is ahead of ours, milliseconds. */
  aheadMs: number
}

/** Runs that can be looked at again: what the page needs of a run library. */
export interface Runs extends Omit<RunLibrary, 'open' | 'list'> {
  /** Newest first. */
  list(): Promise<RunLine[]>
  config(run: string): Promise<RunConfig>
  /** Whether another tab or process writes this run now. */
  isWritten(run: string): Promise<boolean>
  /** Absent where a run has no history but its steps. */
  history?(run: string): Promise<RunHistory>
}

export interface Connection {
  kind: Target['kind']
  /** Where runs take place, in words: `This tab`. */
  place: string
  runs(): Promise<Runs>
  /** Makes a new run, which waits for a trainer to start it, and says what it is called from now on. */
  begin(config: RunConfig, recipe: string | undefined): Promise<string>
  open(): Promise<OpenTrainer>
}

export type Connect = (target: Target) => Connection

export const connect: Connect = (target) => (target.kind === 'tab' ? tabConnection() : serverConnection(target))

function tabConnection(): Connection {
  let runs: Promise<Runs> | null = null
  return {
    kind: 'tab',
    place: 'This tab',
    runs() {
      runs ??= openRuns().then(withLocks)
      // A refusal may be of the moment: the next one to ask tries again.
      runs.catch(() => {
        runs = null
      })
      return runs
    },
    begin: async (config, recipe) => newRunId(config, recipe),
    open: () => openTrainer(),
  }
}

function withLocks(library: RunLibrary): Runs {
  return {
    list: async () => (await library.list()).map(lineOf),
    async config(run) {
      const summary = (await library.list()).find((one) => one.run === run)
      if (!summary) throw new Error('This run is not in this browser any more.')
      return summary.config
    },
    files: (run) => library.files(run),
    events: (run) => library.events(run),
    samples: (run, step, split) => library.samples(run, step, split),
    checkpoint: (run, step) => library.checkpoint(run, step),
    adapter: (run) => library.adapter(run),
    remove: (run) => library.remove(run),
    usage: () => library.usage(),
    async isWritten(run) {
      // Whoever writes a run holds a Web Lock that ends in its name.
      const { held = [] } = await navigator.locks.query()
      return held.some(({ name }) => name?.endsWith(`/${run}`))
    },
  }
}

function lineOf({ run, name, config, state, reason, step, created, updated }: RunSummary): RunLine {
  return { run, name, model: config.model, state, reason, step, maxSteps: config.max_steps, created, updated }
}
