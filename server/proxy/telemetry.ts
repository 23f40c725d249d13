// The proxy's numbers for Prometheus. Labels are names of the config and of the routes; never a user's text.

import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Account } from './account.ts'
import type { Fleet } from './fleet.ts'
import type { NodeState } from './views.ts'

const STATES: NodeState[] = ['unknown', 'up', 'open', 'probing', 'down', 'draining', 'drained']
const SECONDS = [0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800]

export class Telemetry {
  readonly registry = new Registry()
  #requests: Counter<'node' | 'model' | 'route' | 'outcome'>
  #retries: Counter<'node'>
  #tokens: Counter<'model' | 'kind'>
  #seconds: Histogram<'route'>
  #firstByte: Histogram<'route'>

  constructor(fleet: () => Fleet) {
    const registers = [this.registry]
    this.#requests = new Counter({
      name: 'rollout_lab_proxy_requests_total',
      help: 'Requests by how they ended, and the node that they were last on.',
      labelNames: ['node', 'model', 'route', 'outcome'],
      registers,
    })
    this.#retries = new Counter({
      name: 'rollout_lab_proxy_retries_total',
      help: 'Attempts beyond the first, by the node that a request ended on.',
      labelNames: ['node'],
      registers,
    })
    this.#tokens = new Counter({
      name: 'rollout_lab_proxy_tokens_total',
      help: 'Tokens as nodes told them, or as events were counted.',
      labelNames: ['model', 'kind'],
      registers,
    })
    this.#seconds = new Histogram({
      name: 'rollout_lab_proxy_request_seconds',
      help: 'From the arrival of a request to the end of its answer.',
      labelNames: ['route'],
      buckets: SECONDS,
      registers,
    })
    this.#firstByte = new Histogram({
      name: 'rollout_lab_proxy_first_byte_seconds',
      help: "From the arrival of a request to the first byte of the node's answer.",
      labelNames: ['route'],
      buckets: SECONDS,
      registers,
    })
    new Gauge({
      name: 'rollout_lab_proxy_waiting',
      help: 'Requests that wait for a node.',
      registers,
      collect() {
        this.set(fleet().queue.size)
      },
    })
    new Gauge({
      name: 'rollout_lab_proxy_in_flight',
      help: 'Requests on a node.',
      labelNames: ['node'],
      registers,
      collect() {
        this.reset()
        for (const { name, inFlight } of fleet().nodes) this.set({ node: name }, inFlight)
      },
    })
    new Gauge({
      name: 'rollout_lab_proxy_node_state',
      help: '1 for the state that a node is in.',
      labelNames: ['node', 'state'],
      registers,
      collect() {
        this.reset()
        for (const node of fleet().nodes)
          for (const state of STATES) this.set({ node: node.name, state }, state === node.state.state ? 1 : 0)
      },
    })
  }

  count({ node, model, route, outcome, attempts, tokens, seconds, firstByteSeconds }: Account) {
    this.#requests.inc({ node: node ?? '', model: model ?? '', route, outcome })
    if (attempts > 1) this.#retries.inc({ node: node! }, attempts - 1)
    if (tokens.prompt) this.#tokens.inc({ model: model ?? '', kind: 'prompt' }, tokens.prompt)
    if (tokens.completion) this.#tokens.inc({ model: model ?? '', kind: 'completion' }, tokens.completion)
    this.#seconds.observe({ route }, seconds)
    if (firstByteSeconds !== null) this.#firstByte.observe({ route }, firstByteSeconds)
  }
}
