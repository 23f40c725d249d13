// Node's side of a run: starts the trainer's worker thread and, beside it, the environment's. The only file that knows
// how Node obtains a worker.

import { join } from 'node:path'
import { MessageChannel, Worker } from 'node:worker_threads'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import type { AnsweringBackend } from './completions/protocol.ts'
import { type Prompter, reachCompleter } from './host/completerLine.ts'
import { type HostServices, type Place, reachTrainer } from './host/link.ts'
import { chooseVulkanDriver } from './host/vulkan.node.ts'
import type { Trainer } from './protocol.ts'
import { releaseRun } from './storage/lock.node.ts'

export interface OpenTrainer {
  trainer: Trainer
  /** Resolves with a sentence when the thread is gone without a last word. */
  lost: Promise<string>
  /** Ends both threads; a run that is to be saved is stopped before. */
  close(): Promise<void>
}

/** A trainer in a thread of its own. `root` is the folder of package.json; runs are folders below `runs`. */
export async function openTrainer({ root, runs }: { root: string; runs: string }): Promise<OpenTrainer> {
  chooseVulkanDriver()
  const worker = new Worker(new URL('./trainer.worker.ts', import.meta.url), { name: 'trainer' })
  const environment = environmentHost()
  let closing = false
  let run: string | null = null
  const lost = new Promise<string>((resolve) => {
    worker.once('error', (error) => resolve(`The trainer's thread ended unexpectedly: ${error.message}.`))
    worker.once('exit', async (code) => {
      // A thread that was ended in the middle of a run could not let go of it.
      if (run !== null) await releaseRun(join(runs, run))
      if (!closing) resolve(`The trainer's thread ended unexpectedly, with code ${code}.`)
    })
  })
  const close = async () => {
    closing = true
    await Promise.all([worker.terminate(), environment.close()])
  }
  const place: Place = { models: join(root, 'models'), runs, wasm: '' }
  try {
    const failed = lost.then((sentence) => Promise.reject(new Error(sentence)))
    const trainer = await Promise.race([reachTrainer(nodeEndpoint(worker), place, environment), failed])
    failed.catch(() => {})
    const start: Trainer['start'] = (request) => {
      run = request.run
      return trainer.start(request)
    }
    return { trainer: { ...trainer, start }, lost, close }
  } catch (error) {
    await close()
    throw error
  }
}

export type { Answer, Prompter } from './host/completerLine.ts'

export interface OpenPrompter {
  prompter: Prompter
  /** Resolves with a sentence when the thread is gone without a last word. */
  lost: Promise<string>
  close(): Promise<void>
}

/** A thread that answers prompts with the models below `root`, or in the folders that they are named by. */
export async function openPrompter({
  root,
  backend = 'auto',
}: {
  root: string
  backend?: AnsweringBackend
}): Promise<OpenPrompter> {
  chooseVulkanDriver()
  const worker = new Worker(new URL('./completion.worker.ts', import.meta.url), { name: 'completion' })
  let closing = false
  const lost = new Promise<string>((resolve) => {
    worker.once('error', (error) => resolve(`The thread that answers prompts ended unexpectedly: ${error.message}.`))
    worker.once('exit', (code) => {
      resolve(closing ? 'The model server was closed.' : `The thread that answers prompts ended, with code ${code}.`)
    })
  })
  const close = async () => {
    closing = true
    await worker.terminate()
  }
  const place: Place = { models: join(root, 'models'), runs: '', wasm: '' }
  try {
    return { prompter: await reachCompleter(nodeEndpoint(worker), place, backend, lost), lost, close }
  } catch (error) {
    await close()
    throw error
  }
}

function environmentHost(): HostServices & { close(): Promise<void> } {
  let worker: Worker | null = null
  return {
    async connectEnvironment() {
      await worker?.terminate()
      const fresh = new Worker(new URL('./environment.worker.ts', import.meta.url), { name: 'environment' })
      worker = fresh
      await new Promise<void>((resolve, reject) => {
        fresh.once('message', () => resolve())
        fresh.once('error', (error) => reject(new Error(`The environment's thread did not start: ${error.message}.`)))
      })
      // An exception that nobody caught ends the thread; its port then closes, and the trainer knows.
      fresh.on('error', () => {})
      const { port1, port2 } = new MessageChannel()
      fresh.postMessage(port1, [port1])
      return port2 as unknown as MessagePort
    },
    async close() {
      await worker?.terminate()
    },
  }
}
