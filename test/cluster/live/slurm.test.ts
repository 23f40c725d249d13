// The client against a real Slurm of two nodes.

import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { numberOf } from '../../../server/engines/slurm/answer.ts'
import { SlurmClient, SlurmError } from '../../../server/engines/slurm/client.ts'
import { DIALECTS } from '../../../server/engines/slurm/dialect.ts'
import type { SlurmJobSpec } from '../../../server/engines/slurm/job.ts'
import { findMarked, markOf, submitOnce } from '../../../server/engines/slurm/submit.ts'
import { tokenSource } from '../../../server/engines/slurm/token.ts'
import { type SlurmHost, startSlurm } from '../support/slurm.ts'
import { isNewer } from '../support/slurmConf.ts'
import { until } from '../support/until.ts'

const missing = inject('slurmMissing')
const newer = inject('newerSlurm')
const SLURMS = [{ title: 'a real Slurm', machine: '', version: '' }]
if (newer)
  for (const version of ['', 'v0.0.41', 'v0.0.40'])
    SLURMS.push({ title: `a newer Slurm ${version}`.trim(), machine: newer, version })

describe.skipIf(missing !== null).each(SLURMS)('$title', ({ machine, version }) => {
  let host: SlurmHost
  let client: SlurmClient
  beforeAll(async () => {
    host = await startSlurm({ nodes: 2, machine })
    const dialect = DIALECTS.find((each) => each.version === version)
    client = new SlurmClient({ url: host.url, user: host.user, token: tokenSource(host), dialect })
  }, 60_000)
  afterAll(() => host?.stop(), 60_000)

  const spec = (script: string, changes: Partial<SlurmJobSpec> = {}): SlurmJobSpec => ({
    ...{ script: `#!/bin/bash\n${script}\n`, name: 'lab', partition: 'cluster', nodes: 1, tasksPerNode: 1 },
    ...{ gres: 'gpu:1', exclusive: false, timeLimit: 5, workingDirectory: host.shared },
    ...{ output: `${host.shared}/job_%j.log`, comment: 'rollout-lab:test:1', environment: { PATH: '/usr/bin:/bin' } },
    ...{ requeue: false, hold: false },
    ...changes,
  })
  const ended = (id: number) =>
    until(async () => (await client.job(id))?.endedAt != null, `job ${id} ends`).then(
      async () => (await client.job(id))!,
    )

  test('speaks the newest version that both know, and sees nodes and partitions', async () => {
    expect((await client.dialect()).version).toBe(version || (isNewer(host.version) ? 'v0.0.42' : 'v0.0.38'))
    await client.ping()
    expect(await client.nodes()).toMatchObject([
      { name: 'n0', state: 'idle', gres: 'gpu:fake:2', partitions: ['cluster'] },
      { name: 'n1' },
    ])
    expect(await client.partitions()).toMatchObject([{ name: 'cluster', state: 'UP', totalNodes: 2, maxTime: null }])
  })

  test('runs a job and tells how it ended', async () => {
    const id = await client.submit(spec('echo hello $SLURM_JOB_ID; exit 3', { comment: 'rollout-lab:one:1' }))
    const job = await ended(id)
    expect(job).toMatchObject({
      ...{ state: 'FAILED', exitCode: 3, signal: null, restarts: 0, comment: 'rollout-lab:one:1' },
      ...{ output: `${host.shared}/job_${id}.log`, reason: 'NonZeroExitCode' },
    })
  })

  test('a held submit can be found by its mark, runs once released, and is made once', async () => {
    const comment = markOf('01J', 1)
    const recorded: number[] = []
    const at: string[] = []
    const steps = { record: async (id: number) => void recorded.push(id), at: (point: string) => void at.push(point) }
    const id = await submitOnce(client, spec('sleep 1', { comment }), steps)
    expect(await submitOnce(client, spec('sleep 1', { comment }), steps)).toBe(id)
    expect(recorded).toEqual([id, id])
    expect(at).toEqual(['slurm.before-submit', 'slurm.submitted', 'slurm.recorded', 'slurm.released'])
    expect(await ended(id)).toMatchObject({ state: 'COMPLETED', exitCode: 0 })
    expect((await client.jobs()).filter((job) => job.comment === comment)).toHaveLength(1)
  })

  test.each(['slurm.submitted', 'slurm.recorded'])(
    'a crash at %s leaves a held job, which the next try adopts',
    async (point) => {
      const comment = markOf(`crash-${point}`, 1)
      const steps = {
        record: async () => {},
        at: (each: string) => {
          if (each === point) throw new Error('killed')
        },
      }
      await expect(submitOnce(client, spec('true', { comment }), steps)).rejects.toThrow('killed')
      expect(await findMarked(client, comment)).toMatchObject({ state: 'PENDING', held: true, startedAt: null })
      const id = await submitOnce(client, spec('true', { comment }), { record: async () => {} })
      expect(await ended(id)).toMatchObject({ state: 'COMPLETED' })
      expect((await client.jobs()).filter((job) => job.comment === comment)).toHaveLength(1)
    },
  )

  test('cancels, twice without complaint, and sends signals', async () => {
    const id = await client.submit(
      spec("trap 'echo asked; exit 0' USR1\nwhile true; do sleep 0.1; done", { comment: 'a' }),
    )
    await until(async () => (await client.job(id))?.state === 'RUNNING', 'it runs')
    await new Promise((resolve) => setTimeout(resolve, 500))
    await client.cancel(id, 'USR1')
    expect(await ended(id)).toMatchObject({ state: 'COMPLETED' })
    const other = await client.submit(spec('sleep 60', { comment: 'b' }))
    await client.cancel(other)
    expect(await ended(other)).toMatchObject({ state: 'CANCELLED' })
    await client.cancel(other)
    await client.cancel(987_654)
  })

  test.each([
    ['a partition that is not there', { partition: 'nowhere' }, 'Slurm has no partition "nowhere"'],
    ['more GPUs than a node has', { gres: 'gpu:9' }, 'No node can give what is asked for (1 nodes with gpu:9)'],
  ])('refuses %s with a sentence', async (_, changes, sentence) => {
    const error = await client.submit(spec('true', changes)).catch((each) => each)
    expect(error).toBeInstanceOf(SlurmError)
    expect(error).toMatchObject({ kind: 'refused', message: expect.stringContaining(sentence) })
  })

  test('a ghost of a refused submit is nobody’s job', async () => {
    await client.submit(spec('true', { gres: 'gpu:9', comment: 'ghost' })).catch(() => {})
    expect(await findMarked(client, 'ghost')).toBeNull()
  })

  test('another user cannot touch a job', async () => {
    const id = await client.submit(spec('sleep 30', { comment: 'mine' }))
    const other = new SlurmClient({
      url: host.url,
      user: 'nobody',
      token: tokenSource({ keyFile: host.keyFile, user: 'nobody' }),
    })
    for (const touch of [() => other.cancel(id), () => other.cancel(id, 'TERM'), () => other.release(id)])
      await expect(touch()).rejects.toThrow('belongs to another user of the cluster')
    expect(await client.job(id)).toMatchObject({ user: host.user, endedAt: null })
    await client.cancel(id)
  })

  test('a job that asks for whole nodes has them with all their GPUs; another has those that it asks for', async () => {
    const cpus = async (changes: Partial<SlurmJobSpec>) => {
      const id = await client.submit(spec('scontrol show job -d $SLURM_JOB_ID', { environment, ...changes }))
      const { output, raw } = await ended(id)
      return {
        cpus: numberOf(raw.cpus),
        gpus: /Nodes=\S+ .*GRES=(\S+?)(\(|$)/m.exec(await readFile(output, 'utf8'))?.[1],
      }
    }
    const environment = { PATH: '/usr/bin:/bin', SLURM_CONF: host.conf }
    expect(await cpus({ exclusive: true })).toEqual({ cpus: 4, gpus: 'gpu:fake:2' })
    expect(await cpus({})).toEqual({ cpus: 1, gpus: 'gpu:fake:1' })
  })

  test('a job is told some time before its end, where it asks for that', async () => {
    // Slurm may be up to a minute early.
    const trap = "trap 'echo told; exit 0' USR1; while true; do sleep 0.2; done"
    const environment = { PATH: '/usr/bin:/bin', SLURM_CONF: host.conf }
    // The job's shell is told where that can be said; elsewhere its steps are.
    const script = isNewer(host.version) ? trap : `srun bash -c "${trap}"`
    const id = await client.submit(spec(script, { timeLimit: 2, signal: 'B:USR1@110', environment }))
    expect(await ended(id)).toMatchObject({ state: 'COMPLETED', exitCode: 0 })
  })

  // From v0.0.41 on Slurm leaves out what it cannot read.
  test.skipIf(machine !== '' && version !== 'v0.0.40')(
    'what cannot be read is refused, by a controller that is there',
    async () => {
      const error = await client.submit(spec('true', { signal: 'NOTHING@x' })).catch((each) => each)
      expect(error).toMatchObject({ kind: 'refused', message: expect.stringContaining('Slurm refused') })
    },
  )

  test('an old token is replaced by a new one; a wrong key is said', async () => {
    const source = tokenSource(host)
    const old = await tokenSource({ ...host, now: () => Date.now() - 3_600_000 })()
    let asked = 0
    const token = async ({ fresh = false } = {}) => {
      asked++
      return fresh ? source({ fresh }) : old
    }
    const late = new SlurmClient({ url: host.url, user: host.user, token })
    await late.ping()
    expect(asked).toBeGreaterThan(1)
    const wrong = new SlurmClient({ url: host.url, user: host.user, token: async () => 'x.y.z' })
    await expect(wrong.ping()).rejects.toThrow(/JWT key is another one/)
  })

  test('a controller that is away is unreachable, and its jobs go on', async () => {
    const id = await client.submit(spec('sleep 6', { comment: 'through' }))
    await until(async () => (await client.job(id))?.state === 'RUNNING', 'it runs')
    await host.stopController()
    const error = await client.job(id).catch((each) => each)
    expect(error).toMatchObject({ kind: 'unreachable' })
    await host.startController()
    expect(await ended(id)).toMatchObject({ state: 'COMPLETED' })
  }, 120_000)
})
