import { expect, it } from 'vitest'
import type { AttemptView } from '../../server/runs/views.ts'
import { gpuHours, stretchesOf } from '../../web/charts/history.ts'

const HOUR = 3_600_000
const attempt = (changes: Partial<AttemptView>): AttemptView => ({
  ...{ number: 1, engine: 'slurm', engineId: 'x', state: 'running', reason: null, exitCode: null, fromStep: 0 },
  ...{ createdAt: 0, startedAt: null, endedAt: null, starts: [], ...changes },
})
const start = (startedAt: number, endedAt: number | null, node: string, gpus = 4) => ({
  ...{ startedAt, endedAt, nodes: [node], gpus },
})

it('tells waiting and computing by turns, over what the cluster began anew', () => {
  const twice = attempt({ startedAt: HOUR, starts: [start(HOUR, 3 * HOUR, 'n0'), start(4 * HOUR, null, 'n1')] })
  expect(stretchesOf(twice, 5 * HOUR).map(({ from, to, computes }) => [from / HOUR, to / HOUR, computes])).toEqual([
    [0, 1, false],
    [1, 3, true],
    [3, 4, false],
    [4, 5, true],
  ])
})

it('counts hours times GPUs, and goes on while a run does', () => {
  const lost = attempt({ endedAt: 3 * HOUR, starts: [start(HOUR, 3 * HOUR, 'n0', 8)] })
  const next = attempt({ number: 2, createdAt: 3 * HOUR, starts: [start(4 * HOUR, null, 'n1')] })
  // 8 GPUs for 2 hours, 4 for half an hour.
  expect(gpuHours([lost, next], 4.5 * HOUR)).toBe(18)
  expect(gpuHours([lost, next], 5 * HOUR)).toBe(20)
})

it('knows of no GPUs where nobody shares them out', () => {
  const local = attempt({ engine: 'local', starts: null, startedAt: 1000, endedAt: 3000 })
  expect(gpuHours([local], 9000)).toBeNull()
  expect(stretchesOf(local, 9000).map(({ from, to, computes }) => [from, to, computes])).toEqual([
    [0, 1000, false],
    [1000, 3000, true],
  ])
})
