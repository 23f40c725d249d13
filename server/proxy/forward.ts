// One request from its arrival to the end of its answer: taken in, checked, named, delivered. Writes to the client past the
// router: bytes as they come, and no faster than they are taken.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Account, type Caller, told } from './account.ts'
import { readBody } from './body.ts'
import { Delivery, type Dispatching } from './delivery.ts'
import { EVERYWHERE } from './headers.ts'
import { checkLimits } from './limits.ts'
import { meaningOf, type Names } from './names.ts'
import type { Rates } from './rates.ts'
import { receive } from './receive.ts'
import { Refusal, shuttingDown, unknownModel } from './refusal.ts'
import type { Route } from './routes.ts'

export interface Forwarding extends Dispatching {
  rates: Rates
  names: Names
  report(account: Account): void
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

/** What has been written is not yet taken: the client has as long as in the middle of an answer. */
function dropStalled(outgoing: ServerResponse, seconds: number) {
  if (outgoing.writableLength === 0 || outgoing.destroyed) return
  const timer = setTimeout(() => outgoing.destroy(), seconds * 1000)
  outgoing.once('close', () => clearTimeout(timer))
  outgoing.once('finish', () => clearTimeout(timer))
}

/** Writes an error of ours, unless something has been written already. */
function refuse(
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

function internal(error: unknown, id: string) {
  console.error(`proxy: request ${id} failed inside:`, error)
  return new Refusal(500, 'internal', `The proxy failed at request ${id}.`)
}
