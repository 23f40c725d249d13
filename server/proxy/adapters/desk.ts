// Takes adapters in, names them, and has every node serve them.

import { createHash } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { newId } from '../../store/ids.ts'
import type { Node } from '../node.ts'
import { Refusal } from '../refusal.ts'
import type { AdapterView } from '../views.ts'
import { removeAdapter, settleAdapter, writeAdapter } from './files.ts'
import { readPeftConfig } from './peft.ts'
import { reconcile, servesBase } from './reconcile.ts'
import type { AdapterRow, AdapterStore } from './store.ts'

export interface NewAdapter {
  project: string
  name: string
  /** The base model as nodes serve it; what adapter_config.json says when left out. */
  base?: string
  /** adapter_config.json. */
  config: unknown
}

interface Announced extends NewAdapter {
  rank: number
  baseModel: string
  until: number
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,47}$/
const ANNOUNCED_FOR = 3_600_000
const MOST_ANNOUNCED = 100

export class AdapterDesk {
  wanted: AdapterRow[] = []
  /** Called when the wanted set is another. Resolves when every node that is up has been told. */
  changed: () => Promise<void> = async () => {}
  /** The nodes of now, and names that are taken. */
  nodes: () => Node[] = () => []
  isTaken: (name: string) => boolean = () => false
  #announced = new Map<string, Announced>()
  #turns = new Map<Node, Promise<void>>()
  #adding: Promise<unknown> = Promise.resolve()

  private constructor(
    private readonly store: AdapterStore,
    private readonly folder: string,
    private readonly limit: number,
  ) {}

  /** `folder` is this server's own; `limit` bytes of one adapter's weights. */
  static async open(store: AdapterStore, folder: string, limit: number): Promise<AdapterDesk> {
    await mkdir(folder, { recursive: true, mode: 0o755 })
    const desk = new AdapterDesk(store, folder, limit)
    desk.wanted = await store.list()
    return desk
  }

