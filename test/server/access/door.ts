// A server's door without a port: the app as it is guarded in life, over a store in a temporary folder.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { Access } from '../../../server/access/access.ts'
import type { NewKey } from '../../../server/access/keys.ts'
import { createApp } from '../../../server/app.ts'
import { DEFAULT_CONFIG, type ServerConfig } from '../../../server/config.ts'
import { Health } from '../../../server/observe/health.ts'
import { type Log, openLog } from '../../../server/observe/log.ts'
import { Metrics } from '../../../server/observe/metrics.ts'
import type { KeySource } from '../../../server/secrets/keyring.ts'
import { Secrets } from '../../../server/secrets/secrets.ts'
import { openStore, type Store } from '../../../server/store/open.ts'

export interface TestDoor {
  folder: string
  store: Store
  access: Access
  secrets: Secrets
  health: Health
  log: Log
  config: ServerConfig
  /** What the log has said, as lines. */
  lines: string[]
  /** What the server reads as the time. */
  clock: { now: number }
  /** Closes the door and opens another over the same store, as a restart does. */
  restart(): Promise<void>
  /** As a program: no headers but those given. */
  fetch(path: string, init?: RequestInit): Promise<Response>
  /** As a page of this server's: the browser's headers, the cookie. */
  page(path: string, init?: RequestInit & { cookie?: string }): Promise<Response>
  /** A new key. */
  key(wanted?: Partial<NewKey>): Promise<string>
  /** Signs a page in by a link; its cookie. */
  signIn(): Promise<string>
}

export const HOST = '127.0.0.1:5173'

export async function openDoor(
  over: (config: ServerConfig) => ServerConfig = (config) => config,
  options: { url?: string | null; keys?: (folder: string) => KeySource } = {},
): Promise<TestDoor> {
  const folder = await mkdtemp(join(tmpdir(), 'rollout-lab-door-'))
  const store = await openStore({ folder, url: options.url })
  const lines: string[] = []
  const { log } = openLog({ level: 'trace', to: { write: (line) => lines.push(line) } })
  const config = over(structuredClone(DEFAULT_CONFIG))
  const clock = { now: Date.parse('2026-11-21T12:00:00Z') }
  let app: ReturnType<typeof createApp>
  let names = 0
  const start = async () => {
    door.access = await Access.open({
      db: store.db,
      config: () => door.config,
      report: (what, error) => lines.push(`${what}: ${error}`),
      now: () => clock.now,
    })
    door.secrets = new Secrets(store.db, options.keys?.(folder) ?? { file: join(folder, 'secrets.key') })
    door.health = new Health(log)
    const { access, secrets, health } = door
    app = createApp({ webRoot: folder, guarded: { access, secrets, log, metrics: new Metrics(), health } })
  }
  const door: TestDoor = {
    folder,
    store,
    config,
    clock,
    lines,
    log,
    access: undefined as never,
    secrets: undefined as never,
    health: undefined as never,
    async restart() {
      door.access.close()
      await start()
    },
    async fetch(path, init = {}) {
      return app.request(`http://${HOST}${path}`, { ...init, headers: { host: HOST, ...init.headers } })
    },
    page(path, { cookie, ...init } = {}) {
      const headers = { 'sec-fetch-site': 'same-origin', ...(cookie && { cookie }), ...init.headers }
      return door.fetch(path, { ...init, headers })
    },
    async key(wanted = {}) {
      const all: NewKey = {
        name: `key-${++names}`,
        project: 'default',
        scopes: ['operator'],
        expiresAt: null,
        ...wanted,
      }
      return (await door.access.keys.create(all, 'test')).key
    },
    async signIn() {
      const answer = await door.fetch(`/?token=${door.access.makeLink().token}`)
      return cookieOf(answer)!
    },
  }
  await start()
  onTestFinished(async () => {
    door.access.close()
    await store.close()
    await rm(folder, { recursive: true, force: true })
  })
  return door
}

/** `name=value` of the cookie that an answer sets. */
export function cookieOf(answer: Response): string | null {
  return answer.headers.get('set-cookie')?.split(';')[0] ?? null
}

export const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

export const json = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
})

/** The sentence of a refusal. */
export async function sentence(answer: Response): Promise<string> {
  return ((await answer.json()) as { error: string }).error
}
