// The nodes of server.toml, which of them a request goes to, and the line in which it waits for one.

import { nodeOfSession, type Prefixes } from './affinity.ts'
import type { Leave } from './breaker.ts'
import type { ProxyConfig } from './config.ts'
import { Node, type NodeSpec } from './node.ts'
import { FairQueue } from './queue.ts'
import { Refusal, shuttingDown } from './refusal.ts'
import { Watch } from './watch.ts'

export interface Wish {
  /** The name by which nodes serve what is asked for. */
  model: string
  /** It is an adapter that nodes are to serve, even where none does yet. */
  wanted: boolean
  /** Nodes that this request has been on. */
  tried: ReadonlySet<string>
  session: string | null
  /** Hashes of the beginning of its prompt. */
  pieces: readonly number[]
}

export interface Place {
  node: Node
  leave: Leave
  /** Every breaker was open, and this node the least bad. */
  lastResort: boolean
}

export interface FleetEvents {
  /** A node came up, came back or lost its memory. */
  returned(node: Node): void
}

/** Between two requests to the least bad node, when all breakers are open, ms. */
const LAST_RESORT_EVERY = 1000
const PUMP_EVERY = 100

export class Fleet {
  readonly queue: FairQueue<Place>
  cutting = false
  #nodes = new Map<string, Node>()
  #watches = new Map<Node, Watch>()
  #ticking: NodeJS.Timeout | undefined
  #turn = 0

  constructor(
    private config: ProxyConfig,
    private readonly prefixes: Prefixes,
    private readonly events: FleetEvents,
  ) {
    this.queue = new FairQueue(config.queue)
  }

