// The page's side of a run in this tab: starts the trainer's worker and, beside it, the environment's. The only file
// that knows how a browser obtains a worker.

import type { AnsweringBackend } from './completions/protocol.ts'
import { type Prompter, reachCompleter } from './host/completerLine.ts'
import { type HostServices, type Place, reachTrainer } from './host/link.ts'
import { createStoreroom, type Storeroom } from './host/storeroom.browser.ts'
import type { Trainer } from './protocol.ts'
import { openBrowserLibrary } from './storage/browser.ts'
import type { RunLibrary } from './storage/store.ts'

const RUNS = 'rollout-lab'

export interface OpenTrainer {
  trainer: Trainer
  /** Resolves with a sentence when the worker is gone without a last word. */
  lost: Promise<string>
  /** Ends both workers at once; a run that is to be saved is stopped before. */
  close(): void
}

/** The runs that this browser keeps. */
export function openRuns(): Promise<RunLibrary> {
  return openBrowserLibrary({ name: RUNS })
}

export type { KeptModel, Storeroom } from './host/storeroom.browser.ts'

/** All that this browser keeps, for whoever makes room in it. */
export function openStoreroom(runs = RUNS): Storeroom {
  return createStoreroom(() => openBrowserLibrary({ name: runs }))
}

let askedToKeep = false

// Asked once a visit, when something is about to be kept: some browsers show a question.
function askToKeep(): void {
  if (askedToKeep) return
  askedToKeep = true
  navigator.storage?.persist?.().catch(() => {})
}

/** A trainer in a worker of its own. `base` is the folder of the page: models/ and wasm/ lie below it. */
export async function openTrainer({ base = document.baseURI, runs = RUNS } = {}): Promise<OpenTrainer> {
  askToKeep()
  const worker = new Worker(new URL('./trainer.worker.ts', import.meta.url), { type: 'module', name: 'trainer' })
  const environment = environmentHost()
  const lost = new Promise<string>((resolve) => {
    worker.addEventListener('error', (event) => {
      event.preventDefault()
      resolve(`The trainer's worker ended unexpectedly: ${event.message || 'it could not be loaded'}.`)
    })
  })
  const place: Place = { models: new URL('models/', base).href, wasm: new URL('wasm/', base).href, runs }
  const close = () => {
    worker.terminate()
    environment.close()
  }
  try {
    const failed = lost.then((sentence) => Promise.reject(new Error(sentence)))
    const trainer = await Promise.race([reachTrainer(worker, place, environment), failed])
    failed.catch(() => {})
    return { trainer, lost, close }
  } catch (error) {
    close()
    throw error
  }
}

export type { Answer, Prompter } from './host/completerLine.ts'

export interface OpenPrompter {
  prompter: Prompter
  close(): void
}

/** A worker that answers prompts with the models beside the page. */
export async function openPrompter({
  base = document.baseURI,
  backend = 'auto' as AnsweringBackend,
} = {}): Promise<OpenPrompter> {
  const worker = new Worker(new URL('./completion.worker.ts', import.meta.url), { type: 'module', name: 'completion' })
  const lost = new Promise<string>((resolve) => {
    worker.addEventListener('error', (event) => {
      event.preventDefault()
      resolve(`The worker that answers prompts ended unexpectedly: ${event.message || 'it could not be loaded'}.`)
    })
  })
  const close = () => worker.terminate()
  const place: Place = { models: new URL('models/', base).href, wasm: new URL('wasm/', base).href, runs: RUNS }
  try {
    return { prompter: await reachCompleter(worker, place, backend, lost), close }
  } catch (error) {
    close()
    throw error
  }
}

function environmentHost(): HostServices & { close(): void } {
  let worker: Worker | null = null
  return {
    async connectEnvironment() {
      worker?.terminate()
      const fresh = new Worker(new URL('./environment.worker.ts', import.meta.url), {
        type: 'module',
        name: 'environment',
      })
      worker = fresh
      await new Promise<void>((resolve, reject) => {
        fresh.onmessage = () => resolve()
        fresh.onerror = (event) => {
          event.preventDefault()
          reject(new Error(`The environment's worker did not start: ${event.message || 'it could not be loaded'}.`))
        }
      })
      // From here on an error is one rollout's, and is reported by the deadline at the latest.
      fresh.onerror = null
      const { port1, port2 } = new MessageChannel()
      fresh.postMessage(port1, [port1])
      return port2
    },
    close: () => worker?.terminate(),
  }
}
