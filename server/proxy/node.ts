// One node: its connections, what it serves, how busy it is, and whether requests may go to it. Sends nothing by itself.

import { Pool } from 'undici'
import { pinnedLookup } from './address.ts'
import { Breaker, type BreakerConfig, type Leave } from './breaker.ts'
import type { NodeConfig } from './config.ts'
import type { Load } from './load.ts'
import type { AdapterState, NodeState, NodeView } from './views.ts'

export interface ServedModel {
  id: string
  /** Where the node has it from; for an adapter the path of its files. */
  root: string | null
  /** The base model of an adapter. */
  parent: string | null
  maxModelLength: number | null
}

/** A node of server.toml, or one that the server brings along with a key of its own making. */
export type NodeSpec = NodeConfig & { key?: string }

export interface NodeOptions {
  breaker: BreakerConfig
  connectSeconds: number
}

export class Node {
  readonly name: string
  /** For requests, and for admin verbs. */
  readonly pool: Pool
  readonly admin: Pool
  readonly path: string
  readonly adminPath: string
  readonly breaker: Breaker

  health: 'unknown' | 'up' | 'down' = 'unknown'
  healthReason: string | null = 'It has not been asked yet.'
  healthSince = Date.now()
  nextCheck: number | null = null
  draining = false
  drainingSince = 0
  inFlight = 0
  load: (Load & { at: number; inFlightThen: number }) | null = null
  models = new Map<string, ServedModel>()
  adapters = new Map<string, { state: AdapterState; reason: string | null }>()
  /** Its streams end with [DONE]; one that does not was cut. */
  saysDone = false
  /** It asked for patience until then, ms. */
  busyUntil = 0
  /** When the probe of its open breaker was last sent early, ms. */
  lastResortAt = 0
  /** The requests that are on it: told when it goes down, and when the server is stopped. */
  readonly attempts = new Set<{ nodeWentDown(reason: string): void; stop(cause: 'lost', reason: string): void }>()

  #pin = pinnedLookup()
  #url: URL
  #key: string | undefined

  constructor(
    public config: NodeSpec,
    { breaker, connectSeconds }: NodeOptions,
  ) {
    this.name = config.name
    this.#url = new URL(config.url)
    const admin = new URL(config.admin_url ?? config.url)
    const options = {
      connectTimeout: connectSeconds * 1000,
      connect: { lookup: this.#pin.lookup },
      // Deadlines are ours, so that each can be named in an answer.
      headersTimeout: 0,
      bodyTimeout: 0,
      // uvicorn closes an idle connection after 5 s.
      keepAliveTimeout: 4000,
      keepAliveMaxTimeout: 60_000,
    }
    this.pool = new Pool(this.#url.origin, options)
    this.admin = new Pool(admin.origin, options)
    this.path = this.#url.pathname.replace(/\/$/, '')
    this.adminPath = admin.pathname.replace(/\/$/, '')
    this.breaker = new Breaker(breaker)
    this.#key = config.key ?? (config.key_env === undefined ? undefined : process.env[config.key_env])
  }

  /** The sentence that says why it cannot be asked at all, or null. */
  get misconfigured(): string | null {
    const { key_env } = this.config
    return key_env !== undefined && !this.#key ? `The variable ${key_env}, which holds its key, is not set.` : null
  }

  /** The node's own key and nothing of the caller's. */
  get authorization(): Record<string, string> {
    return this.#key ? { authorization: `Bearer ${this.#key}` } : {}
  }

  /** How full it is: ours and others' requests as a share of its places; those that wait on it count twice. */
  get fullness(): number {
    const { load } = this
    const others = load ? Math.max(0, load.running + load.waiting - load.inFlightThen) + load.waiting : 0
    return (this.inFlight + others) / this.config.max_in_flight
  }

  take(early = false): Leave {
    this.inFlight++
    return this.breaker.begin(early)
  }

  goUp() {
    if (this.health === 'up') return
    this.#setHealth('up', null)
  }

  goDown(reason: string) {
    if (this.health === 'down') {
      this.healthReason = reason
      return
    }
    this.#setHealth('down', reason)
    // What it held in memory is gone when it comes back, and it may come back elsewhere.
    for (const id of [...this.models.keys()]) if (this.models.get(id)!.parent !== null) this.models.delete(id)
    for (const [name, { state }] of this.adapters)
      if (state === 'loaded' || state === 'loading') this.adapters.set(name, { state: 'unreachable', reason })
    this.load = null
    this.#pin.forget()
    for (const attempt of [...this.attempts]) attempt.nodeWentDown(reason)
  }

  setDraining(draining: boolean) {
    if (this.draining === draining) return
    this.draining = draining
    this.drainingSince = Date.now()
  }

  async close() {
    await Promise.all([this.pool.destroy(), this.admin.destroy()])
  }

  get state(): { state: NodeState; reason: string | null; since: number; until: number | null } {
    const { breaker } = this
    if (this.draining) {
      const state = this.inFlight > 0 ? 'draining' : 'drained'
      return { state, reason: 'An operator drained it.', since: this.drainingSince, until: null }
    }
    if (this.health !== 'up')
      return { state: this.health, reason: this.healthReason, since: this.healthSince, until: this.nextCheck }
    if (breaker.state === 'open')
      return { state: 'open', reason: breaker.reason, since: breaker.since, until: breaker.until }
    if (breaker.state === 'half-open')
      return { state: 'probing', reason: breaker.reason, since: breaker.since, until: null }
    return { state: 'up', reason: null, since: Math.max(this.healthSince, breaker.since), until: null }
  }

  view(): NodeView {
    const { state, reason, since, until } = this.state
    return {
      name: this.name,
      address: this.#url.host,
      state,
      reason,
      since: new Date(since).toISOString(),
      until: until === null ? null : new Date(until).toISOString(),
      inFlight: this.inFlight,
      maxInFlight: this.config.max_in_flight,
      load: this.load && {
        running: this.load.running,
        waiting: this.load.waiting,
        kvCache: this.load.kvCache,
        at: new Date(this.load.at).toISOString(),
      },
      models: [...this.models.values()].map(({ id, parent, maxModelLength }) => ({ id, parent, maxModelLength })),
      adapters: [...this.adapters].map(([servedName, { state, reason }]) => ({ servedName, state, reason })),
    }
  }

  #setHealth(health: 'up' | 'down', reason: string | null) {
    this.health = health
    this.healthReason = reason
    this.healthSince = Date.now()
  }
}
