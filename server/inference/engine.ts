// The thread that answers prompts, started when the first one comes and again after it was lost; and which models it may
// hold: bundled ones, folders named at the start, and adapters given since. A request names a model, never a path.

import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { AnsweringBackend, OpenedModel } from '../../workers/completions/protocol.ts'
import { type OpenPrompter, openPrompter, type Prompter } from '../../workers/host.node.ts'
import type { ExportedFile } from '../../workers/protocol.ts'
import { Refused } from './errors.ts'

export interface EngineOptions {
  /** The folder of package.json: bundled models lie in its models/. */
  root: string
  /** Further models: a folder in Hugging Face layout by the name that requests use. */
  models?: Record<string, string>
  backend?: AnsweringBackend
}

export interface Adapter {
  name: string
  base: string
  files: ExportedFile[]
  /** Where it came from, as `/v1/models` tells it. */
  root: string
}

export interface ModelLine {
  name: string
  /** The base of an adapter, null for a base. */
  parent: string | null
  root: string
  /** null until it has been asked for. */
  maxLength: number | null
}

const OPENED_AT = Math.floor(Date.now() / 1000)

export class Engine {
  #options: EngineOptions
  #thread: Promise<OpenPrompter> | null = null
  #opened = new Map<string, Promise<OpenedModel>>()
  #lengths = new Map<string, number>()
  #adapters = new Map<string, Adapter>()
  #closed = false
  readonly created = OPENED_AT

  constructor(options: EngineOptions) {
    this.#options = options
  }

  /** A model ready to be asked, and the thread that holds it. @throws Refused when there is none of that name */
  async ready(name: string): Promise<{ prompter: Prompter; model: OpenedModel }> {
    const source = await this.#sourceOf(name)
    const { prompter } = await this.#start()
    let opening = this.#opened.get(name)
    if (!opening) {
      opening = prompter.open(source)
      this.#opened.set(name, opening)
      opening.then(
        ({ maxLength }) => this.#lengths.set(name, maxLength),
        () => this.#opened.delete(name),
      )
    }
    return { prompter, model: await opening }
  }

  async list(): Promise<ModelLine[]> {
    const bases = Object.entries(await this.#folders()).map(([name, root]) => ({ name, parent: null, root }))
    const adapters = [...this.#adapters.values()].map(({ name, base, root }) => ({ name, parent: base, root }))
    return [...bases, ...adapters].map((line) => ({ ...line, maxLength: this.#lengths.get(line.name) ?? null }))
  }

  adapter(name: string): Adapter | null {
    return this.#adapters.get(name) ?? null
  }

  /** Offers an adapter under a name of its own; taking the name of another adapter replaces it for new requests. */
  async addAdapter(adapter: Adapter): Promise<void> {
    const folders = await this.#folders()
    if (adapter.name in folders)
      throw new Refused(400, `There is a base model named ${adapter.name}: name the adapter otherwise.`)
    if (!(adapter.base in folders))
      throw new Refused(
        400,
        `The adapter ${adapter.name} is for ${adapter.base}, which is not served here; there are ${Object.keys(folders).join(', ')}.`,
      )
    const before = this.#adapters.get(adapter.name)
    this.#adapters.set(adapter.name, adapter)
    this.#opened.delete(adapter.name)
    try {
      await this.ready(adapter.name)
    } catch (error) {
      if (before) this.#adapters.set(adapter.name, before)
      else this.#adapters.delete(adapter.name)
      throw new Refused(
        400,
        `The adapter ${adapter.name} was not taken: ${error instanceof Error ? error.message : error}`,
      )
    }
  }

  async removeAdapter(name: string): Promise<boolean> {
    if (!this.#adapters.delete(name)) return false
    if (this.#opened.delete(name)) await (await this.#thread)?.prompter.close(name).catch(() => {})
    return true
  }

  /** Answers being decoded, and waiting; nothing is started for the asking. */
  async load(): Promise<{ running: number; waiting: number }> {
    const thread = await this.#thread?.catch(() => null)
    return thread ? thread.prompter.load().catch(() => ({ running: 0, waiting: 0 })) : { running: 0, waiting: 0 }
  }

  async close(): Promise<void> {
    this.#closed = true
    await (await this.#thread?.catch(() => null))?.close()
  }

  #start(): Promise<OpenPrompter> {
    if (this.#closed) throw new Refused(503, 'The model server is closing.')
    if (this.#thread) return this.#thread
    const { root, backend } = this.#options
    const thread = openPrompter({ root, backend })
    this.#thread = thread
    // Whatever the thread held is gone with it; the next request starts another.
    const forget = () => {
      if (this.#thread !== thread) return
      this.#thread = null
      this.#opened.clear()
    }
    thread.then(({ lost }) => lost.then(forget), forget)
    return thread
  }

  async #sourceOf(name: string) {
    const adapter = this.#adapters.get(name)
    const folders = await this.#folders()
    if (adapter) return { key: name, model: folders[adapter.base], adapter: adapter.files }
    if (Object.hasOwn(folders, name)) return { key: name, model: folders[name], adapter: null }
    const names = [...Object.keys(folders), ...this.#adapters.keys()]
    throw new Refused(404, `The model ${name} is not served here; there are ${names.join(', ')}.`, {
      param: 'model',
      code: 'model_not_found',
    })
  }

  /** Base models by name: those beside the code, and those named at the start. */
  async #folders(): Promise<Record<string, string>> {
    const bundled = join(this.#options.root, 'models')
    const entries = await readdir(bundled, { withFileTypes: true }).catch(() => [])
    const folders: [string, string][] = []
    for (const entry of entries) {
      const folder = join(bundled, entry.name)
      if (entry.isDirectory() && (await stat(join(folder, 'config.json')).catch(() => null)))
        folders.push([entry.name, folder])
    }
    return Object.fromEntries([...folders, ...Object.entries(this.#options.models ?? {})])
  }
}
