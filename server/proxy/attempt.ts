// One request on one node: sends it, passes the answer on as it comes, and says how it ended. Nothing reaches the client
// before the node has shown that it answers: the first whole event of a stream, or a whole answer up to a size. So a node
// that fails before has not been seen by the client, and the request may go to another.

import type { ServerResponse } from 'node:http'
import type { Dispatcher } from 'undici'
import { isRefusedConnection, trouble } from './ask.ts'
import type { Deadlines } from './config.ts'
import { isEventStream, isJson, one } from './headers.ts'
import type { Node } from './node.ts'
import { EventWatch, errorOf, type Tokens, tokensOf } from './stream.ts'

/**
 * Why a node failed. `refused` no connection was made, so nothing was sent · `lost` the connection broke · `late` a deadline ·
 * `status` it answered with an error of its own · `nonsense` it answered with what is no answer · `unserved` it does not know
 * the model that it listed · `ended` it did not fail: the request was ended here.
 */
export type Cause = 'refused' | 'lost' | 'late' | 'status' | 'nonsense' | 'unserved' | 'ended'

/** What a node answered, whole. */
export interface Answer {
  status: number
  headers: Headers
  body: Buffer
}

type Headers = Record<string, string | string[] | undefined>

export type Ending =
  /** The whole answer was passed on; `erred` when it told of a failure of the node itself. */
  | { kind: 'answered'; status: number; erred: boolean }
  /** Nothing was passed on. */
  | { kind: 'failed'; cause: Cause; reason: string; answer: Answer | null }
  /** Something was passed on, and then the node failed. The client has been told. */
  | { kind: 'cut'; cause: Cause; reason: string }
  /** The client went away, or took nothing for too long. */
  | { kind: 'left'; stalled: boolean }

export interface Errand {
  path: string
  body: Buffer
  headers: Record<string, string>
  /** Whether the client asked for a stream. */
  stream: boolean
  deadlines: Deadlines
}

/** An answer up to this size is passed on when it is whole. */
const LONGEST_HELD = 256 * 1024

export class Attempt implements Dispatcher.DispatchHandler {
  readonly ended: Promise<Ending>
  firstByteAt: number | null = null
  /** Bytes of the answer that came from the node. */
  bytes = 0

  #end!: (ending: Ending) => void
  #over = false
  #begun = false
  #controller: Dispatcher.DispatchController | null = null
  #timer: NodeJS.Timeout | undefined
  #status = 0
  #headers: Headers = {}
  #held: Buffer[] = []
  #heldBytes = 0
  #events: EventWatch | null = null
  #erred = false
  #tokens: Tokens | null = null

