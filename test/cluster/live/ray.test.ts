// Full-size runs through a real Ray, with the same stand-in and the same engine as through Slurm.

import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { FullSizeEngine } from '../../../server/engines/primeRl/engine.ts'
import { RayClient } from '../../../server/engines/ray/client.ts'
import { RayScheduler } from '../../../server/engines/ray/scheduler.ts'
import { newId } from '../../../server/store/ids.ts'
import { TestServer } from '../../server/runs/server.ts'
import { fullSizeConfig } from '../support/config.ts'
import { everythingIn } from '../support/everythingIn.ts'
import { followToEnd, stepsOf } from '../support/followRun.ts'
import { makeProject } from '../support/project.ts'
import { type RayHost, startRay } from '../support/ray.ts'
import { canarySets, expectNotTold } from '../support/telling.ts'

const CONFIG = {
  ...{ name: 'reverse text', model: 'Qwen/Qwen3-0.6B', max_steps: 6, batch_size: 8, rollouts_per_example: 4 },
  env: [{ id: 'reverse-text' }],
}

const missing = inject('rayMissing')

describe.skipIf(missing !== null)('full-size runs through Ray', () => {
  let host: RayHost
  let folder: string
  let project: Awaited<ReturnType<typeof makeProject>>
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'rollout-lab-ray-'))
    host = await startRay()
    project = await makeProject(folder)
  }, 300_000)
  afterAll(async () => {
    await host?.stop()
    await rm(folder, { recursive: true, force: true })
  }, 60_000)
  const open = (url = host.url) =>
    new FullSizeEngine(new RayScheduler({ url, graceSeconds: 20, cpus: 1, deadlineMs: 15_000 }), {
      ...{ folder: join(folder, 'server'), runsRoot: join(folder, 'runs'), project: project.project, models: 'models' },
    })
  const specOf = (changes: Record<string, unknown> = {}) => ({
    ...{ run: newId(), attempt: 1, name: 'reverse text', project: 'p', secrets: { CANARY: 'canary' } },
    config: fullSizeConfig(changes),
  })

  test('a run is submitted once, followed and brought home', async () => {
    await project.faults({ pace: 200 })
    const engine = open()
    const spec = specOf()
    const key = newId()
    await Promise.all([engine.submit(spec, key), engine.submit(spec, key)])
    await open().submit(spec, key)
    const { events, job } = await followToEnd(() => engine, key)
    expect(job).toMatchObject({ state: 'succeeded', exitCode: 0 })
    expect(stepsOf(events)).toEqual([1, 2, 3, 4, 5, 6])
    expect(new Set(events.map(({ kind }) => kind))).toEqual(new Set(['started', 'state', 'step', 'samples', 'saved']))
    expect((await engine.files(spec.run)).filter(({ kind }) => kind === 'adapter')).toHaveLength(6)
    const log = Buffer.from((await engine.readLog(key, 'job', 0, 1e6)).bytes).toString()
    expect(log).toContain('a secret is there')
    expect(log).toBe(await readFile(join(folder, 'runs', spec.run, 'attempt_1/job_ray.log'), 'utf8'))
  })

  test('what its program was given in secret is told by nobody, though it stands in its files', async () => {
    await project.faults({ pace: 100, tell: true })
    const server = await TestServer.open(null, { local: null, secrets: canarySets, engines: async () => [open()] })
    try {
      const submitted = { ...CONFIG, max_steps: 2 }
      const { id } = await server.submit(submitted, { target: 'ray', secrets: ['keys'] })
      await expectNotTold(server, id, () => everythingIn(join(folder, 'runs', id)))
    } finally {
      await server.remove()
    }
  })

  test('cancelled it saves, and another attempt goes on', async () => {
    await project.faults({ pace: 500 })
    const engine = open()
    const spec = specOf({ max_steps: 6, checkpointing: { save_every_n_steps: 50 } })
    const key = newId()
    await engine.submit(spec, key)
    const run = await followToEnd(() => engine, key, {
      onTurn: ({ events }) => (stepsOf(events).includes(2) ? engine.cancel(key, 'graceful') : Promise.resolve()),
    })
    expect(run.job.state).toBe('cancelled')
    const [saved] = run.events.flatMap((event) => (event.kind === 'saved' ? [event.save.step] : []))
    const next = newId()
    await engine.submit({ ...spec, attempt: 2 }, next)
    const resumed = await followToEnd(() => engine, next)
    expect(resumed.job.state).toBe('succeeded')
    expect(stepsOf(resumed.events)[0]).toBe(saved + 1)
  })

  test('a Ray that is not there makes the run unknown; one that does not know it has lost it', async () => {
    await project.faults({ pace: 100 })
    const engine = open()
    const key = newId()
    await engine.submit(specOf({ max_steps: 2 }), key)
    expect(await open('http://127.0.0.1:9').get(key)).toMatchObject({ state: 'unknown' })
    expect(await new RayClient({ url: host.url }).job('rollout-lab-nobody')).toBeNull()
    expect((await followToEnd(() => engine, key)).job.state).toBe('succeeded')
  })
})

test('a Ray beyond this machine needs a token, or the operator’s word', () => {
  expect(() => new RayClient({ url: 'http://ray.example:8265' })).toThrow('ray.allow_without_token')
  expect(() => new RayClient({ url: 'http://ray.example:8265', token: 't' })).not.toThrow()
  expect(() => new RayClient({ url: 'http://ray.example:8265', allowWithoutToken: true })).not.toThrow()
  expect(() => new RayClient({ url: 'http://127.0.0.1:8265' })).not.toThrow()
})
