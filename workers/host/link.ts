// The line between a host and its trainer's thread, by comlink: what the thread offers, what it asks of the host, and the
// trainer at its far end. Knows of no kind of thread, and loads nothing that computes: a page imports it.

import { type Endpoint, proxy, type Remote, transfer, wrap } from 'comlink'
import type { RunEvent, StartRequest, Trainer } from '../protocol.ts'

/** Where things lie, as the thread's realm understands it: addresses in a browser, folders in Node. */
export interface Place {
  models: string
  /** A folder of runs; the name of the database and of its folder in a browser. */
  runs: string
  /** Of tfjs's .wasm files, with a trailing slash; not needed in Node. */
  wasm: string
}

/** What the trainer's thread asks of the host that started it. */
export interface HostServices {
  /** Starts an environment side, ending the one before; rejects with a sentence when it does not start. */
  connectEnvironment(): Promise<MessagePort>
}

/** The trainer, once it has been told where it is. */
export interface TrainerDoor extends Required<Trainer> {
  attach(place: Place, host: HostServices): Promise<void>
}

/** In the host: a trainer like any other, at the far end of a line. */
export async function reachTrainer(endpoint: Endpoint, place: Place, host: HostServices): Promise<Trainer> {
  const remote: Remote<TrainerDoor> = wrap<TrainerDoor>(endpoint)
  await remote.attach(place, proxy({ connectEnvironment: async () => send(await host.connectEnvironment()) }))
  return {
    start: (request: StartRequest) => remote.start(request),
    play: () => remote.play(),
    pause: () => remote.pause(),
    step: () => remote.step(),
    stop: () => remote.stop(),
    save: () => remote.save(),
    exportAdapter: () => remote.exportAdapter(),
    exportSave: () => remote.exportSave(),
    timeKernels: (on: boolean) => remote.timeKernels(on),
    subscribe: (listener: (event: RunEvent) => void) => remote.subscribe(proxy(listener)),
  }
}

function send(port: MessagePort): MessagePort {
  return transfer(port, [port])
}
