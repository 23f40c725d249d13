// The run API over a real Slurm: what a page or the command line sees of a full-size run, and what a server makes of
// parallel submits, of its own end in the middle, of a dead node and of a full disk.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { isFinal } from '../../../server/engines/engine.ts'
import { FullSizeEngine } from '../../../server/engines/primeRl/engine.ts'
import { SlurmScheduler } from '../../../server/engines/slurm/scheduler.ts'
import type { RunView } from '../../../server/runs/views.ts'
import { metricOf } from '../../../workers/rl/metrics.ts'
import { runEvents, TestServer } from '../../server/runs/server.ts'
import { everythingIn } from '../support/everythingIn.ts'
import { makeProject } from '../support/project.ts'
import { type SlurmHost, startSlurm } from '../support/slurm.ts'
import { canarySets, expectNotTold } from '../support/telling.ts'
import { until } from '../support/until.ts'

const missing = inject('slurmMissing')

const CONFIG = {
  ...{ name: 'reverse text', model: 'Qwen/Qwen3-0.6B', max_steps: 6, batch_size: 8, rollouts_per_example: 4 },
  ...{ env: [{ id: 'reverse-text' }], checkpointing: { save_every_n_steps: 2 } },
}

describe.skipIf(missing !== null)('the run API over Slurm', () => {
  let host: SlurmHost
  let folder: string
  let server: TestServer
  let project: Awaited<ReturnType<typeof makeProject>>
  let runsRoot: string
  beforeAll(async () => {
    host = await startSlurm({ nodes: 2 })
    folder = await mkdtemp(join(tmpdir(), 'rollout-lab-api-'))
    project = await makeProject(host.shared)
    runsRoot = join(host.shared, 'runs')
    server = await TestServer.open(null, {
      ...{ local: null, secrets: canarySets },
      engines: async () => [
        new FullSizeEngine(new SlurmScheduler({ ...host, exclusive: false, deadlineMs: 12_000 }), {
          ...{ folder: join(folder, 'slurm'), runsRoot, project: project.project, models: 'models' },
          owner: { uid: host.userId, gid: host.userId },
        }),
      ],
    })
  })
  afterAll(async () => {
    await server?.remove()
    await host?.stop()
    await rm(folder, { recursive: true, force: true })
  })
  const jobs = async () => (await new SlurmScheduler({ ...host }).client.jobs()).length

  test('fifty parallel submits with one key are one run and one job, seen to its end', async () => {
    await project.faults({ pace: 200 })
    const before = await jobs()
    const headers = { 'idempotency-key': 'one' }
    const submits = await Promise.all(
      Array.from({ length: 50 }, () => server.post('/runs', { config: CONFIG, target: 'slurm' }, headers)),
    )
    const views = (await Promise.all(submits.map((response) => response.json()))) as RunView[]
    const [{ id }] = views
    expect(new Set(views.map((view) => view.id)).size).toBe(1)
    const other = await server.post('/runs', { config: { ...CONFIG, max_steps: 7 }, target: 'slurm' }, headers)
    expect(other.status).toBe(422)
    const run = await server.ended(id)
    expect(run).toMatchObject({
      state: 'succeeded',
      step: 6,
      maxSteps: 6,
      attempts: [{ state: 'succeeded', exitCode: 0 }],
    })
    expect(await jobs()).toBe(before + 1)

    const events = runEvents(await server.follow(id))
    expect(events.map(({ seq }) => seq)).toEqual([...events.keys()].map((i) => events[0].seq + i))
    const steps = events.filter((event) => event.kind === 'step')
    expect(steps.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6])
    // Charts know nearly every number by its key.
    const unknown = Object.keys(steps[0].metrics).filter((key) => !metricOf(key))
    expect(unknown).toEqual(['time/wait_for_policy', 'time/wait_for_batch'])
    const { artifacts } = await server.get<{ artifacts: { kind: string; step: number; name: string }[] }>(
      `/runs/${id}/artifacts`,
    )
    expect(artifacts.map(({ kind, step, name }) => `${kind} ${step} ${name}`)).toContain(
      'adapter 6 adapter_model.safetensors',
    )
    const { steps: withRollouts } = await server.get<{ steps: unknown[] }>(`/runs/${id}/rollouts`)
    expect(withRollouts).toHaveLength(6)
    expect(await (await server.fetch(`/runs/${id}/logs/trainer`)).text()).toContain('Step 6 ')
  })

  test('a server that ends in the middle finds its run again', async () => {
    await project.faults({ pace: 400 })
    const { id } = await server.submit({ ...CONFIG, max_steps: 12 }, { target: 'slurm' })
    await server.until(id, ({ step }) => step >= 3)
    await server.stop()
    await new Promise((resolve) => setTimeout(resolve, 1500))
    await server.start()
    const run = await server.ended(id)
    expect(run).toMatchObject({ state: 'succeeded', step: 12, attempts: [{ state: 'succeeded' }] })
    const steps = runEvents(await server.follow(id)).flatMap((event) => (event.kind === 'step' ? [event.step] : []))
    expect(steps).toEqual([...Array(12).keys()].map((i) => i + 1))
  })

  test('what its program was given in secret is told by nobody, though it stands in its files', async () => {
    await project.faults({ pace: 100, tell: true, dieAt: 3, attempt: 1, linger: 3000 })
    const { id } = await server.submit(CONFIG, { target: 'slurm', secrets: ['keys'] })
    const reasons = new Set<string | null>()
    await server.until(id, ({ reason, state }) => reasons.add(reason) && isFinal(state))
    await expectNotTold(server, id, () => everythingIn(join(runsRoot, id)))
    expect([...reasons].join(' ')).toMatch(/Failing: .*trainer exited with code 1 \[secret\]/)
  })

  test.skipIf(!mayMount())('a full shared disk is said, and the run goes on once there is room', async () => {
    await project.faults({ pace: 50 })
    // A disk of its own in the place of the shared one, full before the run.
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k,mode=0777', 'tmpfs', runsRoot])
    try {
      const filler = join(runsRoot, 'filler')
      await writeFile(filler, Buffer.alloc(256 * 1024)).catch(() => {})
      const { id } = await server.submit({ ...CONFIG, max_steps: 1, checkpointing: {} }, { target: 'slurm' })
      const waiting = await server.until(id, ({ reason }) => reason !== null)
      expect(waiting).toMatchObject({
        state: 'unknown',
        reason: expect.stringContaining('There is no room left on the shared disk'),
      })
      await rm(filler)
      expect((await server.ended(id)).state).toBe('succeeded')
    } finally {
      await until(async () => {
        execFileSync('umount', [runsRoot])
        return true
      }, 'the disk is let go')
    }
  })

  test('a dead node: the server makes another attempt, which goes on from the checkpoint', async () => {
    await project.faults({ pace: 500 })
    const { id } = await server.submit({ ...CONFIG, max_steps: 14 }, { target: 'slurm' })
    await server.until(id, ({ step }) => step >= 3)
    const nodes = (await new SlurmScheduler({ ...host }).client.jobs()).find(({ state }) => state === 'RUNNING')!.nodes
    await host.killNode(nodes)
    await server.until(id, ({ attempts }) => attempts.length === 2)
    await host.startNode(nodes)
    const run = await server.ended(id)
    expect(run).toMatchObject({ state: 'succeeded', step: 14 })
    expect(run.attempts.map(({ state }) => state).sort()).toEqual(['node_lost', 'succeeded'])
    const second = run.attempts.find(({ number }) => number === 2)!
    expect(second.fromStep).toBeGreaterThan(0)
    const { rows } = await server.get<{ rows: { step: number }[] }>(`/runs/${id}/metrics`)
    expect(rows.map(({ step }) => step)).toEqual([...Array(14).keys()].map((i) => i + 1))
  }, 240_000)
})

/** A container's root may not. */
function mayMount(): boolean {
  if (missing !== null) return false
  const folder = mkdtempSync(join(tmpdir(), 'rollout-lab-mount-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', folder], { stdio: 'ignore' })
    execFileSync('umount', [folder])
    return true
  } catch {
    process.stdout.write('a full disk: SKIPPED, nothing may be mounted here\n')
    return false
  } finally {
    rmdirSync(folder)
  }
}
