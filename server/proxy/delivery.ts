// One request that has been taken in and checked: placed on a node, sent, and sent again elsewhere while nothing of an
// answer has been seen.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Account, told } from './account.ts'
import type { Prefixes } from './affinity.ts'
import { type Answer, Attempt, type Ending } from './attempt.ts'
import { type Body, withModel } from './body.ts'
import type { RetryBudget } from './budget.ts'
import { type Deadlines, deadlinesOf, type ProxyConfig } from './config.ts'
import { whenEnded } from './endings.ts'
import type { Fleet, Place, Wish } from './fleet.ts'
import { isJson, one, sessionOf, toClient, toNode } from './headers.ts'
import type { Meaning } from './names.ts'
import type { Applicant } from './queue.ts'
import { Refusal, unknownModel } from './refusal.ts'
import type { Route } from './routes.ts'

/** What a delivery uses of the proxy. */
export interface Dispatching {
  config: ProxyConfig
  fleet: Fleet
  budget: RetryBudget
  prefixes: Prefixes
  /** Set while the server shuts down. */
  closing: boolean
  /** A node did not know an adapter or model that it had listed. */
  forgot(place: Place): void
}

export class Delivery {
  #tried = new Set<string>()
  #retries = 0
  #resent = false
  #place: Place | null = null
  #attempt: Attempt | null = null
  #leaveQueue: (() => void) | null = null
  #left = false
  #late: string | null = null

  constructor(
    private readonly f: Dispatching,
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

  async #attemptOn(place: Place, bytes: Buffer, deadlines: Deadlines): Promise<Ending> {
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
function settle(place: Place, ending: Ending, f: Dispatching) {
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
