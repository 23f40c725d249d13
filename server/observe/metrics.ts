// Counters of the server as Prometheus reads them. Labels are patterns of routes, methods and outcomes: never an id, a
// path, a name that somebody chose, or a text.

import { Hono } from 'hono'
import { describeRoute } from 'hono-openapi'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Access } from '../access/access.ts'

const SECONDS = [0.005, 0.02, 0.1, 0.5, 2, 10, 60]

export class Metrics {
  readonly registry = new Registry()
  readonly #requests: Counter
  readonly #seconds: Histogram
  readonly #open: Gauge
  readonly #others: Registry[] = []

  constructor() {
    const registers = [this.registry]
    collectDefaultMetrics({ register: this.registry, prefix: 'rollout_lab_' })
    this.#requests = new Counter({
      name: 'rollout_lab_http_requests_total',
      help: 'Answered requests.',
      labelNames: ['method', 'route', 'status'],
      registers,
    })
    this.#seconds = new Histogram({
      name: 'rollout_lab_http_seconds',
      help: 'From a request to the headers of its answer.',
      labelNames: ['route'],
      buckets: SECONDS,
      registers,
    })
    this.#open = new Gauge({
      name: 'rollout_lab_http_open',
      help: 'Requests whose answer is not complete, followed runs included.',
      registers,
    })
  }

  opened() {
    this.#open.inc()
  }

  closed() {
    this.#open.dec()
  }

  answered(method: string, route: string, status: number, seconds: number) {
    this.#requests.inc({ method, route, status })
    this.#seconds.observe({ route }, seconds)
  }

  /** Numbers that are asked for when they are read, by the values of a label that has few. */
  gauge(name: string, help: string, label: string, read: () => Promise<Record<string, number>>) {
    new Gauge({
      name: `rollout_lab_${name}`,
      help,
      labelNames: [label],
      registers: [this.registry],
      async collect() {
        this.reset()
        for (const [value, count] of Object.entries(await read())) this.set({ [label]: value }, count)
      },
    })
  }

  /** The metrics of a room that keeps its own. */
  add(registry: Registry) {
    this.#others.push(registry)
  }

  get contentType(): string {
    return this.registry.contentType
  }

  async text(): Promise<string> {
    const parts = await Promise.all([this.registry, ...this.#others].map((registry) => registry.metrics()))
    return parts.join('\n')
  }
}

export function metricsRoute(metrics: Metrics, access: Access) {
  return new Hono().get(
    '/metrics',
    describeRoute({
      summary: 'Metrics for Prometheus',
      description: 'Open to this machine; from elsewhere, to any key.',
      tags: ['health'],
      responses: { 200: { description: 'The text format of Prometheus.' } },
    }),
    access.member(),
    async (c) => c.body(await metrics.text(), 200, { 'Content-Type': metrics.contentType }),
  )
}
