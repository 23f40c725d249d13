// Follows a job as the server does: asks, reads events from a cursor, and asks again, until the end and the last event.

import { type Engine, isFinal, type Job } from '../../../server/engines/engine.ts'
import type { GivenEvent } from '../../../server/store/events/eventFile.ts'

export interface FollowedRun {
  events: GivenEvent[]
  states: string[]
  reasons: string[]
  job: Job
}

/** `engine` is asked for anew at every turn: a test may give another one, as after a restart. */
export async function followToEnd(
  engine: () => Engine,
  id: string,
  { milliseconds = 90_000, onTurn }: { milliseconds?: number; onTurn?: (run: FollowedRun) => Promise<unknown> } = {},
): Promise<FollowedRun> {
  const run: FollowedRun = { events: [], states: [], reasons: [], job: null as unknown as Job }
  let cursor: string | null = null
  const end = Date.now() + milliseconds
  for (;;) {
    const job = await engine().get(id)
    if (!job) throw new Error(`The engine does not know ${id}.`)
    run.job = job
    if (run.states.at(-1) !== job.state) run.states.push(job.state)
    if (job.reason && run.reasons.at(-1) !== job.reason) run.reasons.push(job.reason)
    for (;;) {
      const read = await engine().readEvents(id, cursor)
      run.events.push(...read.events)
      const same = read.cursor === cursor
      cursor = read.cursor
      if (read.events.length === 0 && same) break
      if (read.events.length === 0) break
    }
    await onTurn?.(run)
    if (isFinal(job.state)) return run
    if (Date.now() > end)
      throw new Error(
        `After ${milliseconds / 1000} s ${id} is ${job.state} (${job.reason}), after ${run.states.join(', ')}.`,
      )
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
}

export const stepsOf = (events: GivenEvent[]): number[] =>
  events.flatMap((event) => (event.kind === 'step' ? [event.step] : []))