  get nodes(): Node[] {
    return [...this.#nodes.values()]
  }

  node(name: string): Node | undefined {
    return this.#nodes.get(name)
  }

  watchOf(node: Node): Watch | undefined {
    return this.#watches.get(node)
  }

  /** Takes up another config. A node that is gone, or lives elsewhere now, finishes what it has. */
  configure(config: ProxyConfig, nodes: readonly NodeSpec[]) {
    const reconnect = config.deadlines.connect_seconds !== this.config.deadlines.connect_seconds
    this.config = config
    this.queue.configure(config.queue)
    const wanted = new Map(nodes.map((node) => [node.name, node]))
    for (const node of this.nodes) {
      const next = wanted.get(node.name)
      if (!next || reconnect || connection(next) !== connection(node.config)) {
        this.#remove(node)
        continue
      }
      node.config = next
      node.breaker.configure(config.breaker)
      this.#watches.get(node)?.configure(config.health)
    }
    for (const next of nodes) if (!this.#nodes.has(next.name)) this.#add(next)
    this.queue.pump()
  }

  /** A place for the wish, null when it is worth waiting for one; throws a Refusal when it is not. */
  place(wish: Wish): Place | null {
    const free: Node[] = []
    const open: Node[] = []
    let known = false
    let worthWaiting = false
    const now = Date.now()
    for (const node of this.#nodes.values()) {
      if (wish.tried.has(node.name)) continue
      if (node.health === 'unknown' || node.adapters.get(wish.model)?.state === 'loading') worthWaiting = true
      if (!node.models.has(wish.model)) continue
      known = true
      if (node.draining || node.health !== 'up') continue
      if (node.inFlight >= node.config.max_in_flight || node.busyUntil > now) {
        worthWaiting = true
        continue
      }
      const admitted = node.breaker.admits()
      // The request that tries a returning node is a user's: no other knows whether it answers users.
      if (admitted === 'probe') return { node, leave: node.take(), lastResort: false }
      if (admitted === 'yes') free.push(node)
      else open.push(node)
    }
    if (free.length) {
      const node = this.#choose(free, wish)
      return { node, leave: node.take(), lastResort: false }
    }
    if (worthWaiting) return null
    if (open.length && wish.tried.size === 0) return this.#lastResort(open, now)
    if (known) throw noneUp(wish.model)
    throw wish.wanted ? notLoaded() : noneServes(wish.model)
  }

  /** Gives a place back; whoever waits may have it. */
  release({ node }: Place) {
    node.inFlight--
    if (this.queue.size) this.queue.pump()
  }

  /** Starts the clock that looks for places that became free by time alone. */
  tick() {
    if (this.#ticking || !this.queue.size) return
    this.#ticking = setInterval(() => {
      this.queue.pump()
      if (this.queue.size) return
      clearInterval(this.#ticking)
      this.#ticking = undefined
    }, PUMP_EVERY)
  }

  /** Ends every answer that is under way, and tries none again. */
  cut(reason: string) {
    this.cutting = true
    this.queue.close(shuttingDown())
    for (const node of this.nodes) for (const attempt of [...node.attempts]) attempt.stop('lost', reason)
  }

  async close() {
    clearInterval(this.#ticking)
    await Promise.all(
      this.nodes.map((node) => {
        this.#watches.get(node)?.stop()
        return node.close()
      }),
    )
  }

  #add(config: NodeSpec) {
    const node = new Node(config, {
      breaker: this.config.breaker,
      connectSeconds: this.config.deadlines.connect_seconds,
    })
    const watch = new Watch(node, this.config.health, {
      changed: () => this.queue.pump(),
      returned: (returned) => this.events.returned(returned),
    })
    this.#nodes.set(node.name, node)
    this.#watches.set(node, watch)
    watch.start()
  }

  #remove(node: Node) {
    this.#nodes.delete(node.name)
    this.#watches.get(node)?.stop()
    this.#watches.delete(node)
    this.prefixes.forget(node.name)
    node.setDraining(true)
    // Its last answers have as long as any answer.
    const end = Date.now() + this.config.deadlines.whole_seconds * 1000
    const wait = setInterval(() => {
      if (node.inFlight > 0 && Date.now() < end) return
      clearInterval(wait)
      void node.close()
    }, 1000)
    wait.unref()
  }

  /** The node of the session, or of the longest known beginning, unless it is much fuller than the emptiest. */
  #choose(free: readonly Node[], wish: Wish): Node {
    const turn = this.#turn++
    let emptiest = free[turn % free.length]
    for (const node of free) if (node.fullness < emptiest.fullness) emptiest = node
    const name =
      wish.session !== null
        ? nodeOfSession(
            wish.session,
            free.map((node) => node.name),
          )
        : this.prefixes.nodeOf(wish.pieces)
    const sticky = name === undefined ? undefined : free.find((node) => node.name === name)
    const chosen = sticky && sticky.fullness <= emptiest.fullness + this.config.sticky.slack ? sticky : emptiest
    if (wish.pieces.length) this.prefixes.remember(wish.pieces, chosen.name)
    return chosen
  }

  /** One request at a time, and not often, to the node that is due first; all others wait. */
  #lastResort(open: readonly Node[], now: number): Place | null {
    const node = open.reduce((a, b) => ((b.breaker.until ?? 0) < (a.breaker.until ?? 0) ? b : a))
    if (node.breaker.probing || now - Math.max(node.lastResortAt, node.breaker.since) < LAST_RESORT_EVERY) return null
    node.lastResortAt = now
    return { node, leave: node.take(true), lastResort: true }
  }
}

/** What a node's connections depend on. */
const connection = ({ url, admin_url, key_env, key }: NodeSpec) => JSON.stringify([url, admin_url, key_env, key])

function noneUp(model: string) {
  const sentence = `No node that serves ${model} is up: GET /api/proxy/nodes tells why.`
  return new Refusal(503, 'no_node_up', sentence, { retryAfterSeconds: 10 })
}

function notLoaded() {
  const sentence = 'No node has loaded this adapter: GET /api/proxy/adapters tells why.'
  return new Refusal(503, 'adapter_not_loaded', sentence, { retryAfterSeconds: 10 })
}

function noneServes(model: string) {
  return new Refusal(404, 'model_not_found', `No node serves ${model}: GET /v1/models lists what there is.`, {
    param: 'model',
  })
}
