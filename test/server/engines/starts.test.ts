// When a job had its GPUs: told from one look at it to the next, whatever happened in between.

import { expect, it } from 'vitest'
import { startsAfter } from '../../../server/engines/primeRl/starts.ts'

const RUNNING = { state: 'running' as const, endedAt: null, nodes: ['n0', 'n1'] }
const QUEUED = { state: 'queued' as const, startedAt: null, endedAt: null, nodes: [] }
const GPUS = 4

it('begins when the job does and ends with it', () => {
  expect(startsAfter([], QUEUED, GPUS, 5)).toEqual([])
  const begun = startsAfter([], { ...RUNNING, startedAt: 10 }, GPUS, 12)
  // 4 on each of two nodes.
  expect(begun).toEqual([{ startedAt: 10, endedAt: null, nodes: ['n0', 'n1'], gpus: 8 }])
  expect(startsAfter(begun, { ...RUNNING, startedAt: 10 }, GPUS, 20)).toEqual(begun)
  const end = { ...RUNNING, state: 'succeeded' as const, startedAt: 10, endedAt: 30 }
  expect(startsAfter(begun, end, GPUS, 33)).toMatchObject([{ startedAt: 10, endedAt: 30 }])
})

it('is two when the batch system began the job anew, seen in the queue or not', () => {
  const first = startsAfter([], { ...RUNNING, startedAt: 10 }, GPUS, 12)
  const waiting = startsAfter(first, QUEUED, GPUS, 25)
  expect(waiting).toMatchObject([{ startedAt: 10, endedAt: 25 }])
  const second = { ...RUNNING, nodes: ['n2'], startedAt: 40 }
  expect(startsAfter(waiting, second, GPUS, 41)).toMatchObject([
    { startedAt: 10, endedAt: 25, nodes: ['n0', 'n1'], gpus: 8 },
    { startedAt: 40, endedAt: null, nodes: ['n2'], gpus: 4 },
  ])
  // Nobody looked while it waited: it cannot have gone on past its next start.
  expect(startsAfter(first, second, GPUS, 100)).toMatchObject([{ endedAt: 40 }, { startedAt: 40 }])
})

it('is closed by an end that the batch system tells nothing of', () => {
  const first = startsAfter([], { ...RUNNING, startedAt: 10 }, GPUS, 12)
  const gone = { ...QUEUED, state: 'node_lost' as const, endedAt: 50 }
  expect(startsAfter(first, gone, GPUS, 55)).toMatchObject([{ startedAt: 10, endedAt: 50 }])
})

it('is whole where only the end was seen, and none for a job called away while it waited', () => {
  const end = { ...RUNNING, state: 'failed' as const, startedAt: 10, endedAt: 30 }
  expect(startsAfter([], end, GPUS, 33)).toMatchObject([{ startedAt: 10, endedAt: 30 }])
  const cancelled = { ...QUEUED, state: 'cancelled' as const, startedAt: 30, endedAt: 30 }
  expect(startsAfter([], cancelled, GPUS, 33)).toEqual([])
})
