// The models behind the server's door: what may be asked for, the nodes that answer, the queue, the adapters. Asked again
// and again while somebody looks.

import type { AdapterView, NodeView, QueueView } from '../../server/proxy/views.ts'
import type { ExportedFile } from '../../workers/protocol.ts'
import { ask, json, ServerRefusal } from '../server/ask.ts'
import { answer, api } from '../server/client.ts'

export interface ModelName {
  id: string
  kind: 'model' | 'alias' | 'adapter'
  /** Nodes that serve it. */
  nodes: string[]
}

interface ListedModel {
  id: string
  parent?: string | null
  rollout_lab?: { kind: ModelName['kind']; nodes: string[] }
}

const EVERY_MS = 2000

export class Fleet {
  #models = $state.raw<ModelName[]>([])
  #nodes = $state.raw<NodeView[] | null>(null)
  #queue = $state.raw<QueueView | null>(null)
  #adapters = $state.raw<AdapterView[]>([])
  #problem = $state<string | null>(null)
  #asked = $state(false)
  /** When the nodes were last told, milliseconds since the epoch: times are shown against it. */
  #at = $state(Date.now())

  get models() {
    return this.#models
  }
  /** null where there is no proxy to tell of nodes. */
  get nodes() {
    return this.#nodes
  }
  get queue() {
    return this.#queue
  }
  get adapters() {
    return this.#adapters
  }
  get problem() {
    return this.#problem
  }
  get asked() {
    return this.#asked
  }
  get at() {
    return this.#at
  }

  /** Keeps itself fresh until the returned function is called. */
  watch(): () => void {
    const stop = new AbortController()
    const again = async () => {
      await this.refresh(stop.signal)
      if (!stop.signal.aborted) timer = setTimeout(again, EVERY_MS)
    }
    let timer: ReturnType<typeof setTimeout> | undefined
    void again()
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }

  async refresh(signal?: AbortSignal): Promise<void> {
    try {
      const [models, nodes, queue, adapters] = await Promise.all([
        ask<{ data: ListedModel[] }>('v1/models', { signal }),
        optional(answer(api.proxy.nodes.$get(undefined, { init: { signal } }))),
        optional(answer(api.proxy.queue.$get(undefined, { init: { signal } }))),
        optional(answer(api.proxy.adapters.$get(undefined, { init: { signal } }))),
      ])
      this.#models = models.data.map(nameOf)
      this.#nodes = nodes?.nodes ?? null
      this.#queue = queue
      this.#adapters = adapters?.adapters ?? []
      this.#at = Date.now()
      this.#problem = null
    } catch (error) {
      if (signal?.aborted) return
      this.#problem = error instanceof Error ? error.message : String(error)
    }
    this.#asked = true
  }

  /** PEFT's two files: the config is looked at first, then the weights may come. Throws the server's sentence. */
  async upload(name: string, files: ExportedFile[]): Promise<void> {
    const bytesOf = (file: string) => files.find((one) => one.name === file)?.bytes
    const [config, weights] = [bytesOf('adapter_config.json'), bytesOf('adapter_model.safetensors')]
    if (!config || !weights) throw new Error('The adapter is not whole: it has to be PEFT’s two files.')
    const announced = json({ name, config: JSON.parse(new TextDecoder().decode(config)) })
    const { id } = await answer(api.proxy.adapters.$post(undefined, { init: announced }))
    await api.proxy.adapters[':id'].weights.$put({ param: { id } }, { init: { body: weights as BodyInit } })
    await this.refresh()
  }

  async removeAdapter(id: string): Promise<void> {
    await this.#do(() => api.proxy.adapters[':id'].$delete({ param: { id } }))
  }

  /** Keeps new requests away from a node, or lets them come again. */
  async drain(node: NodeView): Promise<void> {
    const verb = isDrained(node) ? 'undrain' : 'drain'
    await this.#do(() => api.proxy.nodes[':name'][verb].$post({ param: { name: node.name } }))
  }

  async #do(action: () => Promise<unknown>): Promise<void> {
    try {
      await action()
      await this.refresh()
    } catch (error) {
      this.#problem = error instanceof Error ? error.message : String(error)
    }
  }
}

export function isDrained({ state }: NodeView): boolean {
  return state === 'draining' || state === 'drained'
}

/** A server without a proxy has no such route. */
async function optional<Answer>(asked: Promise<Answer>): Promise<Answer | null> {
  try {
    return await asked
  } catch (error) {
    if (error instanceof ServerRefusal && (error.status === 404 || error.status === 403)) return null
    throw error
  }
}

function nameOf({ id, parent, rollout_lab: own }: ListedModel): ModelName {
  return { id, kind: own?.kind ?? (parent == null ? 'model' : 'adapter'), nodes: own?.nodes ?? [] }
}
