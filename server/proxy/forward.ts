// One request from its arrival to the end of its answer: taken in, checked, named, placed, sent, and sent again elsewhere
// while nothing of an answer has been seen. Writes to the client past the router: bytes as they come, and no faster than
// they are taken.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Prefixes } from './affinity.ts'
import { type Answer, Attempt, type Ending } from './attempt.ts'
import { type Body, readBody, withModel } from './body.ts'
import type { RetryBudget } from './budget.ts'
import { deadlinesOf, type ProxyConfig } from './config.ts'
import { whenEnded } from './endings.ts'
import type { Fleet, Place, Wish } from './fleet.ts'
import { EVERYWHERE, isJson, one, sessionOf, toClient, toNode } from './headers.ts'
import { checkLimits } from './limits.ts'
import { type Meaning, meaningOf, type Names } from './names.ts'
import type { Applicant } from './queue.ts'
import type { Rates } from './rates.ts'
import { receive } from './receive.ts'
import { Refusal, shuttingDown } from './refusal.ts'
import type { Route } from './routes.ts'

/** Who asks, as access has found out. */
export interface Caller {
  /** The key's id or name, never the key. */
  key: string
  project: string
  /** Aborts when the right to the answer ends while it is on its way. */
  ended?: AbortSignal
}

export type Outcome =
  | 'answered'
  /** An error that the node gave to the request: 4xx. */
  | 'client_error'
  /** A refusal of ours. */
  | 'refused'
  | 'failed'
  | 'cut'
  | 'left'
  | 'stalled'

/** What became of a request, for usage and metrics. Holds no text of the user's. */
export interface Account {
  caller: Caller
  route: string
  /** The name that was asked for where it means something; null otherwise, since it is then the user's own text. */
  model: string | null
  node: string | null
  attempts: number
  outcome: Outcome
  status: number
  tokens: { prompt: number; completion: number; estimated: boolean }
  seconds: number
  firstByteSeconds: number | null
}

export interface Forwarding {
  config: ProxyConfig
  fleet: Fleet
  rates: Rates
  budget: RetryBudget
  prefixes: Prefixes
  names: Names
  /** Set while the server shuts down. */
  closing: boolean
  report(account: Account): void
  /** A node did not know an adapter or model that it had listed. */
  forgot(place: Place): void
}

const NO_TOKENS = { prompt: 0, completion: 0, estimated: false }

/** Answers one request of the list of routes. Resolves when the answer has ended; never throws for what a client sends. */
export async function forward(
  f: Forwarding,
  route: Route,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  caller: Caller,
  id: string,
): Promise<void> {
  const began = performance.now()
  const account: Account = {
    caller,
    route: route.path,
    model: null,
    node: null,
    attempts: 0,
    outcome: 'refused',
    status: 0,
    tokens: NO_TOKENS,
    seconds: 0,
    firstByteSeconds: null,
  }
  try {
    if (f.closing) throw shuttingDown()
    f.rates.admit(caller.key, caller.project)
    const bytes = await receive(incoming, f.config.limits.body_bytes, f.config.deadlines.body_seconds)
    if (bytes === null) {
      account.outcome = 'left'
      return
    }
    const body = readBody(bytes, f.config.limits)
    checkLimits(body, f.config.limits)
    const meaning = meaningOf(body.model, caller.project, f.names)
    if (meaning === null) throw unknownModel(body.model)
    f.budget.requested()
    await new Delivery(f, route, incoming, outgoing, account, id, body, meaning, began).run()
  } catch (error) {
    const refusal = error instanceof Refusal ? error : internal(error, id)
    if (account.outcome !== 'failed') account.outcome = refusal.status >= 500 ? 'failed' : 'refused'
    account.status = refusal.status
    refuse(outgoing, refusal, { ...refusal.headers, ...told(id, account) }, incoming)
  } finally {
    account.seconds = (performance.now() - began) / 1000
    const { prompt, completion } = account.tokens
    dropStalled(outgoing, f.config.deadlines.stalled_client_seconds)
    if (prompt + completion > 0) f.rates.spend(caller.key, caller.project, prompt + completion)
    f.report(account)
  }
}

