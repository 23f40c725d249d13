// What the trainer's thread answers with: a trainer on whatever its realm offers, and an environment side that the host
// starts for it.

import { type Endpoint, expose, transfer, wrap } from 'comlink'
import type { EnvironmentPort, ExportedFile } from '../protocol.ts'
import type { EnvironmentLink } from '../trainer/environmentGuard.ts'
import { LocalTrainer } from '../trainer.ts'
import { openLearner, type Realm } from './learner.ts'
import type { HostServices, Place, TrainerDoor } from './link.ts'

/** `realm` is loaded when the trainer is attached to its host. */
export function serveTrainer(endpoint: Endpoint | undefined, realm: (place: Place) => Promise<Realm>): void {
  let attached: Promise<LocalTrainer> | null = null
  const trainer = () => attached ?? Promise.reject(new Error('internal: the trainer is not attached to a host'))
  const door: TrainerDoor = {
    async attach(place, host) {
      attached = attach(await realm(place), host)
      await attached
    },
    start: async (request) => (await trainer()).start(request),
    play: async () => (await trainer()).play(),
    pause: async () => (await trainer()).pause(),
    step: async () => (await trainer()).step(),
    stop: async () => (await trainer()).stop(),
    save: async () => (await trainer()).save(),
    exportAdapter: async () => handOver(await (await trainer()).exportAdapter()),
    exportSave: async () => handOver(await (await trainer()).exportSave()),
    timeKernels: async (on) => (await trainer()).timeKernels(on),
    subscribe: async (listener) => (await trainer()).subscribe(listener),
  }
  expose(door, endpoint)
}

function handOver(files: ExportedFile[]): ExportedFile[] {
  return transfer(
    files,
    files.map(({ bytes }) => bytes.buffer as ArrayBuffer),
  )
}

async function attach(realm: Realm, host: HostServices): Promise<LocalTrainer> {
  return new LocalTrainer({
    library: await realm.library(),
    openLearner: (config, choices, onFetch) => openLearner(realm, config, choices, onFetch),
    connectEnvironment: async () => linkTo(await host.connectEnvironment()),
  })
}

function linkTo(port: MessagePort): EnvironmentLink {
  const gone = new Promise<string>((resolve) => {
    port.addEventListener('close', () => resolve("The environment's worker ended unexpectedly."))
  })
  return { port: wrap<EnvironmentPort>(port), gone, close: () => port.close() }
}
