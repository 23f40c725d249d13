// Asks one node, again and again, whether it is well, how busy it is and what it serves. A connection that is refused puts
// it down at once; otherwise some bad answers in a row do. Good ones bring it back, and with it an open breaker.

import { ask, isRefusedConnection, trouble } from './ask.ts'
import type { ProxyConfig } from './config.ts'
import { parseLoad } from './load.ts'
import type { Node, ServedModel } from './node.ts'

export interface WatchEvents {
  /** It may take requests again, or serves something else than before. */
  changed(node: Node): void
  /** It came up, came back, or lost its memory: its adapters are to be compared with the wanted ones. */
  returned(node: Node): void
}

const JITTER = 0.1

export class Watch {
  #timer: NodeJS.Timeout | undefined
  #checking: Promise<void> | null = null
  #stopped = false
  #good = 0
  #bad = 0
  #modelsAt = 0
  #startedAt: number | null = null

  constructor(
    private readonly node: Node,
    private config: ProxyConfig['health'],
    private readonly events: WatchEvents,
  ) {}

  configure(config: ProxyConfig['health']) {
    this.config = config
  }

  start() {
    void this.checkNow()
  }

  stop() {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  /** A connection was refused: the node is down until it is found well again. */
  refused(reason: string) {
    this.#good = 0
    this.#down(reason)
    void this.checkNow()
  }

  /** Its breaker opened: good checks are counted anew. */
  opened() {
    this.#good = 0
  }

  /** Something odd was seen: looks at once instead of at the next turn. */
  async checkNow(): Promise<void> {
    if (this.#stopped) return
    if (this.#checking) return this.#checking
    clearTimeout(this.#timer)
    this.#checking = this.#check().finally(() => {
      this.#checking = null
      this.#schedule()
    })
    return this.#checking
  }

  /** What the node serves, asked now. Throws when it does not tell. */
  async readModels(): Promise<void> {
    const { node } = this
    const { status, text } = await this.#ask('/v1/models')
    const named = node.config.models
    if (status !== 200 && !named.length) throw new Error(`/v1/models answered with ${status}`)
    const models = status === 200 ? parseModels(text) : new Map<string, ServedModel>()
    for (const id of named) if (!models.has(id)) models.set(id, { id, root: id, parent: null, maxModelLength: null })
    node.models = models
    this.#modelsAt = Date.now()
  }

  async #check() {
    const { node, config } = this
    const complaint = await this.#complaint()
    if (this.#stopped) return
    if (complaint !== null) {
      this.#good = 0
      this.#bad++
      if (complaint.final || this.#bad >= config.bad || node.health === 'unknown') this.#down(complaint.reason)
      return
    }
    this.#bad = 0
    this.#good++
    const restarted = await this.#readLoad()
    const returns = node.health === 'unknown' || (node.health === 'down' && this.#good >= config.good)
    const due = Date.now() - this.#modelsAt >= config.models_every_seconds * 1000
    if (returns || restarted || due) {
      try {
        await this.readModels()
      } catch (error) {
        if (node.health !== 'up') node.healthReason = `It is well, but does not tell what it serves: ${trouble(error)}.`
        return
      }
    }
    if (this.#stopped) return
    if (returns) node.goUp()
    const { breaker } = node
    const reopens = breaker.state === 'open' && this.#good >= config.good
    if (reopens) breaker.halfOpen()
    if (returns || restarted || reopens || due) this.events.returned(node)
    if (returns || restarted || reopens || due) this.events.changed(node)
  }

  #down(reason: string) {
    this.node.goDown(reason.endsWith('.') ? reason : `Asked for its health: ${reason}.`)
    this.#modelsAt = 0
  }

  /** Null when it is well; `final` when one such answer is enough. */
  async #complaint(): Promise<{ reason: string; final: boolean } | null> {
    const { misconfigured } = this.node
    if (misconfigured !== null) return { reason: misconfigured, final: true }
    try {
      const health = await this.#ask('/health')
      if (health.status === 200) return null
      if (health.status !== 404) return { reason: `/health answered with ${health.status}`, final: false }
      // Not every server of this API has /health.
      const { status } = await this.#ask('/v1/models')
      return status === 200 ? null : { reason: `/health answered with 404, /v1/models with ${status}`, final: false }
    } catch (error) {
      return { reason: trouble(error), final: isRefusedConnection(error) }
    }
  }

  /** Whether the node's process is another than before. */
  async #readLoad(): Promise<boolean> {
    const { node } = this
    try {
      const inFlightThen = node.inFlight
      const { status, text } = await this.#ask('/metrics')
      const load = status === 200 ? parseLoad(text) : null
      node.load = load && { ...load, at: Date.now(), inFlightThen }
    } catch {
      node.load = null
    }
    const startedAt = node.load?.startedAt ?? null
    const restarted = startedAt !== null && this.#startedAt !== null && startedAt !== this.#startedAt
    this.#startedAt = startedAt ?? this.#startedAt
    return restarted
  }

  #ask(path: string) {
    const { node, config } = this
    return ask(node.pool, {
      method: 'GET',
      path: node.path + path,
      headers: node.authorization,
      timeoutSeconds: config.timeout_seconds,
    })
  }

  #schedule() {
    if (this.#stopped) return
    const { node, config } = this
    const soon = node.health === 'down' && this.#good > 0 && this.#good < config.good
    const seconds = (soon ? config.again_seconds : config.every_seconds) * (1 - JITTER + 2 * JITTER * Math.random())
    node.nextCheck = Date.now() + seconds * 1000
    this.#timer = setTimeout(() => void this.checkNow(), seconds * 1000)
    this.#timer.unref()
  }
}

const MOST_MODELS = 1000

/** The list of a node, which may be anything: what does not fit is left out. */
function parseModels(text: string): Map<string, ServedModel> {
  const models = new Map<string, ServedModel>()
  const { data } = JSON.parse(text) as { data?: unknown }
  if (!Array.isArray(data)) throw new Error('/v1/models holds no list')
  for (const entry of data.slice(0, MOST_MODELS)) {
    const { id, root, parent, max_model_len } = (entry ?? {}) as Record<string, unknown>
    if (typeof id !== 'string' || id === '') continue
    models.set(id, {
      id,
      root: typeof root === 'string' ? root : null,
      parent: typeof parent === 'string' ? parent : null,
      maxModelLength: typeof max_model_len === 'number' ? max_model_len : null,
    })
  }
  return models
}
