// The models that a thread holds, each with its policy and its batch. The one asked least recently makes room for a new one.

import type { Device } from '../gpu/device.ts'
import { adapterLayout, flatten, type LoraOptions } from '../policy/adapter.ts'
import { describeModel, type Model, openModel } from '../policy/load.ts'
import type { Policy } from '../policy/policy.ts'
import { readAdapter } from '../policy/readAdapter.ts'
import type { Read } from '../policy/weights.ts'
import type { ExportedFile } from '../protocol.ts'
import { Batcher } from './batcher.ts'
import type { ModelSource, OpenedModel } from './protocol.ts'
import type { Turns } from './turns.ts'

/** What the thread's realm offers: a model's files by name, a device, and a policy on it. */
export interface Means {
  modelFiles(name: string): Promise<Read>
  openDevice(): Promise<Device>
  createPolicy(model: Model, device: Device, lora: LoraOptions): Promise<Policy>
}

export interface Held {
  source: ModelSource
  model: Model
  policy: Policy
  adapter: 'live' | 'none'
  batcher: Batcher
  opened: OpenedModel
}

/** Models kept in memory at once. */
const HELD = 4
const SLOTS = 64

/** A policy wants adapters even where none is used. */
const NO_ADAPTER: LoraOptions = { r: 1, alpha: 1, targetModules: ['q_proj'] }

export class Models {
  #means: Means
  #turns: Turns
  #device: Promise<Device> | null = null
  #sources = new Map<string, ModelSource>()
  /** In the order of last use. */
  #held = new Map<string, Promise<Held>>()

  constructor(means: Means, turns: Turns) {
    this.#means = means
    this.#turns = turns
  }

  /** @throws a sentence when there is no such model, or its files are not what they should be */
  async open(source: ModelSource): Promise<Held> {
    this.close(source.key)
    this.#sources.set(source.key, source)
    const opening = this.#hold(source)
    opening.catch(() => this.#sources.delete(source.key))
    return opening
  }

  /** One that had to make room is opened again. */
  async get(key: string): Promise<Held> {
    const source = this.#sources.get(key)
    if (!source) throw new Error(`The model ${key} is not open.`)
    const held = this.#held.get(key)
    if (!held) return this.#hold(source)
    this.#held.delete(key)
    this.#held.set(key, held)
    return held
  }

  close(key: string): void {
    this.#sources.delete(key)
    this.#letGo(key)
  }

  #hold(source: ModelSource): Promise<Held> {
    const opening = this.#open(source)
    this.#held.set(source.key, opening)
    opening.then(
      () => this.#makeRoom(),
      () => this.#held.delete(source.key),
    )
    return opening
  }

  #letGo(key: string): void {
    const held = this.#held.get(key)
    this.#held.delete(key)
    held?.then(
      async ({ policy, batcher }) => {
        // Answers that are under way end first.
        await batcher.idle()
        await this.#turns.take(async () => policy.dispose())
      },
      () => {},
    )
  }

  async all(): Promise<Held[]> {
    const settled = await Promise.allSettled(this.#held.values())
    return settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  }

  async #makeRoom(): Promise<void> {
    for (const [key, held] of [...this.#held].slice(0, -1)) {
      if (this.#held.size <= HELD) return
      const { running, waiting } = (await held.catch(() => null))?.batcher.load ?? { running: 0, waiting: 0 }
      if (running + waiting === 0) this.#letGo(key)
    }
  }

  async #open(source: ModelSource): Promise<Held> {
    const model = await openModel(await this.#means.modelFiles(source.model), source.model)
    const peft = source.adapter ? await readAdapter(filesOf(source.adapter)) : null
    this.#device ??= this.#means.openDevice()
    const device = await this.#device.catch((error) => {
      this.#device = null
      throw error
    })
    return this.#turns.take(async () => {
      const policy = await this.#means.createPolicy(model, device, peft?.lora ?? NO_ADAPTER)
      try {
        if (peft) {
          const layout = adapterLayout(model.card, peft.lora)
          const trainable = flatten(layout, peft.tensors)
          const zeros = () => new Float32Array(layout.size)
          await policy.restore({
            trainable,
            firstMoment: zeros(),
            secondMoment: zeros(),
            optimizerSteps: 0,
            version: 0,
          })
        }
        const adapter = peft ? 'live' : 'none'
        const { stopTokens } = model
        const batcher = new Batcher({
          policy,
          adapter,
          stopTokens,
          maxLength: model.card.maxLength,
          slots: SLOTS,
          turns: this.#turns,
        })
        return { source, model, policy, adapter, batcher, opened: describe(source, model, policy, device) } as const
      } catch (error) {
        policy.dispose()
        throw error
      }
    })
  }
}

function filesOf(files: ExportedFile[]): Read {
  return async (path, range) => {
    const file = files.find(({ name }) => name === path)
    if (!file)
      throw new Error(`Read ${path}: the adapter has no such file, only ${files.map((f) => f.name).join(', ')}.`)
    return range ? file.bytes.subarray(range.start, range.end) : file.bytes
  }
}

function describe({ key }: ModelSource, model: Model, policy: Policy, device: Device): OpenedModel {
  const { backend, adapter, software, features, selfTest, memoryLimitBytes } = device
  return {
    key,
    description: describeModel(model, policy),
    device: { backend, adapter, software, features, selfTest, memoryLimitBytes },
    maxLength: model.card.maxLength,
    tools: false,
  }
}
