// kill -9 of the server at each named moment of a submit: whoever comes after makes it one run and one job, asked of Slurm
// itself.

import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { FullSizeEngine } from '../../../server/engines/primeRl/engine.ts'
import { SlurmScheduler } from '../../../server/engines/slurm/scheduler.ts'
import { newId } from '../../../server/store/ids.ts'
import { fullSizeConfig } from '../support/config.ts'
import { followToEnd, stepsOf } from '../support/followRun.ts'
import { buildProgram, type Program } from '../support/program.ts'
import { makeProject } from '../support/project.ts'
import { type SlurmHost, startSlurm } from '../support/slurm.ts'
import type { SubmitRequest } from '../support/submitProcess.ts'

const missing = inject('slurmMissing')

const MOMENTS = ['cluster:before-files', 'cluster:before-launch', 'cluster:before-recording', 'cluster:after-recording']

describe.skipIf(missing !== null)('a server killed while it submits', () => {
  let host: SlurmHost
  let folder: string
  let program: Program
  let project: Awaited<ReturnType<typeof makeProject>>
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'rollout-lab-crash-'))
    program = await buildProgram('submitProcess')
    host = await startSlurm({ nodes: 1 })
    project = await makeProject(host.shared)
    await project.faults({ pace: 50 })
  })
  afterAll(async () => {
    await host?.stop()
    await program?.remove()
    await rm(folder, { recursive: true, force: true })
  })

  const requestOf = (key: string): SubmitRequest => ({
    slurm: { url: host.url, user: host.user, keyFile: host.keyFile, exclusive: false },
    options: {
      ...{ folder: join(folder, 'server'), runsRoot: join(host.shared, 'runs'), project: project.project },
      ...{ models: 'models', owner: { uid: host.userId, gid: host.userId } },
    },
    spec: {
      run: newId(),
      attempt: 1,
      name: 'r',
      project: 'p',
      config: fullSizeConfig({ max_steps: 2 }),
      secrets: { CANARY: 'x' },
    },
    key,
  })

  test.each(MOMENTS)('at %s', async (moment) => {
    const key = newId()
    const request = requestOf(key)
    expect(await killedAt(moment, request)).toBe('SIGKILL')
    const scheduler = new SlurmScheduler(request.slurm)
    const before = (await scheduler.client.jobs()).filter(({ comment }) => comment.endsWith(key))
    // Whatever was made has not run.
    for (const job of before) expect(job).toMatchObject({ state: 'PENDING', held: true })
    const engine = new FullSizeEngine(scheduler, request.options)
    await engine.submit(request.spec, key)
    const run = await followToEnd(() => engine, key)
    expect(run.job.state).toBe('succeeded')
    expect(stepsOf(run.events)).toEqual([1, 2])
    expect((await scheduler.client.jobs()).filter(({ comment }) => comment.endsWith(key))).toHaveLength(1)
  })

  function killedAt(moment: string, request: SubmitRequest): Promise<NodeJS.Signals | number | null> {
    const child = spawn(process.execPath, [program.file, JSON.stringify(request)], {
      ...{ stdio: 'inherit', env: { ...process.env, ROLLOUT_LAB_CRASH_AT: moment } },
    })
    return new Promise((resolve) => child.on('exit', (code, signal) => resolve(signal ?? code)))
  }
})
