// What a full-size run has behind it: its attempts, each time that the cluster began it, and the GPUs it had meanwhile.
// The cluster's own engine and the stand-in for prime-rl; the batch system is one of processes.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { FullSizeEngine } from '../../../server/engines/primeRl/engine.ts'
import { fullSizeConfig } from '../../cluster/support/config.ts'
import { makeProject } from '../../cluster/support/project.ts'
import { ProcessScheduler } from './processScheduler.ts'
import { TestServer } from './server.ts'

let folder: string
let server: TestServer
let scheduler: ProcessScheduler
let made: Awaited<ReturnType<typeof makeProject>>

async function open(waits: boolean, pricePerGpuHour?: number) {
  folder = await mkdtemp(join(tmpdir(), 'rollout-lab-history-'))
  made = await makeProject(folder)
  const { project } = made
  await made.faults({ pace: 100 })
  scheduler = new ProcessScheduler(waits)
  const options = { folder: join(folder, 'server'), runsRoot: join(folder, 'runs'), project, models: 'models' }
  server = await TestServer.open(null, {
    local: null,
    engines: async () => [new FullSizeEngine(scheduler, { ...options, pricePerGpuHour })],
  })
}

afterEach(async () => {
  await scheduler.close()
  await server.remove()
  await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
})

it('tells each time that the cluster began the run, and for how long it had GPUs', async () => {
  await open(true, 2.5)
  const { id } = await server.submit(fullSizeConfig(), { target: 'slurm' })
  const waiting = await server.until(id, ({ queuePosition, reason }) => queuePosition !== null && reason !== null)
  expect(waiting).toMatchObject({ queuePosition: 2, pricePerGpuHour: 2.5 })
  expect(waiting.reason).toBe('It waits for nodes: other jobs have a higher priority.')
  expect(waiting.attempts[0].starts).toEqual([])

  await made.faults({ pace: 1500 })
  scheduler.begin('1')
  await server.until(id, ({ step }) => step >= 1)
  scheduler.requeue('1')
  await made.faults({ pace: 100 })
  const back = await server.until(id, ({ attempts }) => attempts[0].starts?.[0]?.endedAt != null)
  expect(back.state).toBe('queued')
  scheduler.begin('1')
  const { attempts, ...run } = await server.ended(id)
  expect(run).toMatchObject({ state: 'succeeded', attempt: 1, step: 6 })
  expect(attempts).toHaveLength(1)
  const starts = attempts[0].starts!
  // One GPU trains, one samples.
  expect(starts).toMatchObject([
    { nodes: ['n0'], gpus: 2 },
    { nodes: ['n1'], gpus: 2 },
  ])
  const times = starts.flatMap(({ startedAt, endedAt }) => [startedAt, endedAt!])
  expect(times).toEqual(times.toSorted((a, b) => a - b))
  expect(times[0]).toBeGreaterThanOrEqual(run.createdAt)
  expect(times[3]).toBe(run.endedAt)
}, 30_000)

it('names no price where the operator has named none', async () => {
  await open(false)
  const { id } = await server.submit(fullSizeConfig({ max_steps: 2 }), { target: 'slurm' })
  const run = await server.ended(id)
  expect(run.pricePerGpuHour).toBeNull()
  expect(run.attempts[0].starts).toMatchObject([{ gpus: 2, endedAt: expect.any(Number) }])
}, 30_000)
