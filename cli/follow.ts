// A run on a server in words, from its event stream, to its end: the same lines as of a run here. A connection that
// breaks is taken up again where it broke.

import { EventSourceParserStream } from 'eventsource-parser/stream'
import type { RunView } from '../server/runs/views.ts'
import type { RunEvent } from '../workers/protocol.ts'
import { type Connection, Unreachable } from './connection.ts'
import { RunReport } from './runReport.ts'
import type { Terminal } from './terminal.ts'

const AGAIN_AFTER_MS = 1000
/** Connections in a row that brought nothing. */
const MOST_EMPTY = 30

const DETACHED = 130
const CODES: Record<string, number> = { succeeded: 0, failed: 1, timed_out: 1, node_lost: 1, cancelled: 130 }

/** 0 for a run that succeeded, 130 for one that was cancelled, 1 for any other end. */
function exitCodeOf({ state }: Pick<RunView, 'state'>): number {
  return CODES[state] ?? 1
}

/** Resolves to the run as it ended, or null when `signal` says to stop looking. */
export async function followRun(
  connection: Connection,
  id: string,
  { write, status = () => {} }: Terminal,
  signal: AbortSignal,
): Promise<RunView | null> {
  const report = new RunReport(write, status)
  let last: string | null = null
  let state = ''
  for (let empty = 0; empty < MOST_EMPTY; empty++) {
    try {
      const headers: Record<string, string> = last === null ? {} : { 'last-event-id': last }
      const response = await connection.fetch(`runs/${id}/events?brief=true`, { headers, signal })
      const messages = (response.body as ReadableStream<Uint8Array>)
        .pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>)
        .pipeThrough(new EventSourceParserStream())
      for await (const { event, data, id: at } of messages as unknown as AsyncIterable<{
        event?: string
        data: string
        id?: string
      }>) {
        empty = 0
        if (event === 'run') {
          last = at ?? last
          report.hear(JSON.parse(data) as RunEvent)
        }
        if (event !== 'status' && event !== 'end') continue
        const run = JSON.parse(data) as RunView | null
        if (event === 'end') {
          status('')
          if (!run) write('The run has been deleted.')
          return run
        }
        if (run && run.state !== state && ['queued', 'starting', 'unknown'].includes(run.state))
          write(`${run.state}${run.reason ? `: ${run.reason}` : ''}`)
        state = run?.state ?? ''
      }
    } catch (error) {
      if (signal.aborted) return null
      if (!(error instanceof Unreachable) && !(error instanceof TypeError)) throw error
    }
    if (signal.aborted) return null
    status('The connection is gone; looking for the server again …')
    await new Promise((done) => setTimeout(done, AGAIN_AFTER_MS))
  }
  throw new Unreachable(`The server is gone. The run may well go on: \`rollout-lab runs follow ${id}\`.`)
}

/** Follows on a terminal. Ctrl-C leaves the run alone. */
export async function followHere(connection: Connection, id: string, terminal: Terminal): Promise<number> {
  const stop = new AbortController()
  const leave = () => stop.abort()
  process.once('SIGINT', leave)
  process.once('SIGTERM', leave)
  try {
    const run = await followRun(connection, id, terminal, stop.signal)
    if (run) {
      terminal.write(`${run.state} after ${run.step} of ${run.maxSteps} steps.${run.reason ? ` ${run.reason}` : ''}`)
      return exitCodeOf(run)
    }
    if (!stop.signal.aborted) return 1
    terminal.write(`The run goes on. \`rollout-lab runs follow ${id}\` looks again, \`runs cancel ${id}\` ends it.`)
    return DETACHED
  } finally {
    terminal.status?.('')
    process.off('SIGINT', leave)
    process.off('SIGTERM', leave)
  }
}
