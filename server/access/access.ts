// The door of the server: who asks, and whether that is allowed. Every route that gives or changes anything of a project
// stands behind `require(scope)`; handlers find the `Principal` in `c.var.principal`.

import type { Context, MiddlewareHandler } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import { routePath } from 'hono/route'
import type { Kysely } from 'kysely'
import type { Database } from '../store/tables/index.ts'
import { addressOf } from './address.ts'
import { Audit } from './audit.ts'
import type { AccessTable, Reach, ServerTable } from './config.ts'
import { namesOf, reachOf } from './config.ts'
import { digestOf, mint } from './credentials.ts'
import { cameFromElsewhere } from './crossSite.ts'
import { Keys, scopesOf } from './keys.ts'
import { Links } from './links.ts'
import { Live } from './live.ts'
import {
  allows,
  BROWSER,
  DEFAULT_PROJECT,
  Denied,
  implied,
  type Principal,
  SCOPES,
  type Scope,
  THIS_MACHINE,
} from './principal.ts'
import { Sessions } from './sessions.ts'

export interface AccessEnv {
  Variables: { principal: Principal; requestId: string }
}

/** Answers a request that is not let in. */
export type DenialAnswer = (c: Context, denied: Denied) => Response | Promise<Response>

export interface RequireOptions {
  answer?: DenialAnswer
  /** Whether writes are written into the audit log. */
  audit?: boolean
}

export interface AccessOptions {
  db: Kysely<Database>
  /** Asked at every use: the file may be read again while the server runs. */
  config(): { server: ServerTable; access: AccessTable }
  /** A failure that nobody waits for. */
  report(what: string, error: unknown): void
  now?: () => number
}

const READS = new Set(['GET', 'HEAD', 'OPTIONS'])

export class Access {
  readonly keys: Keys
  readonly audit: Audit
  /** Opens every door to a program that can read the server's data folder; ends with the server. */
  readonly machineKey = mint('key')
  readonly #machineDigest = digestOf(this.machineKey)
  readonly #links: Links
  readonly #sessions: Sessions
  readonly #live: Live
  readonly #tidy: NodeJS.Timeout

  static async open(options: AccessOptions): Promise<Access> {
    const access = new Access(options, await instanceOf(options.db))
    await access.audit.forget(options.config().access.audit_days)
    return access
  }