class Delivery {
  #tried = new Set<string>()
  #retries = 0
  #resent = false
  #place: Place | null = null
  #attempt: Attempt | null = null
  #leaveQueue: (() => void) | null = null
  #left = false
  #late: string | null = null

  constructor(
    private readonly f: Forwarding,
    private readonly route: Route,
    private readonly incoming: IncomingMessage,
    private readonly client: ServerResponse,
    private readonly account: Account,
    private readonly id: string,
    private readonly body: Body,
    private readonly meaning: Meaning,
    private readonly began: number,
  ) {}

  async run() {
    const { f, body, meaning } = this
    const deadlines = deadlinesOf(f.config, this.route.path, body.model)
    const bytes = meaning.servedName === body.model ? body.bytes : withModel(body, meaning.servedName)
    const session = sessionOf(this.incoming.headers, f.config.sticky.session_header)
    const wish: Wish = {
      model: meaning.servedName,
      wanted: meaning.kind === 'adapter',
      tried: this.#tried,
      session,
      pieces: session === null ? f.prefixes.piecesOf(meaning.servedName, promptOf(body)) : [],
    }
    const whole = setTimeout(
      () => this.#expire(`the whole answer took more than ${deadlines.whole_seconds} s`),
      deadlines.whole_seconds * 1000,
    )
    this.#left = this.client.destroyed
    const onClose = () => {
      this.#left = true
      this.#leaveQueue?.()
    }
    this.client.once('close', onClose)
    const { ended } = this.account.caller
    // When the server is stopped all rights end; answers have their time all the same.
    const onEnded = () => {
      if (!f.closing) this.#expire('the right to it ended')
    }
    const stopWaiting = ended && whenEnded(ended, onEnded)
    let last: Extract<Ending, { kind: 'failed' }> | null = null
    try {
      while (!this.#left && this.#late === null) {
        const place = await this.#placed(wish, last)
        if (place === null) break
        const ending = await this.#attemptOn(place, bytes, deadlines)
        if (ending.kind !== 'failed') return
        last = ending
        if (this.#late !== null || !(await this.#mayRetry(ending))) break
      }
      if (this.#left) {
        this.account.outcome = 'left'
        return
      }
      this.#giveUp(last)
    } finally {
      clearTimeout(whole)
      this.client.off('close', onClose)
      stopWaiting?.()
    }
  }

  /** Null when there is none any more, and when the client has left. */
  async #placed(wish: Wish, last: Extract<Ending, { kind: 'failed' }> | null): Promise<Place | null> {
    const { fleet } = this.f
    const applicant: Applicant<Place> = {
      key: this.account.caller.key,
      label: wish.model,
      picky: wish.tried.size > 0,
      place: () => fleet.place(wish),
    }
    try {
      // The name means something as soon as a node has been looked for without a refusal.
      const now = fleet.queue.now(applicant)
      if (now) return now
      const { place, leave } = fleet.queue.enter(applicant, last !== null)
      fleet.tick()
      return await new Promise<Place | null>((resolve, reject) => {
        this.#leaveQueue = () => {
          leave()
          resolve(null)
        }
        if (this.#left) this.#leaveQueue()
        place.then((given) => {
          if (this.#left || this.#late !== null) {
            given.node.breaker.abandoned(given.leave)
            fleet.release(given)
            resolve(null)
          } else resolve(given)
        }, reject)
      })
    } catch (error) {
      if (last === null) throw error
      return null
    } finally {
      this.#leaveQueue = null
    }
  }

