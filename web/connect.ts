// From a target to a trainer and to the runs kept beside it. Nothing below this file can tell a worker in this tab from a
// server: both are a Trainer and a stream of RunEvent.

import { type OpenTrainer, openRuns, openTrainer } from '../workers/host.browser.ts'
import type { RunLibrary } from '../workers/storage/store.ts'

export type { OpenPrompter, OpenTrainer, Prompter } from '../workers/host.browser.ts'

export type Target = { kind: 'tab' }

/** Runs that can be looked at again: what the page needs of a run library. */
export interface Runs extends Omit<RunLibrary, 'open'> {
  /** Whether another tab or process writes this run now. */
  isWritten(run: string): Promise<boolean>
}

export interface Connection {
  /** Where runs take place, in words: `This tab`. */
  place: string
  runs(): Promise<Runs>
  open(): Promise<OpenTrainer>
}

export type Connect = (target: Target) => Connection

export const connect: Connect = () => {
  let runs: Promise<Runs> | null = null
  return {
    place: 'This tab',
    runs() {
      runs ??= openRuns().then(withLocks)
      // A refusal may be of the moment: the next one to ask tries again.
      runs.catch(() => {
        runs = null
      })
      return runs
    },
    open: () => openTrainer(),
  }
}

function withLocks(library: RunLibrary): Runs {
  return {
    list: () => library.list(),
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
