// A hundred followed runs, four of them live jobs of a real Slurm and the others folders that another process fills, by a
// server in a process of its own, over HTTP: each run to the byte, and the server answers all the while.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { ROOT } from '../../../build/paths.ts'
import { isFinal } from '../../../server/engines/engine.ts'
import type { MetricsPage, RolloutsPage, RunView } from '../../../server/runs/views.ts'
import type { RunEvent } from '../../../workers/protocol.ts'
import { messagesOf } from '../../server/runs/server.ts'
import type { ClusterServerOptions } from '../support/clusterServer.ts'
import { buildProgram, type Program } from '../support/program.ts'
import { makeProject } from '../support/project.ts'
import { type SlurmHost, startSlurm } from '../support/slurm.ts'

const missing = inject('slurmMissing')

const FOLDERS = 96
const JOBS = 4
const STEPS = 30
const STREAMS = ['job', 'trainer', 'orchestrator', 'inference']
const CONFIG = {
  ...{ name: 'reverse text', model: 'Qwen/Qwen3-0.6B', max_steps: STEPS, batch_size: 8, rollouts_per_example: 4 },
  env: [{ id: 'reverse-text' }],
}
/** Whoever waits this long waits for good. */
const DEADLOCK_MS = 60_000

describe.skipIf(missing !== null)('a hundred followed runs', () => {
  let host: SlurmHost
  let folder: string
  let program: Program
  let project: Awaited<ReturnType<typeof makeProject>>
  let options: ClusterServerOptions
  let url: string
  let server: ChildProcess
  const children: ChildProcess[] = []
  const node = (args: string[]) => {
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    children.push(child)
    return child
  }
  beforeAll(async () => {
    program = await buildProgram('clusterServer')
    host = await startSlurm({ nodes: 2, gpus: 4 })
    folder = await mkdtemp(join(tmpdir(), 'rollout-lab-hundred-'))
    project = await makeProject(host.shared)
    options = {
      ...{ root: ROOT, data: join(folder, 'server'), folders: join(folder, 'runs') },
      slurm: { url: host.url, user: host.user, keyFile: host.keyFile, exclusive: false },
      slurmRuns: {
        ...{ runsRoot: join(host.shared, 'runs'), project: project.project, models: 'models' },
        owner: { uid: host.userId, gid: host.userId },
      },
    }
    for (const each of [options.data, options.folders]) await mkdir(each)
    server = node([program.file, JSON.stringify(options)])
    url = await new Promise((resolve) => server.stdout?.once('data', (bytes) => resolve(String(bytes).trim())))
  })
  afterAll(async () => {
    for (const child of children) child.kill('SIGKILL')
    await host?.stop()
    await program?.remove()
    await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  })

  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`${url}api${path}`, { ...init, signal: AbortSignal.timeout(DEADLOCK_MS) })
  const get = async <T>(path: string): Promise<T> => {
    const response = await ask(path)
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
    return (await response.json()) as T
  }
  const submit = async (target: string): Promise<string> => {
    const response = await ask('/runs', { method: 'POST', body: JSON.stringify({ config: CONFIG, target }) })
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
    return ((await response.json()) as RunView).id
  }
  /** Every event to the end. */
  const follow = async (id: string): Promise<RunEvent[]> => {
    const response = await fetch(`${url}api/runs/${id}/events`)
    const events: RunEvent[] = []
    for await (const { event, data } of messagesOf(response.body as ReadableStream<Uint8Array>)) {
      if (event === 'run') events.push(JSON.parse(data))
      if (event === 'end') return events
    }
    throw new Error(`The events of ${id} broke off after ${events.length}.`)
  }
  /** The log by parts, as it grows, to its end. */
  const logOf = async (id: string, stream: string, limit: number): Promise<Buffer> => {
    const parts: Buffer[] = []
    for (let offset = 0; ; ) {
      const response = await ask(`/runs/${id}/logs/${stream}?offset=${offset}&limit=${limit}`)
      const part = Buffer.from(await response.arrayBuffer())
      parts.push(part)
      offset += part.length
      expect(response.headers.get('x-next-offset')).toBe(String(offset))
      if (response.headers.get('x-end') === 'true') return Buffer.concat(parts)
      if (part.length === 0) await new Promise((resolve) => setTimeout(resolve, 1000))
    }
  }

  test('are each told to the byte and once, and the server answers', async () => {
    const finish = join(host.shared, 'finish')
    await project.faults({ pace: 700, lastStepAfter: finish })
    const folders = await Promise.all(Array.from({ length: FOLDERS }, () => submit('folders')))
    const jobs = await Promise.all(Array.from({ length: JOBS }, () => submit('slurm')))
    const ids = [...folders, ...jobs]
    node([join(ROOT, 'test/cluster/support/folderWriter.mjs'), options.folders])

    const [began, before] = [performance.now(), await secondsOf(server.pid)]
    const following = Promise.all(ids.map(follow))
    let over = false
    const done = following.finally(() => {
      over = true
    })
    /** All four jobs are live at once; only then may anything that has not ended go on to its end. */
    const released = (async () => {
      for (;;) {
        const runs = await Promise.all(jobs.map((id) => get<RunView>(`/runs/${id}`)))
        if (runs.every(({ state, step }) => state === 'running' && (step ?? 0) >= STEPS - 1)) break
        expect(runs.filter(({ state }) => isFinal(state))).toEqual([])
        await new Promise((resolve) => setTimeout(resolve, 500))
      }
      for (const file of [finish, join(options.folders, 'finish')]) await writeFile(file, '')
    })()
    const took: Record<string, number[]> = {}
    const asking = (async () => {
      for (let turn = 0; !over; turn++) {
        const id = ids[turn % ids.length]
        for (const path of ['/runs?limit=100', `/runs/${id}`, `/runs/${id}/metrics`]) {
          const asked = performance.now()
          await get(path)
          const name = path.replace(id, '<id>')
          took[name] = [...(took[name] ?? []), performance.now() - asked]
        }
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    })()
    const reading = Promise.all(
      ids.map(async (id, i) => new Map([[STREAMS[i % 4], await logOf(id, STREAMS[i % 4], 100 + 37 * i)]])),
    )
    const [events, read] = await Promise.all([following, reading, released, asking, done])
    const [seconds, computed] = [(performance.now() - began) / 1000, (await secondsOf(server.pid)) - before]

    for (const [i, id] of ids.entries()) {
      const root = i < FOLDERS ? options.folders : options.slurmRuns.runsRoot
      await expectExact(id, events[i], root)
      for (const stream of STREAMS) {
        const told = read[i].get(stream) ?? (await logOf(id, stream, 1e6))
        expect(told.equals(await fileOf(join(root, id), stream)), `${id} ${stream}`).toBe(true)
        expect(told.length).toBeGreaterThan(0)
      }
    }
    process.stdout.write(`The server computed ${computed.toFixed(1)} s in ${seconds.toFixed(0)} s.\n`)
    for (const [path, times] of Object.entries(took)) {
      const sorted = times.sort((a, b) => a - b)
      const at = (part: number) =>
        `${sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))].toFixed(0)} ms`
      process.stdout.write(`GET ${path}: ${times.length} answers, p50 ${at(0.5)}, p99 ${at(0.99)}, at most ${at(1)}\n`)
    }
  }, 420_000)

  async function expectExact(id: string, events: RunEvent[], root: string): Promise<void> {
    const output = join(root, id, 'output')
    const count = <K extends RunEvent['kind']>(kind: K) =>
      events.filter((event): event is Extract<RunEvent, { kind: K }> => event.kind === kind)
    expect(new Set(events.map(({ run }) => run))).toEqual(new Set([id]))
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, n) => events[0].seq + n))
    expect(count('started')).toHaveLength(1)
    expect(count('state').map(({ state }) => state)).toEqual(['running', 'finished'])
    const every = Array.from({ length: STEPS }, (_, n) => n + 1)
    expect(count('step').map(({ step }) => step)).toEqual(every)
    expect(count('samples').map(({ step }) => step)).toEqual(every)
    expect(count('note')).toEqual([])
    // The numbers are those of the file's two rows, under one step.
    const rows = (await readFile(join(output, 'metrics.jsonl'), 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    const page = await get<MetricsPage>(`/runs/${id}/metrics`)
    for (const [n, { step, metrics }] of count('step').entries()) {
      const [orchestrator, trainer] = ['orchestrator', 'trainer'].map((producer) =>
        rows.find((row) => row.step === step && row.producer === producer),
      )
      for (const key of ['loss/mean', 'optim/lr', 'optim/grad_norm', 'time/step', 'time/wait_for_batch'])
        expect(metrics[key]).toBe(trainer[key])
      expect(metrics['reward/mean']).toBe(orchestrator['train/agg/all/agent/reward/mean'])
      expect(page.rows[n]).toMatchObject({ step, metrics })
    }
    for (const step of [1, STEPS]) {
      const traces = await readFile(join(output, `rollouts/step_${step}/train/effective/traces.jsonl`), 'utf8')
      const nodes = traces
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).traces[0].nodes)
      const { groups } = await get<RolloutsPage>(`/runs/${id}/rollouts?step=${step}`)
      const told = groups.flatMap(({ prompt, rollouts }) =>
        rollouts.map(({ messages }) => [...prompt, ...messages].map(({ content }) => content)),
      )
      expect(told).toEqual(
        nodes.map((path: { message: { content: string } }[]) => path.map((each) => each.message.content)),
      )
    }
  }

  /** What a process has computed so far. */
  async function secondsOf(pid: number | undefined): Promise<number> {
    const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1].split(' ')
    return (Number(fields[11]) + Number(fields[12])) / 100
  }

  async function fileOf(run: string, stream: string): Promise<Buffer> {
    if (stream !== 'job') return readFile(join(run, `output/logs/attempt_1/${stream}.log`))
    const attempt = join(run, 'attempt_1')
    const names = (await readdir(attempt)).filter((name) => name.startsWith('job_'))
    expect(names).toHaveLength(1)
    return readFile(join(attempt, names[0]))
  }
})
