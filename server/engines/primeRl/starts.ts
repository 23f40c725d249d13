// The times for which a job had its GPUs. A batch system begins a job anew whose node has died; what it took up before
// counts too.

import { isFinal, type JobStart } from '../engine.ts'
import type { Sighting } from './scheduler.ts'

type Seen = Pick<Sighting, 'state' | 'startedAt' | 'endedAt' | 'nodes'>

/**
 * The starts of a job after another look at it, in order.
 * @param gpus of each node @param at the time of the look, for what no answer tells
 */
export function startsAfter(starts: readonly JobStart[], now: Seen, gpus: number, at: number): JobStart[] {
  const result = starts.map((start) => ({ ...start }))
  const over = isFinal(now.state)
  const open = result.find(({ endedAt }) => endedAt === null)
  // Back in the queue, begun anew, or over.
  if (open && (over || now.startedAt !== open.startedAt))
    open.endedAt = Math.max(open.startedAt, Math.min(at, (over ? now.endedAt : now.startedAt) ?? at))
  if (now.startedAt === null || result.some(({ startedAt }) => startedAt === now.startedAt)) return result
  const endedAt = over ? (now.endedAt ?? at) : null
  // One that was called away while it waited never had them.
  if (endedAt !== null && endedAt <= now.startedAt) return result
  const { nodes, startedAt } = now
  return [...result, { startedAt, endedAt, nodes, gpus: gpus * Math.max(1, nodes.length) }]
}
