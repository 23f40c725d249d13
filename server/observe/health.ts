// /healthz: this process answers. /readyz: it can do its work; whoever sends requests to several servers asks this one.
// Neither tells more than names of parts and whether they work.

import { Hono } from 'hono'
import { describeRoute } from 'hono-openapi'
import type { Log } from './log.ts'

/** A part of the server; throws when it does not work. */
export type Check = () => Promise<void> | void

const DEADLINE_MS = 3_000

export class Health {
  #checks = new Map<string, Check>()
  #stopping = false

  constructor(private readonly log: Log) {}

  add(part: string, check: Check) {
    this.#checks.set(part, check)
  }

  /** From now on not ready: the server is about to end. */
  stop() {
    this.#stopping = true
  }

  async read(): Promise<{ ready: boolean; parts: Record<string, 'ok' | 'failed'> }> {
    const results = await Promise.all(
      [...this.#checks].map(async ([part, check]) => [part, await this.#run(part, check)]),
    )
    const parts = Object.fromEntries(results) as Record<string, 'ok' | 'failed'>
    if (this.#stopping) parts.server = 'failed'
    return { ready: Object.values(parts).every((part) => part === 'ok'), parts }
  }

  async #run(part: string, check: Check): Promise<'ok' | 'failed'> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`No answer within ${DEADLINE_MS} ms.`)), DEADLINE_MS)
    })
    try {
      await Promise.race([check(), late])
      return 'ok'
    } catch (error) {
      this.log.error({ part, err: error }, 'not ready')
      return 'failed'
    } finally {
      clearTimeout(timer)
    }
  }
}

export function healthRoutes(health: Health) {
  return new Hono()
    .get(
      '/healthz',
      describeRoute({
        summary: 'Whether the process answers',
        tags: ['health'],
        responses: { 200: { description: 'It does.' } },
      }),
      (c) => c.json({ status: 'ok' as const }),
    )
    .get(
      '/readyz',
      describeRoute({
        summary: 'Whether the server can do its work',
        tags: ['health'],
        responses: {
          200: { description: 'It can.' },
          503: { description: 'A part has failed, or the server is ending.' },
        },
      }),
      async (c) => {
        const read = await health.read()
        c.header('Cache-Control', 'no-store')
        return c.json(read, read.ready ? 200 : 503)
      },
    )
}
