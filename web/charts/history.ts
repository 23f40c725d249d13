// Where the time of a run went, and what it took up. Plain functions of what a server tells of its attempts.

import type { AttemptView } from '../../server/runs/views.ts'

export interface Stretch {
  /** Milliseconds since the epoch. */
  from: number
  to: number
  computes: boolean
  nodes: string[]
}

/** The stretches of an attempt in order: waiting and computing by turns. */
export function stretchesOf(attempt: AttemptView, now: number): Stretch[] {
  const { createdAt, startedAt, endedAt } = attempt
  const end = endedAt ?? now
  const starts = attempt.starts ?? (startedAt === null ? [] : [{ startedAt, endedAt, nodes: [] }])
  const stretches: Stretch[] = []
  let at = createdAt
  for (const start of starts) {
    // A batch system counts in whole seconds.
    const from = Math.max(at, start.startedAt)
    const to = Math.max(from, start.endedAt ?? end)
    if (from > at) stretches.push({ from: at, to: from, computes: false, nodes: [] })
    stretches.push({ from, to, computes: true, nodes: start.nodes })
    at = to
  }
  if (end > at) stretches.push({ from: at, to: end, computes: false, nodes: [] })
  return stretches
}

/** Hours times GPUs so far; null where nobody shares out GPUs. */
export function gpuHours(attempts: AttemptView[], now: number): number | null {
  if (attempts.every(({ starts }) => starts === null)) return null
  let milliseconds = 0
  for (const { starts } of attempts)
    for (const { startedAt, endedAt, gpus } of starts ?? [])
      milliseconds += gpus * Math.max(0, (endedAt ?? now) - startedAt)
  return milliseconds / 3_600_000
}