  async #attemptOn(place: Place, bytes: Buffer, deadlines: ReturnType<typeof deadlinesOf>): Promise<Ending> {
    const { f, account, incoming } = this
    const { node } = place
    this.#place = place
    this.#tried.add(node.name)
    account.model = this.body.model
    account.node = node.name
    account.attempts++
    const attempt = new Attempt(
      node,
      {
        path: this.route.path,
        body: bytes,
        headers: toNode(incoming.headers, this.id, node.authorization),
        stream: this.body.stream,
        deadlines,
      },
      this.client,
      (status, headers, length) => {
        account.status = status
        return toClient(headers, length, { ...told(this.id, account), ...this.#told() })
      },
    )
    this.#attempt = attempt
    attempt.send()
    const ending = await attempt.ended
    this.#attempt = null
    this.#record(ending, attempt)
    settle(place, ending, f)
    f.fleet.release(place)
    return ending
  }

  #told() {
    const { node, attempts } = this.account
    return { id: this.id, node: node!, attempts, lastResort: this.#place!.lastResort }
  }

  #record(ending: Ending, attempt: Attempt) {
    const { account } = this
    if (attempt.firstByteAt !== null) account.firstByteSeconds = (attempt.firstByteAt - this.began) / 1000
    switch (ending.kind) {
      case 'answered':
        account.outcome = ending.status < 400 ? (ending.erred ? 'failed' : 'answered') : 'client_error'
        if (ending.status === 200) account.tokens = attempt.tokens
        return
      case 'cut':
        account.outcome = 'cut'
        account.tokens = attempt.tokens
        return
      case 'left':
        account.outcome = ending.stalled ? 'stalled' : 'left'
        if (attempt.firstByteAt !== null) account.tokens = attempt.tokens
        return
      case 'failed':
        account.outcome = 'failed'
    }
  }

