// What this browser keeps and how much room is left: models, the saves of runs, tokens of hubs. Draws nothing; whatever
// goes wrong is a sentence in `problem`.

import {
  type Architecture,
  engineOf,
  estimateMemory,
  knownModel,
  type MemoryEstimate,
  type Misfit,
  misfit,
} from '../../configs/memory.ts'
import type { RunConfig } from '../../configs/schema.ts'
import type { KeptModel, Storeroom } from '../connect.ts'

export interface RunSaves {
  step: number | null
  bytes: number
}

/** A folder on its way into storage. */
export interface Copying {
  folder: string
  doneBytes: number
  totalBytes: number
}

export interface Fit {
  estimate: MemoryEstimate
  misfit: Misfit | null
}

export class StoreroomState {
  readonly #open: () => Storeroom
  #models = $state.raw<KeptModel[]>([])
  #saves = $state.raw<Record<string, RunSaves[]>>({})
  #lasting = $state(false)
  #hasToken = $state(false)
  #problem = $state<string | null>(null)
  #copying = $state.raw<Copying | null>(null)
  /** By hub and model; null where it could not be had. */
  #architectures = $state.raw<Record<string, Architecture | null>>({})

  constructor(open: () => Storeroom) {
    this.#open = open
  }

  get models() {
    return this.#models
  }
  /** Of each run that has been looked at. */
  get saves() {
    return this.#saves
  }
  /** The browser has promised not to delete anything by itself. */
  get lasting() {
    return this.#lasting
  }
  get hasToken() {
    return this.#hasToken
  }
  get problem() {
    return this.#problem
  }
  get copying() {
    return this.#copying
  }

  /** Leaves standing what went wrong before. */
  async refresh(runs: string[], hub: string | null): Promise<void> {
    try {
      const room = this.#open()
      this.#models = await room.models()
      const saves = await Promise.all(runs.map(async (run) => [run, await room.saves(run)] as const))
      this.#saves = Object.fromEntries(saves)
      this.#lasting = await room.isLasting()
      this.#hasToken = await room.hasToken(hub)
    } catch (error) {
      this.#problem = sentenceOf(error)
    }
  }

  async removeModel(id: string): Promise<void> {
    await this.#try(async () => {
      await this.#open().removeModel(id)
      this.#models = await this.#open().models()
    })
  }

  async removeCheckpoint(run: string, step: number): Promise<void> {
    await this.#try(async () => {
      await this.#open().removeCheckpoint(run, step)
      this.#saves = { ...this.#saves, [run]: await this.#open().saves(run) }
    })
  }

  /** A downloaded save becomes the newest of its run, whose name this gives back. */
  async takeSave(file: File): Promise<string | null> {
    let run: string | null = null
    await this.#try(async () => {
      run = await this.#open().takeSave(new Uint8Array(await file.arrayBuffer()))
    })
    return run
  }

  /** Copies a model folder into storage; gives back the name that a config gives it. */
  async keepFolder(folder: string, files: ReadonlyMap<string, File>): Promise<string | null> {
    let name: string | null = null
    await this.#try(async () => {
      this.#copying = { folder, doneBytes: 0, totalBytes: 0 }
      name = await this.#open().keepFolder(folder, files, (doneBytes, totalBytes) => {
        this.#copying = { folder, doneBytes, totalBytes }
      })
      this.#models = await this.#open().models()
    })
    this.#copying = null
    return name
  }

  async putToken(hub: string | null, token: string | null): Promise<void> {
    await this.#try(async () => {
      await this.#open().putToken(hub, token)
      this.#hasToken = token !== null
    })
  }

  /** What a run of this config would take here; null while the model's numbers are not known. */
  fit(
    config: RunConfig,
    device: { backend: string; software: boolean; largestBufferBytes: number | null; memoryBytes: number | null },
  ): Fit | null {
    const architecture = knownModel(config.model)?.architecture ?? this.#architectures[keyOf(config)]
    if (!architecture) return null
    const own = config.browser.memory_gb
    const totalBytes = own === null ? device.memoryBytes : own * 1e9
    const { largestBufferBytes } = device
    const engine = engineOf(config, device)
    return {
      estimate: estimateMemory(config, architecture, engine),
      misfit: misfit(config, architecture, { totalBytes, largestBufferBytes }, engine),
    }
  }

  /** Its hub was asked for the model's numbers, in vain. */
  isUnknown(config: RunConfig): boolean {
    return this.#architectures[keyOf(config)] === null
  }

  /** Looks a model's numbers up that nobody here knows yet; a hub is asked at most once for each. */
  async learn(config: RunConfig): Promise<void> {
    const key = keyOf(config)
    if (knownModel(config.model) || key in this.#architectures) return
    let found: Architecture | null = null
    try {
      found = await this.#open().architecture(config.model, config.browser.hub)
    } catch {
      // The run's own start says what is wrong with the model.
    }
    this.#architectures = { ...this.#architectures, [key]: found }
  }

  dismiss(): void {
    this.#problem = null
  }

  async #try(action: () => Promise<void>): Promise<void> {
    this.#problem = null
    try {
      await action()
    } catch (error) {
      this.#problem = sentenceOf(error)
    }
  }
}

function sentenceOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function keyOf({ model, browser }: RunConfig): string {
  return `${browser.hub ?? ''} ${model}`
}
