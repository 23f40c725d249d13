// A run's events as a stream that may be left and taken up again: the counter of an event is its SSE id. Each follower
// reads the file at its own place and at its own pace, so a slow one costs no memory.

import type { Context } from 'hono'
import { streamSSE } from 'hono/streaming'
import { isFinal } from '../engines/engine.ts'
import type { StoredLine } from '../store/events/eventFile.ts'
import type { RunRow } from '../store/tables/runs.ts'
import type { Caller } from './caller.ts'
import { Refused } from './problem.ts'
import type { Runs } from './runs.ts'
import { viewOf } from './views.ts'

const HEARTBEAT_MS = 15_000
/** Where no change is told, as by another process: looked for now and then. */
const LOOK_EVERY_MS = 5_000
/** What tells only what is going on at the moment. */
const PASSING: ReadonlySet<string> = new Set(['phase', 'progress', 'memory'])

export interface FollowOptions {
  /** The counter after which to begin. */
  after: number
  /** Leave out, of what is past already, events that told only of their moment. */
  brief: boolean
  /** `samples` events with their groups; without, they say that there are some. */
  samples: boolean
}

/** Ends with the SSE event `end` when the run has ended and all of it was sent. */
export function follow(c: Context, runs: Runs, caller: Caller, id: string, options: FollowOptions): Response {
  const { context } = runs
  const file = context.files.of(id)
  c.header('X-Accel-Buffering', 'no')
  c.header('Cache-Control', 'no-store')
  return streamSSE(c, async (stream) => {
    let wake: () => void = () => {}
    let woken = false
    const call = () => {
      woken = true
      wake()
    }
    const unlisten = [file.onAppend(call), context.changes.on(id, call)]
    stream.onAbort(call)
    const heartbeat = setInterval(() => stream.write(': still here\n\n').catch(() => {}), HEARTBEAT_MS)
    const past = (await file.position(0)).seq
    let told: string | null = null
    try {
      const reader = file.read(options.after)
      while (!stream.aborted && !stream.closed) {
        woken = false
        // Before the events are read: an end that is seen here has all of its events in the file.
        const row = await runs.row(caller, id).catch(unlessGone)
        const { value: lines } = await reader.next()
        for (const line of lines ?? []) {
          if (stream.aborted) return
          if (options.brief && line.seq <= past && PASSING.has(line.kind)) continue
          const data = options.samples && line.kind === 'samples' ? await withGroups(runs, id, line) : line.json
          await stream.writeSSE({ id: String(line.seq), event: 'run', data })
        }
        if (lines && lines.length > 0) continue
        const now = row && newsOf(row)
        const over = row === null || isFinal(row.state)
        if (now !== told || over) {
          const view = JSON.stringify(row && viewOf(row))
          if (now !== told) await stream.writeSSE({ event: 'status', data: view })
          if (over) {
            await stream.writeSSE({ event: 'end', data: view })
            return
          }
        }
        told = now
        if (!woken)
          await new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, LOOK_EVERY_MS)
            wake = () => {
              clearTimeout(timer)
              resolve()
            }
          })
      }
    } finally {
      clearInterval(heartbeat)
      for (const stop of unlisten) stop()
    }
  })
}

/** A run that was deleted, or is no longer this caller's to see. */
function unlessGone(error: unknown): null {
  if (error instanceof Refused) return null
  throw error
}

/** Different whenever the view of the run is. */
function newsOf({ config_json: _, ...row }: RunRow): string {
  return Object.values(row).join(' ')
}

async function withGroups({ context }: Runs, run: string, line: StoredLine): Promise<string> {
  const row = await context.store.db
    .selectFrom('step_index')
    .selectAll()
    .where('run_id', '=', run)
    .where('seq', '=', line.seq)
    .executeTakeFirst()
  if (!row) return line.json
  const groups = await context.files.of(run).groups(row)
  return JSON.stringify({ ...JSON.parse(line.json), groups })
}