  /** Whether to try another node, after the wait that is due. */
  async #mayRetry({ cause }: Extract<Ending, { kind: 'failed' }>): Promise<boolean> {
    const { f } = this
    const { most, shortest_wait_seconds: shortest, longest_wait_seconds: longest } = f.config.retries
    if (f.fleet.cutting) return false
    // Nothing was sent, or nothing could be done with it: another try costs a node nothing.
    if (cause === 'refused' || cause === 'unserved') return true
    if (this.#retries >= most) return false
    this.#retries++
    // It may be this very request that ends nodes: it is sent once more, and not a third time.
    if (cause === 'lost') {
      if (this.#resent) return false
      this.#resent = true
      return true
    }
    if (!f.budget.take()) return false
    if (this.#retries > 1) {
      const seconds = shortest + Math.random() * (longest - shortest)
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
    }
    return true
  }

  /** No node is left to try: the last one's own words, where it had any, or ours. */
  #giveUp(last: Extract<Ending, { kind: 'failed' }> | null) {
    const { account } = this
    account.outcome = 'failed'
    if (account.caller.ended?.aborted) throw new Refusal(401, 'ended', 'The key has ended.')
    if (this.#late !== null) throw new Refusal(504, 'deadline', this.#late)
    if (last === null) throw new Refusal(503, 'no_node_up', 'No node could be found.', { retryAfterSeconds: 10 })
    if (last.cause === 'status' && last.answer && speaksJson(last.answer)) {
      const { status, headers, body } = last.answer
      account.status = status
      if (this.client.headersSent || this.client.destroyed) return
      this.client.writeHead(status, toClient(headers, body.length, this.#told()))
      this.client.end(body)
      return
    }
    if (last.cause === 'unserved') throw unknownModel(this.body.model)
    const sentence = `Node ${account.node} failed: ${last.reason}.${account.attempts > 1 ? ` ${account.attempts} nodes were tried.` : ''}`
    if (last.cause === 'late') throw new Refusal(504, 'node_late', sentence)
    throw new Refusal(502, last.cause === 'nonsense' ? 'bad_answer' : 'node_failed', sentence)
  }

  /** Ends it for a reason that is not the node's. */
  #expire(reason: string) {
    this.#late = `The request was ended: ${reason}.`
    this.#leaveQueue?.()
    this.#attempt?.stop('ended', reason)
  }
}

/** Tells the node's breaker how it went; a request's own fault says nothing against the node. */
function settle(place: Place, ending: Ending, f: Forwarding) {
  const { node, leave } = place
  const { breaker } = node
  const watch = f.fleet.watchOf(node)
  switch (ending.kind) {
    case 'answered':
      if (ending.erred) breaker.failed(leave, 'its stream ended with an error')
      else breaker.succeeded(leave)
      break
    case 'left':
      breaker.abandoned(leave)
      break
    case 'cut':
      if (ending.cause === 'ended') breaker.abandoned(leave)
      else breaker.failed(leave, ending.reason)
      break
    case 'failed':
      if (ending.cause === 'ended') {
        breaker.abandoned(leave)
        return
      }
      if (ending.cause === 'unserved') {
        breaker.abandoned(leave)
        f.forgot(place)
        return
      }
      if (ending.cause === 'refused') {
        breaker.failed(leave, ending.reason)
        watch?.refused(ending.reason)
        return
      }
      breaker.failed(leave, ending.reason)
      node.busyUntil = Math.max(node.busyUntil, busyUntil(ending.answer))
  }
  if ((ending.kind === 'failed' || ending.kind === 'cut') && ending.cause === 'lost') void watch?.checkNow()
  if (breaker.state === 'open') watch?.opened()
}

const LONGEST_PATIENCE_SECONDS = 60

/** When a node that asked for patience wants to be asked again, ms. */
function busyUntil(answer: Answer | null): number {
  if (!answer || (answer.status !== 429 && answer.status !== 503)) return 0
  const seconds = Number(answer.headers['retry-after'])
  return seconds > 0 ? Date.now() + Math.min(seconds, LONGEST_PATIENCE_SECONDS) * 1000 : 0
}

const speaksJson = ({ headers, body }: Answer) => isJson(one(headers['content-type'])) && body.length > 0

/** The bytes of what is asked, whichever field holds it. */
function promptOf({ bytes, fields }: Body): Buffer {
  const field = fields.get('messages') ?? fields.get('prompt') ?? fields.get('input')
  return field ? bytes.subarray(field.start, field.end) : EMPTY
}

const EMPTY = Buffer.alloc(0)

function told(id: string, { node, attempts }: Account): Record<string, string> {
  return {
    'x-request-id': id,
    ...(node !== null && { 'x-rollout-lab-node': node }),
    'x-rollout-lab-attempts': String(attempts),
  }
}

/** What has been written is not yet taken: the client has as long as in the middle of an answer. */
function dropStalled(outgoing: ServerResponse, seconds: number) {
  if (outgoing.writableLength === 0 || outgoing.destroyed) return
  const timer = setTimeout(() => outgoing.destroy(), seconds * 1000)
  outgoing.once('close', () => clearTimeout(timer))
  outgoing.once('finish', () => clearTimeout(timer))
}

/** Writes an error of ours, unless something has been written already. */
export function refuse(
  outgoing: ServerResponse,
  { status, view }: Refusal,
  headers: Record<string, string>,
  incoming?: IncomingMessage,
) {
  if (outgoing.headersSent || outgoing.destroyed) return
  const body = JSON.stringify(view)
  outgoing.writeHead(status, [
    ...Object.entries(headers).flat(),
    ...[
      'Content-Type',
      'application/json',
      'Content-Length',
      String(Buffer.byteLength(body)),
      'Cache-Control',
      'no-store',
    ],
    ...EVERYWHERE,
    // What is left of a body that is not wanted is not waited for.
    ...(incoming && !incoming.complete ? ['Connection', 'close'] : []),
  ])
  outgoing.end(body)
}

function unknownModel(name: string) {
  return new Refusal(404, 'model_not_found', `There is no model ${name}: GET /v1/models lists what there is.`, {
    param: 'model',
  })
}

function internal(error: unknown, id: string) {
  console.error(`proxy: request ${id} failed inside:`, error)
  return new Refusal(500, 'internal', `The proxy failed at request ${id}.`)
}