  private constructor(
    private readonly options: AccessOptions,
    /** Tells servers on other ports of this machine apart: they share their cookies. */
    private readonly instance: string,
  ) {
    const { db, config, report, now } = options
    this.keys = new Keys(db, now, (name) => this.#live.endAllOf(name))
    this.audit = new Audit(db, now)
    this.#links = new Links(now)
    this.#sessions = new Sessions(db, () => config().access.session_hours, now)
    this.#live = new Live(
      (id) => this.#isGood(id),
      (error) => report('looking for revoked keys', error),
    )
    this.#tidy = setInterval(() => {
      this.audit.forget(config().access.audit_days).catch((error) => report('tidying the audit log', error))
    }, 86_400_000)
    this.#tidy.unref()
  }

  /** Whether anybody but this machine can reach the server. */
  get reach(): Reach {
    return reachOf(this.options.config().server)
  }

  /** Host names beyond those of this machine. */
  get names(): string[] {
    return namesOf(this.options.config().server)
  }

  /** How people reach the server, where something stands in front of it. */
  get publicUrl(): string | null {
    return this.options.config().server.public_url ?? null
  }

  /** Pages of other origins that may ask with a key. */
  get origins(): readonly string[] {
    return this.options.config().access.origins
  }

  /**
   * Lets through whom the scope is given, with `c.var.principal` set. A write is written into the audit log, unless it is
   * an inference. Answers that stream end when the right to them does.
   */
  require(
    scope: Scope,
    { answer = asJson, audit = scope !== 'infer' }: RequireOptions = {},
  ): MiddlewareHandler<AccessEnv> {
    return async (c, next) => {
      let principal: Principal
      try {
        principal = await this.identify(c)
        if (!allows(principal, scope))
          throw new Denied(403, `The key ${principal.key} does not have the scope ${scope}: ask an operator for one.`)
      } catch (error) {
        if (error instanceof Denied) return answer(c, error)
        throw error
      }
      c.set('principal', principal)
      await next()
      endWith(principal.ended, c)
      if (audit && !READS.has(c.req.method)) await this.record(c, principal)
    }
  }

  /** On this machine anybody may; from elsewhere, whoever has a key. For what changes nothing and tells nothing. */
  member(): MiddlewareHandler {
    return async (c, next) => {
      if (this.reach === 'loopback') return next()
      try {
        await this.identify(c)
      } catch (error) {
        if (error instanceof Denied) return asJson(c, error)
        throw error
      }
      return next()
    }
  }

  /** Refuses writes that another page makes in the name of the person who is signed in here. Stands before all routes. */
  refuseCrossSite(answer: DenialAnswer = asJson): MiddlewareHandler {
    return async (c, next) => {
      if (READS.has(c.req.method) || c.req.header('authorization') !== undefined) return next()
      const sentence = this.#cameFromElsewhere(c, this.#cookie(c) !== undefined)
      return sentence === null ? next() : answer(c, new Denied(403, sentence))
    }
  }

  /** Who asks: by a bearer key, else by the cookie of a page. Throws Denied. */
  async identify(c: Context): Promise<Principal> {
    const header = c.req.header('authorization')
    if (header !== undefined) {
      const principal = await this.ofKey(/^Bearer +(\S+) *$/i.exec(header)?.[1] ?? '')
      if (principal) return principal
      throw new Denied(
        401,
        'The key in Authorization: Bearer … is unknown, revoked or expired: ask an operator for one.',
      )
    }
    const cookie = this.#cookie(c)
    if (cookie === undefined) throw new Denied(401, this.#howToEnter())
    const principal = await this.#ofCookie(cookie)
    if (!principal)
      throw new Denied(
        401,
        `This page is signed out: it was not used for long, or its key has ended. ${this.#howToEnter()}`,
      )
    const sentence = this.#cameFromElsewhere(c, true)
    if (sentence !== null) throw new Denied(403, sentence)
    return principal
  }

  /** Whom a bearer key lets in; null for any other text. */
  async ofKey(text: string): Promise<Principal | null> {
    if (digestOf(text) === this.#machineDigest) return this.#owner(THIS_MACHINE, 'machine', 'machine')
    const row = await this.keys.find(text)
    if (!row) return null
    return {
      key: row.name,
      project: row.project,
      scopes: scopesOf(row),
      via: 'key',
      ended: this.#live.signal(`key ${row.name}`),
    }
  }

  /** A token for one page of the owner of this machine. */
  makeLink(): { token: string; expiresAt: number } {
    return this.#links.make(this.options.config().access.link_hours)
  }

  /** Signs a page in by a one-time token or a key, and sets its cookie. Throws Denied. */
  async signIn(c: Context, by: { token: string } | { key: string }): Promise<Principal> {
    let keyName: string | null = null
    if ('token' in by) {
      if (!this.#links.take(by.token))
        throw new Denied(
          401,
          'This link was opened before, is too old, or was made by a server that has ended: `rollout-lab keys link` makes another.',
        )
    } else {
      const row = await this.keys.find(by.key)
      if (!row) throw new Denied(401, 'This key is unknown, revoked or expired: ask an operator for one.')
      keyName = row.name
    }
    const { cookie, row } = await this.#sessions.open(keyName)
    const principal = await this.#ofSession(row)
    if (!principal) throw new Denied(401, 'This key has just been revoked.')
    const seconds = Math.floor(this.options.config().access.session_hours * 3600)
    setCookie(c, this.#cookieName, cookie, { ...this.#cookieOptions(), maxAge: seconds })
    c.header('Cache-Control', 'no-store')
    await this.record(c, principal, 200)
    return principal
  }

  async signOut(c: Context): Promise<void> {
    const cookie = this.#cookie(c)
    deleteCookie(c, this.#cookieName, this.#cookieOptions())
    if (cookie === undefined) return
    const digest = digestOf(cookie)
    const row = await this.#sessions.peek(digest)
    await this.#sessions.end(digest)
    this.#live.end(row?.key_name ? `session ${digest} ${row.key_name}` : `session ${digest}`)
  }

  /** Writes into the audit log; `require` does it for every write by itself. */
  async record(c: Context, { key, project }: Principal, status = c.res.status): Promise<void> {
    const entry = {
      key_name: key,
      project,
      action: `${c.req.method} ${routePath(c)}`,
      path: c.req.path,
      status,
      request_id: c.get('requestId') ?? '',
      address: addressOf(c),
    }
    // What was done is done: that nobody could write it down is told, and does not make it a failure.
    await this.audit.write(entry).catch((error) => this.options.report('writing the audit log', error))
  }

  /** Ends every answer that streams. */
  close() {
    this.#live.close()
    clearInterval(this.#tidy)
  }

  get #secure(): boolean {
    return this.options.config().server.public_url?.startsWith('https://') ?? false
  }

  get #cookieName(): string {
    return `${this.#secure ? '__Host-' : ''}rollout-lab-${this.instance}`
  }

  #cookieOptions() {
    return { httpOnly: true, sameSite: 'Strict', path: '/', secure: this.#secure } as const
  }

  #cookie(c: Context): string | undefined {
    return getCookie(c, this.#cookieName)
  }

  async #ofCookie(cookie: string): Promise<Principal | null> {
    const row = await this.#sessions.find(cookie)
    return row && this.#ofSession(row)
  }

  async #ofSession({ digest, key_name }: { digest: string; key_name: string | null }): Promise<Principal | null> {
    if (key_name === null) return this.#owner(BROWSER, 'session', `session ${digest}`)
    const row = await this.keys.named(key_name)
    if (!row) return null
    const ended = this.#live.signal(`session ${digest} ${key_name}`)
    return { key: key_name, project: row.project, scopes: scopesOf(row), via: 'session', ended }
  }

  #owner(key: string, via: Principal['via'], id: string): Principal {
    return { key, project: DEFAULT_PROJECT, scopes: implied(SCOPES), via, ended: this.#live.signal(id) }
  }

  #cameFromElsewhere(c: Context, cookie: boolean): string | null {
    const { public_url } = this.options.config().server
    const { protocol, host } = new URL(c.req.url)
    const asked = {
      method: c.req.method,
      site: c.req.header('sec-fetch-site') ?? null,
      origin: c.req.header('origin') ?? null,
      own: [`${protocol}//${c.req.header('host') ?? host}`, ...(public_url ? [public_url] : [])],
    }
    return cameFromElsewhere(asked, cookie)
  }

  async #isGood(id: string): Promise<boolean> {
    const [kind, name, key] = id.split(' ')
    if (kind === 'key') return (await this.keys.named(name)) !== null
    if (kind !== 'session') return true
    return (await this.#sessions.peek(name)) !== null && (key === undefined || (await this.keys.named(key)) !== null)
  }

  #howToEnter(): string {
    return this.reach === 'loopback'
      ? 'Open the link that the server printed when it started, or run `rollout-lab keys link` for another; a program sends a key.'
      : 'Sign in with a key, or send it as Authorization: Bearer ….'
  }
}

export const asJson: DenialAnswer = (c, { message, status }) => {
  if (status === 401) c.header('WWW-Authenticate', 'Bearer realm="rollout-lab"')
  return c.json({ error: message }, status)
}

/** An answer that is still being written is cut off when its right ends. */
function endWith(ended: AbortSignal, c: Context) {
  if (!c.res.headers.get('content-type')?.startsWith('text/event-stream') || !c.res.body) return
  c.res = new Response(c.res.body.pipeThrough(new TransformStream(), { signal: ended }), c.res)
}

async function instanceOf(db: Kysely<Database>): Promise<string> {
  const name = 'instance'
  await db
    .insertInto('server_fact')
    .values({ name, value: digestOf(mint('session')).slice(0, 8) })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .execute()
  const row = await db.selectFrom('server_fact').select('value').where('name', '=', name).executeTakeFirstOrThrow()
  return row.value
}
