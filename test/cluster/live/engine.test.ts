// Full-size runs through a real Slurm, with a stand-in for the program that trains: everything but the GPUs.

import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { checkClusters } from '../../../server/engines/clusters.ts'
import type { JobSpec } from '../../../server/engines/engine.ts'
import { FullSizeEngine } from '../../../server/engines/primeRl/engine.ts'
import { numberOf } from '../../../server/engines/slurm/answer.ts'
import { slurmSchema } from '../../../server/engines/slurm/config.ts'
import { type SlurmOptions, SlurmScheduler } from '../../../server/engines/slurm/scheduler.ts'
import { newId } from '../../../server/store/ids.ts'
import { fullSizeConfig } from '../support/config.ts'
import { everythingIn } from '../support/everythingIn.ts'
import { followToEnd, stepsOf } from '../support/followRun.ts'
import { makeProject } from '../support/project.ts'
import { type SlurmHost, startSlurm } from '../support/slurm.ts'
import { isNewer } from '../support/slurmConf.ts'
import { until } from '../support/until.ts'

const missing = inject('slurmMissing')
const newer = inject('newerSlurm')
const SLURMS = [{ title: 'Slurm', machine: '' }]
if (newer) SLURMS.push({ title: 'a newer Slurm', machine: newer })

describe.skipIf(missing !== null).each(SLURMS)('full-size runs through $title', ({ machine }) => {
  let host: SlurmHost
  let server: string
  let project: Awaited<ReturnType<typeof makeProject>>
  beforeAll(async () => {
    host = await startSlurm({ nodes: 2, machine })
    server = await mkdtemp(join(tmpdir(), 'rollout-lab-server-'))
    project = await makeProject(host.shared)
  }, 60_000)
  afterAll(async () => {
    await host?.stop()
    await rm(server, { recursive: true, force: true })
  }, 60_000)

  /** Another server with the same memory, as after a restart. */
  const open = (slurm: Partial<SlurmOptions> = {}) =>
    new FullSizeEngine(new SlurmScheduler({ ...host, exclusive: false, deadlineMs: 12_000, ...slurm }), {
      ...{ folder: server, runsRoot: join(host.shared, 'runs'), project: project.project, models: 'models' },
      owner: { uid: host.userId, gid: host.userId },
      graceSeconds: 20,
      environment: { SLURM_CONF: host.conf },
    })
  const specOf = (changes: Partial<JobSpec> = {}): JobSpec => ({
    ...{ run: newId(), attempt: 1, name: 'reverse text', project: 'p', config: fullSizeConfig(), secrets: {} },
    ...changes,
  })

  test('a run is submitted, followed and brought home', async () => {
    await project.faults({ pace: 250 })
    const engine = open()
    const spec = specOf({ secrets: { CANARY: 'canary value; $(touch /tmp/never)\nline' } })
    const key = newId()
    const { engineId } = await engine.submit(spec, key)
    const { events, states, job } = await followToEnd(() => engine, engineId)
    expect(job).toMatchObject({ state: 'succeeded', exitCode: 0, nodes: [expect.stringMatching(/^n[01]$/)] })
    expect(states.at(-1)).toBe('succeeded')
    expect(stepsOf(events)).toEqual([1, 2, 3, 4, 5, 6])
    const kinds = events.map(({ kind }) => kind)
    expect(kinds.slice(0, 2)).toEqual(['started', 'state'])
    expect(new Set(kinds)).toEqual(new Set(['started', 'state', 'step', 'samples', 'saved']))
    const step = events.find((event) => event.kind === 'step')
    expect(step?.kind === 'step' && step.metrics).toMatchObject({
      ...{ 'reward/mean': 0.4, 'num_output_tokens/mean': 4, 'loss/mean': -0.01, 'optim/grad_norm': 0.7 },
    })
    const samples = events.find((event) => event.kind === 'samples')
    expect(samples?.kind === 'samples' && samples.groups).toMatchObject([
      {
        prompt: [{ role: 'user', content: 'text 0' }],
        answer: '0 txet',
        rollouts: [{ messages: [{ content: 'answer 0' }] }, {}, {}, {}],
      },
      { rollouts: [{}, {}, {}, {}] },
    ])
    expect(events.flatMap((event) => (event.kind === 'saved' ? [event.save.step] : []))).toEqual([2, 4, 6])
    const files = await engine.files(spec.run)
    expect(files.map(({ kind, step, name }) => `${kind} ${step} ${name}`)).toEqual([
      'config 0 prime-rl.toml',
      ...[2, 4, 6].map((n) => `checkpoint ${n} checkpoint.json`),
      ...[2, 4, 6].flatMap((n) => [`adapter ${n} adapter_config.json`, `adapter ${n} adapter_model.safetensors`]),
    ])
    expect(await engine.size(spec.run)).toBeGreaterThan(3000)

    // Secrets: given, then gone; in no file, no environment of Slurm's, no log.
    const folder = join(host.shared, 'runs', spec.run)
    const log = await engine.readLog(engineId, 'job', 0, 1e6)
    expect(Buffer.from(log.bytes).toString()).toContain('a secret is there')
    expect(await readdir(join(folder, 'attempt_1'))).not.toContain('secrets')
    const said = await everythingIn(folder)
    expect(said).not.toContain('canary value')
    expect(await everythingIn(server)).not.toContain('canary value')
    expect(await host.scontrol('show', 'job', '-dd')).not.toContain('canary')
    await expect(stat('/tmp/never')).rejects.toThrow()
    // A parallel reader by parts gets the file to the byte.
    const parts: Buffer[] = []
    for (let at = 0, eof = false; !eof; ) {
      const part = await engine.readLog(engineId, 'trainer', at, 37)
      parts.push(Buffer.from(part.bytes))
      at = part.nextOffset
      eof = part.eof
    }
    expect(Buffer.concat(parts).toString()).toBe(
      await readFile(join(folder, 'output/logs/attempt_1/trainer.log'), 'utf8'),
    )
  })

  test('its card tells partitions, GPUs and what is known of the price', async () => {
    const { problem, details } = await open().card()
    expect(problem).toBeNull()
    expect(details).toEqual([
      // v0.0.42 does not tell which one is the default.
      `Partition cluster${isNewer(host.version) ? '' : ' (the default)'}: 2 nodes, 2 idle; 0 of 4 GPUs in use.`,
      'What a GPU-hour costs is unknown: the operator has named no price.',
    ])
    expect(await open({ url: 'http://127.0.0.1:9' }).card()).toMatchObject({
      problem: expect.stringContaining('cannot be reached'),
    })
  })

  test('fifty submits of one key are one job', async () => {
    await project.faults({ pace: 20 })
    const spec = specOf({ config: fullSizeConfig({ max_steps: 1 }) })
    const key = newId()
    const engine = open()
    await Promise.all(Array.from({ length: 50 }, () => engine.submit(spec, key)))
    await Promise.all([open().submit(spec, key), open().submit(spec, key)])
    const marked = (await new SlurmScheduler({ ...host }).client.jobs()).filter(({ comment }) => comment.endsWith(key))
    expect(marked).toHaveLength(1)
    expect((await followToEnd(() => engine, key)).job.state).toBe('succeeded')
  })

  test('the check finds what is there, and says the mend for what is not', async () => {
    const data = join(server, 'check')
    const table = slurmSchema.parse({
      ...{ url: host.url, user: host.user, key_file: host.keyFile, runs_root: join(host.shared, 'runs') },
      ...{ project: project.project, exclusive: false, owner: { uid: host.userId, gid: host.userId } },
    })
    const found = async (changes: Partial<typeof table>) =>
      (await checkClusters({ slurm: { ...table, ...changes } }, data, '.')).map(
        ({ ok, what, sentence }) => `${ok ? 'ok' : 'NO'} ${what.replace('Slurm: ', '')}: ${sentence}`,
      )
    expect(await found({})).toEqual([
      'ok answers: Slurm answers.',
      expect.stringContaining('ok shared disk: This server writes to '),
      expect.stringMatching(/^ok a job: A small job ran on \S+ as labjobs and was read back\.$/),
      'ok reads: The node reads what this server writes.',
      'ok secrets: The job reads a file that is for its user alone.',
      expect.stringMatching(/^ok prime-rl: \S+\/\.venv\/bin\/rl is there\.$/),
      'ok clocks: The clocks agree.',
      'ok GPUs: The job was given 1 GPU.',
    ])
    expect((await found({ project: '/nowhere' })).filter((line) => line.startsWith('NO'))).toEqual([
      'NO prime-rl: /nowhere is not there on the node: clone prime-rl to it, or set project to where it is.',
    ])
    expect((await found({ partition: 'nowhere' })).at(-1)).toContain('NO a job: Slurm has no partition "nowhere"')
    expect((await found({ runs_root: '/proc/here' })).at(-1)).toContain(
      'NO shared disk: This server cannot write to runs_root',
    )
    expect((await found({ owner: undefined })).at(-1)).toContain('NO a job: A small job ran (failed')
    expect((await found({ url: 'http://127.0.0.1:9' })).at(-1)).toContain(
      'NO answers: slurmrestd at http://127.0.0.1:9 cannot be reached',
    )
  }, 120_000)

  test('cancelled with grace it saves, and the next attempt goes on from there', async () => {
    await project.faults({ pace: 400 })
    const engine = open()
    const spec = specOf({ config: fullSizeConfig({ max_steps: 8, checkpointing: { save_every_n_steps: 50 } }) })
    const first = newId()
    await engine.submit(spec, first)
    const cancelled = await followToEnd(() => engine, first, {
      onTurn: ({ events }) => (stepsOf(events).includes(2) ? engine.cancel(first, 'graceful') : Promise.resolve()),
    })
    expect(cancelled.job.state).toBe('cancelled')
    const saved = cancelled.events.flatMap((event) => (event.kind === 'saved' ? [event.save.step] : []))
    expect(saved).toHaveLength(1)
    const second = newId()
    await engine.submit({ ...spec, attempt: 2 }, second)
    const resumed = await followToEnd(() => engine, second)
    expect(resumed.job.state).toBe('succeeded')
    const started = resumed.events.find((event) => event.kind === 'started')
    expect(started?.kind === 'started' && started.description.step).toBe(saved[0])
    expect(stepsOf(resumed.events)).toEqual(Array.from({ length: 8 - saved[0] }, (_, i) => saved[0] + 1 + i))
    // Each attempt has its own part of a stream.
    const log = async (id: string) => Buffer.from((await engine.readLog(id, 'trainer', 0, 1e6)).bytes).toString()
    expect(await log(first)).toContain('Step 1 ')
    expect(await log(second)).not.toContain('Step 1 ')
  })

  test('over two nodes prime-rl writes its own job, whose directives are taken', async () => {
    await project.faults({ pace: 150 })
    const engine = open()
    const deployment = { type: 'multi_node', num_train_nodes: 1, num_infer_nodes: 1, gpus_per_node: 2 }
    const key = newId()
    const config = fullSizeConfig({ deployment, slurm: { partition: 'cluster' } })
    expect(engine.refusals(config)).toEqual([])
    await engine.submit(specOf({ config, secrets: { CANARY: 'c' } }), key)
    const run = await followToEnd(() => engine, key)
    expect(run.job).toMatchObject({ state: 'succeeded', exitCode: 0, nodes: ['n0', 'n1'] })
    expect(stepsOf(run.events)).toEqual([1, 2, 3, 4, 5, 6])
    const log = Buffer.from((await engine.readLog(key, 'job', 0, 1e6)).bytes).toString()
    for (const said of ['nodes: n0 n1', 'rank 0 of 2', 'rank 1 of 2', 'a secret is there']) expect(log).toContain(said)
    const jobs = (await new SlurmScheduler({ ...host }).client.jobs()).filter(({ comment }) => comment.includes(key))
    expect(jobs.map(({ raw }) => numberOf(raw.node_count)).sort()).toEqual([1, 2])
  })

  test('what prime-rl refuses in its dry run is the run’s end, in its words', async () => {
    const engine = open()
    const deployment = { type: 'multi_node', num_train_nodes: 0, num_infer_nodes: 1, gpus_per_node: 2 }
    const key = newId()
    await engine.submit(specOf({ config: fullSizeConfig({ deployment, slurm: { partition: 'cluster' } }) }), key)
    expect((await followToEnd(() => engine, key)).job).toMatchObject({
      ...{ state: 'failed', reason: expect.stringContaining('prime-rl refused the config') },
    })
  })

  test('a component that dies is said at once, though the job goes on', async () => {
    await project.faults({ pace: 200, dieAt: 2, attempt: 1, linger: 4000 })
    const engine = open()
    const key = newId()
    await engine.submit(specOf(), key)
    const run = await followToEnd(() => engine, key)
    expect(run.reasons.some((reason) => /^Failing: .*trainer exited with code 1/.test(reason))).toBe(true)
    expect(run.events.flatMap((event) => (event.kind === 'note' ? [event.sentence] : []))).toEqual([
      expect.stringContaining('The trainer ended with code 1: the run is failing.'),
    ])
    expect(run.job).toMatchObject({ state: 'failed', exitCode: 1 })
  })

  test('what Slurm refuses ends the run with a sentence', async () => {
    const nowhere = open({ partition: 'nowhere' })
    const key = newId()
    await nowhere.submit(specOf(), key)
    expect((await followToEnd(() => nowhere, key)).job).toMatchObject({
      ...{ state: 'failed', reason: expect.stringContaining('Slurm has no partition "nowhere"') },
    })
    const engine = open()
    const big = newId()
    const deployment = { type: 'single_node', num_train_gpus: 2, num_infer_gpus: 2 }
    await engine.submit(specOf({ config: fullSizeConfig({ deployment }) }), big)
    expect((await followToEnd(() => engine, big)).job).toMatchObject({
      ...{ state: 'failed', reason: expect.stringMatching(/^No node .* in \[deployment\]/) },
    })
  })

  test('a controller that is away makes the run unknown, never failed; another server goes on where the first was', async () => {
    await project.faults({ pace: 500 })
    let engine = open()
    const key = newId()
    await engine.submit(specOf({ config: fullSizeConfig({ max_steps: 400 }) }), key)
    let away: Promise<void> | null = null
    const run = await followToEnd(() => engine, key, {
      milliseconds: 200_000,
      onTurn: async ({ events, states }) => {
        if (stepsOf(events).includes(2) && !away)
          away = host.stopController().then(async () => {
            await new Promise((resolve) => setTimeout(resolve, 60_000))
            await host.startController()
          })
        if (states.includes('unknown')) engine = open()
        if (states.at(-1) === 'running' && states.includes('unknown')) await engine.cancel(key, 'now')
      },
    })
    await away
    expect(run.states).toContain('unknown')
    expect(run.states).not.toContain('failed')
    expect(run.job.state).toBe('cancelled')
    const steps = stepsOf(run.events)
    expect(steps).toEqual(steps.map((_, i) => i + 1))
  }, 240_000)

  test('restart = engine: the node dies, Slurm starts the job again, and every step is told', async () => {
    await project.faults({ pace: 600 })
    const engine = open({ restart: 'engine' })
    const key = newId()
    const secrets = { CANARY: 'canary value' }
    await engine.submit(specOf({ config: fullSizeConfig({ max_steps: 24 }), secrets }), key)
    let renewed = 0
    let killed: Promise<void> | null = null
    const run = await followToEnd(() => engine, key, {
      milliseconds: 280_000,
      onTurn: async ({ events, job }) => {
        if (job.wantsSecrets) {
          renewed++
          await engine.renewSecrets(key, secrets)
        }
        if (killed || !stepsOf(events).includes(3)) return
        const [node] = job.nodes
        killed = host.killNode(node)
        await killed
        setTimeout(() => host.startNode(node).catch(() => {}), 30_000)
      },
    })
    expect(run.job).toMatchObject({ state: 'succeeded' })
    expect(run.states).toContain('queued')
    const steps = stepsOf(run.events)
    expect(new Set(steps)).toEqual(new Set(Array.from({ length: 24 }, (_, i) => i + 1)))
    expect(renewed).toBe(1)
    const said = Buffer.from((await engine.readLog(key, 'job', 0, 1e6)).bytes).toString()
    expect(said).not.toContain('no secret')
    expect(await everythingIn(join(host.shared, 'runs'))).not.toContain('canary value')
    // What was done twice is told twice.
    expect(steps.at(-1)).toBe(24)
    expect(steps.length).toBeGreaterThanOrEqual(24)
    const log = Buffer.from((await engine.readLog(key, 'trainer', 0, 1e6)).bytes).toString()
    const folder = join(host.shared, 'runs', (await readdir(join(host.shared, 'runs'))).sort().at(-1)!, 'output/logs')
    const files = await Promise.all([1, 2].map((k) => readFile(join(folder, `attempt_${k}/trainer.log`), 'utf8')))
    expect(log).toBe(files.join(''))
    await until(
      async () => (await new SlurmScheduler({ ...host }).client.nodes()).every(({ state }) => state === 'idle'),
      'nodes are back',
    )
  }, 300_000)

  test('restart = server: the job of a dead node is lost, and another attempt goes on from its checkpoint', async () => {
    await project.faults({ pace: 600 })
    const engine = open()
    const spec = specOf({ config: fullSizeConfig({ max_steps: 20, checkpointing: { save_every_n_steps: 2 } }) })
    const key = newId()
    await engine.submit(spec, key)
    let killed = ''
    const run = await followToEnd(() => engine, key, {
      milliseconds: 200_000,
      onTurn: async ({ events, job }) => {
        if (killed || !stepsOf(events).includes(3)) return
        killed = job.nodes[0]
        await host.killNode(killed)
      },
    })
    expect(run.job).toMatchObject({ state: 'node_lost' })
    await host.startNode(killed)
    const next = newId()
    await engine.submit({ ...spec, attempt: 2 }, next)
    const resumed = await followToEnd(() => engine, next)
    expect(resumed.job.state).toBe('succeeded')
    const saved = run.events.flatMap((event) => (event.kind === 'saved' ? [event.save.step] : [])).at(-1)!
    expect(stepsOf(resumed.events)).toEqual(Array.from({ length: 20 - saved }, (_, i) => saved + 1 + i))
  }, 300_000)
})