  constructor(
    private readonly node: Node,
    private readonly errand: Errand,
    private readonly client: ServerResponse,
    /** The head of the answer, once it is known that there is one. */
    private readonly headOf: (status: number, headers: Headers, length: number | null) => string[],
  ) {
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  send() {
    const { node, errand, client } = this
    client.on('close', this.#onClose)
    client.on('drain', this.#onDrain)
    node.attempts.add(this)
    const { first_byte_seconds, answer_seconds } = errand.deadlines
    this.#wait(
      errand.stream ? first_byte_seconds : answer_seconds,
      `it sent nothing for ${errand.stream ? first_byte_seconds : answer_seconds} s`,
    )
    node.pool.dispatch(
      { method: 'POST', path: node.path + errand.path, headers: errand.headers, body: errand.body, idempotent: false },
      this,
    )
  }

  /** Ends it for a reason that is not the node's answer. */
  stop(cause: Cause, reason: string) {
    this.#fail(cause, reason)
  }

  /** A node that is down answers nothing more; what has begun may still be on its way. */
  nodeWentDown(reason: string) {
    if (!this.#begun) this.#fail('lost', `it went down. ${reason}`)
  }

  /** What the answer told of tokens; for a stream that tells nothing, an event is counted as one. */
  get tokens(): { prompt: number; completion: number; estimated: boolean } {
    const told = this.#tokens ?? this.#events?.tokens
    if (told) return { ...told, estimated: false }
    return { prompt: 0, completion: this.#events?.words ?? 0, estimated: true }
  }

  onRequestStart(controller: Dispatcher.DispatchController) {
    this.#controller = controller
    if (this.#over) controller.abort(new Error('The request is over.'))
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers) {
    if (this.#over || status < 200) return
    this.#status = status
    this.#headers = headers
    if (status === 200 && isEventStream(one(headers['content-type']))) this.#events = new EventWatch()
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer) {
    if (this.#over) return
    this.bytes += chunk.length
    if (this.firstByteAt === null) {
      this.firstByteAt = performance.now()
      const { gap_seconds } = this.errand.deadlines
      this.#wait(gap_seconds, `it fell silent for ${gap_seconds} s`)
    } else this.#timer!.refresh()
    if (this.#events) this.#passEvents(this.#events.push(chunk))
    else if (this.#begun) this.#pass(chunk)
    else {
      this.#held.push(chunk)
      this.#heldBytes += chunk.length
      if (this.#heldBytes > LONGEST_HELD) this.#passLong()
    }
  }

  onResponseEnd() {
    if (this.#over) return
    if (this.#events) return this.#endEvents(this.#events)
    if (this.#begun) {
      this.#finish({ kind: 'answered', status: this.#status, erred: false })
      this.client.end()
      return
    }
    const body = this.#held.length === 1 ? this.#held[0] : Buffer.concat(this.#held)
    const failure = this.#judge(body)
    if (failure)
      return this.#fail(failure.cause, failure.reason, { status: this.#status, headers: this.#headers, body })
    if (this.#status === 200) this.#tokens = tokensOf(body)
    this.#finish({ kind: 'answered', status: this.#status, erred: false })
    this.client.writeHead(this.#status, this.headOf(this.#status, this.#headers, body.length))
    this.client.end(body)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error) {
    this.#fail(isRefusedConnection(error) ? 'refused' : 'lost', trouble(error))
  }

  /** Why a whole answer is not to be passed on, null when it is. */
  #judge(body: Buffer): { cause: Cause; reason: string } | null {
    const status = this.#status
    if (status >= 500 || status === 408 || status === 429)
      return { cause: 'status', reason: `it answered with ${status}` }
    if (status >= 300 && status < 400) return { cause: 'nonsense', reason: `it sent a redirect (${status})` }
    if (status === 404 && this.node.models.size > 0 && !isOfRoute(body))
      return { cause: 'unserved', reason: 'it does not know the model that it listed' }
    if (status !== 200) return null
    if (body.length === 0) return { cause: 'nonsense', reason: 'it answered with nothing' }
    const type = one(this.#headers['content-type'])
    if (!isJson(type)) return { cause: 'nonsense', reason: `it answered with ${type || 'no type'}` }
    return looksWhole(body) ? null : { cause: 'nonsense', reason: 'it answered with half of an answer' }
  }

  #passEvents(piece: Buffer | null) {
    if (piece === null) return
    const error = errorOf(piece)
    if (error !== null && (error.code === null || error.code >= 500)) {
      this.#erred = true
      if (!this.#begun) return this.#fail('status', `its stream began with an error: ${error.message.slice(0, 200)}`)
    }
    if (!this.#begun) this.#begin()
    this.#pass(piece)
  }

  #endEvents(events: EventWatch) {
    const rest = events.rest()
    if (rest) this.#passEvents(rest)
    if (this.#over) return
    if (events.done) this.node.saysDone = true
    // A server that never says [DONE] says why each answer finished, or what went wrong, and ends its stream in order.
    else if (!this.#erred && (this.node.saysDone || !events.finished))
      return this.#fail('lost', this.#begun ? 'its stream ended without [DONE]' : 'its stream was empty')
    this.#finish({ kind: 'answered', status: this.#status, erred: this.#erred })
    this.client.end()
  }

  #passLong() {
    const status = this.#status
    const type = one(this.#headers['content-type'])
    if (status !== 200 || !isJson(type))
      return this.#fail(
        status >= 500 ? 'status' : 'nonsense',
        `it answered with ${status}, ${type || 'no type'}, at length`,
      )
    this.#begin()
    for (const chunk of this.#held) this.#pass(chunk)
    this.#held = []
  }

  #begin() {
    this.#begun = true
    this.client.writeHead(this.#status, this.headOf(this.#status, this.#headers, null))
  }

  #pass(chunk: Buffer) {
    if (this.client.write(chunk) || this.#over) return
    this.#controller!.pause()
    const { stalled_client_seconds } = this.errand.deadlines
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#leave(true), stalled_client_seconds * 1000)
  }

  #fail(cause: Cause, reason: string, answer: Answer | null = null) {
    if (this.#over) return
    if (!this.#begun) {
      this.#finish({ kind: 'failed', cause, reason, answer })
    } else {
      this.#finish({ kind: 'cut', cause, reason })
      // A stream can say that it was cut; any other answer is known to be by its missing end.
      if (this.#events) this.client.end(cutEvent(this.node.name, reason))
      else this.client.destroy()
    }
    this.#controller?.abort(new Error(reason))
  }

  #leave(stalled: boolean) {
    if (this.#over) return
    this.#finish({ kind: 'left', stalled })
    this.#controller?.abort(new Error('The client left.'))
    this.client.destroy()
  }

  #finish(ending: Ending) {
    this.#over = true
    clearTimeout(this.#timer)
    this.client.off('close', this.#onClose)
    this.client.off('drain', this.#onDrain)
    this.node.attempts.delete(this)
    this.#end(ending)
  }

  #wait(seconds: number, reason: string) {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#fail('late', reason), seconds * 1000)
  }

  #onClose = () => this.#leave(false)

  #onDrain = () => {
    if (this.#over) return
    const { gap_seconds } = this.errand.deadlines
    this.#wait(gap_seconds, `it fell silent for ${gap_seconds} s`)
    this.#controller!.resume()
  }
}

/** Whether bytes begin and end like a JSON value that is an object or a list. */
function looksWhole(body: Buffer): boolean {
  const text = `${body.toString('latin1', 0, 64).trimStart()[0]}${body
    .toString('latin1', Math.max(0, body.length - 64))
    .trimEnd()
    .at(-1)}`
  return text === '{}' || text === '[]'
}

/** FastAPI's own 404, for a route that it does not have; a 404 for a model is another. */
const isOfRoute = (body: Buffer) => body.toString('latin1', 0, 64).replace(/\s/g, '') === '{"detail":"NotFound"}'

/** An event that OpenAI's clients raise as an error. */
function cutEvent(node: string, reason: string): string {
  const message = `The answer was cut: node ${node} failed (${reason}).`
  return `data: ${JSON.stringify({ error: { message, type: 'server_error', param: null, code: 'stream_cut' } })}\n\n`
}
