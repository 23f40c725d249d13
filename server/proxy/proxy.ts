// The proxy as one thing: made from its config and what the server lends it, and closed with the server.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Caller } from './account.ts'
import type { AdapterDesk } from './adapters/desk.ts'
import { Prefixes } from './affinity.ts'
import { RetryBudget } from './budget.ts'
import type { ProxyConfig } from './config.ts'
import { Fleet } from './fleet.ts'
import { type Forwarding, forward } from './forward.ts'
import { listModels, type Names } from './names.ts'
import type { Node, NodeSpec } from './node.ts'
import { Rates } from './rates.ts'
import type { Route } from './routes.ts'
import { Telemetry } from './telemetry.ts'
import { Usage, type UsageStore } from './usage.ts'

export interface ProxyOptions {
  config: ProxyConfig
  nodes: readonly NodeSpec[]
  usage: UsageStore
  /** Left out, no adapter is kept or loaded. */
  adapters?: AdapterDesk
}

export class ModelProxy {
  readonly fleet: Fleet
  readonly usage: Usage
  readonly telemetry: Telemetry
  readonly adapters: AdapterDesk | null
  readonly #forwarding: Forwarding
  readonly #created = Math.floor(Date.now() / 1000)
  #open = 0
  #whenIdle: (() => void) | null = null

  constructor({ config, nodes, usage, adapters }: ProxyOptions) {
    const prefixes = new Prefixes(config.sticky)
    this.adapters = adapters ?? null
    this.fleet = new Fleet(config, prefixes, { returned: (node) => void this.#reconcile(node) })
    this.usage = new Usage(usage)
    this.telemetry = new Telemetry(() => this.fleet)
    this.#forwarding = {
      config,
      fleet: this.fleet,
      rates: new Rates(config),
      budget: new RetryBudget(config.retries),
      prefixes,
      names: this.#names(config),
      closing: false,
      report: (account) => {
        this.usage.count(account)
        this.telemetry.count(account)
      },
      forgot: ({ node }) => void this.#reconcile(node),
    }
    if (adapters) {
      adapters.changed = () => this.#reconcileAll()
      adapters.nodes = () => this.fleet.nodes
      adapters.isTaken = (name) =>
        Object.hasOwn(this.config.aliases, name) || this.fleet.nodes.some((node) => node.models.has(name))
    }
    this.fleet.configure(config, nodes)
  }

  /** Requests under way. */
  get open() {
    return this.#open
  }

  get config() {
    return this.#forwarding.config
  }

  /** Takes up another config at once; requests under way go on. */
  configure(config: ProxyConfig, nodes: readonly NodeSpec[]) {
    const f = this.#forwarding
    f.config = config
    f.rates.configure(config)
    f.budget.configure(config.retries)
    f.prefixes.configure(config.sticky)
    f.names = this.#names(config)
    this.fleet.configure(config, nodes)
    void this.#reconcileAll()
  }

  /** `id` names the request to the node and in the answer. */
  async forward(route: Route, incoming: IncomingMessage, outgoing: ServerResponse, caller: Caller, id: string) {
    this.#open++
    try {
      await forward(this.#forwarding, route, incoming, outgoing, caller, id)
    } finally {
      this.#open--
      if (this.#open === 0) this.#whenIdle?.()
    }
  }

  models(project: string) {
    return { object: 'list' as const, data: listModels(project, this.#forwarding.names, this.#created) }
  }

  /** Takes no more requests, lets open answers end for so many seconds, cuts what is left, writes what was counted. */
  async close(graceSeconds = 0) {
    const f = this.#forwarding
    f.closing = true
    if (this.#open > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#whenIdle = resolve
      })
      const patience = setTimeout(() => this.fleet.cut('the server is being stopped'), graceSeconds * 1000)
      await idle
      clearTimeout(patience)
    }
    await this.fleet.close()
    await this.usage.close()
  }

  #names(config: ProxyConfig): Names {
    const { fleet, adapters } = this
    return {
      aliases: config.aliases,
      get adapters() {
        return adapters?.wanted ?? []
      },
      get nodes() {
        return fleet.nodes
      },
    }
  }

  async #reconcileAll() {
    await Promise.all(this.fleet.nodes.filter(({ health }) => health === 'up').map((node) => this.#reconcile(node)))
  }

  /** Compares what the node serves with what it should, and makes it so. Never throws: the next turn tries again. */
  async #reconcile(node: Node) {
    const watch = this.fleet.watchOf(node)
    if (!watch) return
    try {
      await watch.readModels()
      await this.adapters?.reconcile(node, () => watch.readModels())
    } catch {
      void watch.checkNow()
    } finally {
      this.fleet.queue.pump()
    }
  }
}
