// What a run's process had stored in its run folder and could not hand over before it was killed. A save covers those
// events, so the next attempt goes on behind them and never tells them again.

import type { RunEvent } from '../../../workers/protocol.ts'
import { NodeRunLibrary } from '../../../workers/storage/node.ts'

/** The kept events of a run with a counter above `seq`, samples with their groups. Only when nobody writes the run. */
export async function salvage(runs: string, run: string, seq: number): Promise<RunEvent[]> {
  const library = new NodeRunLibrary(runs)
  const events = (await library.events(run)).filter((event) => event.seq > seq)
  return Promise.all(
    events.map(async (event) => {
      if (event.kind !== 'samples') return event
      return (await library.samples(run, event.step, event.split).catch(() => null)) ?? event
    }),
  )
}