  /** The first half of an upload: checks everything but the weights. Returns the id under which they are to come. */
  announce(adapter: NewAdapter): string {
    const announced = this.#check(adapter)
    const now = Date.now()
    for (const [id, { until }] of this.#announced) if (until < now) this.#announced.delete(id)
    if (this.#announced.size >= MOST_ANNOUNCED)
      throw new Refusal(429, 'too_many_uploads', `${MOST_ANNOUNCED} uploads are waiting for their weights.`, {
        retryAfterSeconds: 60,
      })
    const id = newId()
    this.#announced.set(id, announced)
    return id
  }

  /** The second half: weights as they come. */
  async receive(id: string, project: string, weights: AsyncIterable<Uint8Array>): Promise<AdapterView> {
    const announced = this.#announced.get(id)
    if (announced?.project !== project) throw noUpload(id)
    this.#announced.delete(id)
    return this.#add(id, announced, weights)
  }

  /** Both halves at once, for adapters that are on this machine already. */
  async add(adapter: NewAdapter, weights: AsyncIterable<Uint8Array>): Promise<AdapterView> {
    return this.#add(newId(), this.#check(adapter), weights)
  }

  async remove(id: string, project: string): Promise<void> {
    const row = this.wanted.find((one) => one.id === id && one.project === project)
    if (!row) throw new Refusal(404, 'adapter_not_found', `There is no adapter ${id}.`)
    await this.store.remove(id)
    this.wanted = this.wanted.filter((one) => one !== row)
    await this.changed()
    const roots = this.nodes().flatMap(({ config }) => config.adapter_root?.server ?? [])
    for (const root of new Set([this.folder, ...roots])) await removeAdapter(root, row.servedName).catch(() => {})
  }

  view(project: string): AdapterView[] {
    return this.wanted.filter((row) => row.project === project).map((row) => this.#view(row))
  }

  /** One after another for each node. `readModels` asks it what it serves. */
  reconcile(node: Node, readModels: () => Promise<void>): Promise<void> {
    const turn = (this.#turns.get(node) ?? Promise.resolve())
      .catch(() => {})
      .then(() => (node.health === 'down' ? undefined : reconcile(node, this.wanted, this.folder, readModels)))
    this.#turns.set(node, turn)
    return turn
  }

  #check(adapter: NewAdapter): Announced {
    const { name, config, base } = adapter
    if (!NAME.test(name))
      throw new Refusal(400, 'bad_name', 'A name is letters, digits, dashes and underscores, 48 at most.', {
        param: 'name',
      })
    if (this.isTaken(name))
      throw new Refusal(409, 'name_taken', `${name} is the name of a model or an alias.`, { param: 'name' })
    const { rank, baseModel: told } = readPeftConfig(config)
    const baseModel = base ?? told
    this.#checkNodes(baseModel, rank)
    return { ...adapter, rank, baseModel, until: Date.now() + ANNOUNCED_FOR }
  }

  /** Refuses what no node could serve; a node that is not up may turn out to. */
  #checkNodes(baseModel: string, rank: number) {
    const nodes = this.nodes()
    const serving = nodes.filter((node) => servesBase(node, baseModel))
    if (!serving.length && nodes.every(({ health }) => health === 'up'))
      throw new Refusal(400, 'no_base', `No node serves ${baseModel}: name the base model as nodes do, with base.`, {
        param: 'base',
      })
    if (!serving.length) return
    const highest = Math.max(...serving.map(({ config }) => config.max_lora_rank))
    if (rank > highest)
      throw new Refusal(400, 'rank_too_high', `Its rank is ${rank}, and nodes of ${baseModel} take ${highest}.`, {
        param: 'config.r',
      })
    const room = Math.max(...serving.map(({ config }) => config.max_adapters))
    const count = this.wanted.filter((row) => row.baseModel === baseModel).length
    if (count >= room)
      throw new Refusal(
        409,
        'too_many_adapters',
        `Nodes of ${baseModel} take ${room} adapters, and have them: remove one.`,
      )
  }

  /** One after another, so that versions are given out once. */
  #add(id: string, announced: Announced, weights: AsyncIterable<Uint8Array>): Promise<AdapterView> {
    const { project, name, config, rank, baseModel } = announced
    const written = writeAdapter(this.folder, config, weights, { rank, limit: this.limit })
    // It is looked at when its turn comes, which may be later than it fails.
    written.catch(() => {})
    const added = this.#adding
      .catch(() => {})
      .then(async () => {
        const files = await written
        const versions = this.wanted.filter((row) => row.project === project && row.name === name)
        const version = 1 + Math.max(0, ...versions.map((row) => row.version))
        const row: AdapterRow = {
          id,
          project,
          name,
          version,
          servedName: servedNameOf(project, name, version, files.sha256),
          baseModel,
          rank,
          bytes: files.bytes,
          sha256: files.sha256,
          createdAt: Date.now(),
        }
        await removeAdapter(this.folder, row.servedName)
        await settleAdapter(files, this.folder, row.servedName)
        await this.store.add(row)
        this.wanted = [...this.wanted, row]
        await this.changed()
        return this.#view(row)
      })
    this.#adding = added
    return added
  }

  #view(row: AdapterRow): AdapterView {
    const nodes = this.nodes().map((node) => {
      const known = node.adapters.get(row.servedName)
      if (known) return { node: node.name, ...known }
      if (node.health !== 'up') return { node: node.name, state: 'unreachable' as const, reason: node.healthReason }
      const reason = `It does not serve ${row.baseModel}.`
      return servesBase(node, row.baseModel)
        ? { node: node.name, state: 'loading' as const, reason: null }
        : { node: node.name, state: 'no-base' as const, reason }
    })
    return { ...row, createdAt: new Date(row.createdAt).toISOString(), nodes }
  }
}

function servedNameOf(project: string, name: string, version: number, sha256: string): string {
  const hash = createHash('sha256').update(`${project}\0${sha256}`).digest('hex').slice(0, 8)
  return `${project.replace(/[^\w-]/g, '-').slice(0, 48)}.${name}.v${version}.${hash}`
}

function noUpload(id: string) {
  return new Refusal(404, 'upload_not_found', `No upload ${id} waits for its weights: announce it first.`)
}
