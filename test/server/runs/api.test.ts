import { createHash } from 'node:crypto'
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { LOCAL_CALLER } from '../../../server/runs/caller.ts'
import { tidy } from '../../../server/runs/room.ts'
import type {
  ArtifactView,
  MetricsPage,
  Preview,
  RolloutsPage,
  RunView,
  TargetView,
} from '../../../server/runs/views.ts'
import { buildPrograms, type Programs, STAND_IN } from '../engines/standInProgram.ts'
import { runEvents, TestServer } from './server.ts'

let programs: Programs
beforeAll(async () => {
  programs = await buildPrograms()
}, 120_000)
afterAll(() => programs.remove())

let server: TestServer
beforeEach(async () => {
  server = await TestServer.open(programs.trainer)
})
afterEach(async () => {
  expect(server.reported).toEqual([])
  await server.remove()
})

/** Learns next to nothing, so that its answers go on differing and it does not pause by itself. */
const long = { ...STAND_IN, max_steps: 500, learning_rate: 1e-6 }

describe('a submit', () => {
  it('becomes a run that is followed to its end and read afterwards', async () => {
    const run = await server.submit(STAND_IN, { name: 'first', labels: ['a', 'b', 'a'] })
    expect(run).toMatchObject({
      name: 'first',
      labels: ['a', 'b'],
      state: 'queued',
      attempt: 1,
      maxSteps: 6,
      target: 'local',
    })
    const messages = await server.follow(run.id)
    const events = runEvents(messages)
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1))
    expect(new Set(events.map((event) => `${event.run} ${event.attempt}`))).toEqual(new Set([`${run.id} 1`]))
    expect(messages.filter(({ event }) => event === 'run').map(({ id }) => id)).toEqual(events.map(({ seq }) => seq))
    expect(messages.at(-1)).toMatchObject({ event: 'end' })
    expect(JSON.parse(messages.at(-1)?.data ?? '')).toMatchObject({ state: 'succeeded', step: 6 })
    const started = events.find(({ kind }) => kind === 'started')
    expect(started).toMatchObject({ description: { run: run.id, capabilities: { pause: false, step: false } } })

    const { rows, next } = await server.get<MetricsPage>(`/runs/${run.id}/metrics?from=2&to=4`)
    expect(rows.filter(({ kind }) => kind === 'step').map(({ step }) => step)).toEqual([2, 3, 4])
    expect(next).toBeNull()
    const { steps } = await server.get<{ steps: number[] }>(`/runs/${run.id}/rollouts`)
    expect(steps).toEqual([1, 2, 3, 4, 5, 6])
    const details = await server.details(run.id)
    expect(details).toMatchObject({ state: 'succeeded', step: 6, attempts: [{ number: 1, exitCode: 0, fromStep: 0 }] })
    expect(details.bytes).toBeGreaterThan(1000)
    expect(details.config.max_steps).toBe(6)
  })

  it('pages metrics and rollouts', async () => {
    const { id } = await server.submit(STAND_IN)
    await server.ended(id)
    const steps: number[] = []
    for (let after: number | null = 0; after !== null; ) {
      const page: MetricsPage = await server.get<MetricsPage>(`/runs/${id}/metrics?limit=2&after=${after}`)
      expect(page.rows.length).toBeLessThanOrEqual(2)
      steps.push(...page.rows.filter(({ kind }) => kind === 'step').map(({ step }) => step))
      after = page.next
    }
    expect(steps).toEqual([1, 2, 3, 4, 5, 6])
    const whole = await server.get<RolloutsPage>(`/runs/${id}/rollouts?step=3`)
    expect(whole).toMatchObject({ total: 4, next: null, split: 'train', attempt: 1 })
    const groups: unknown[] = []
    for (let offset: number | null = 0; offset !== null; ) {
      const page: RolloutsPage = await server.get<RolloutsPage>(`/runs/${id}/rollouts?step=3&limit=3&offset=${offset}`)
      groups.push(...page.groups)
      offset = page.next
    }
    expect(groups).toEqual(whole.groups)
    expect((await server.fetch(`/runs/${id}/rollouts?step=99`)).status).toBe(404)
  })

  it('sends groups with the samples where they are asked for', async () => {
    const { id } = await server.submit(STAND_IN)
    await server.ended(id)
    const stubs = runEvents(await server.follow(id)).filter((event) => event.kind === 'samples')
    expect(stubs.every(({ groups }) => groups.length === 0)).toBe(true)
    const full = runEvents(await server.follow(id, { query: '?samples=true' })).filter(
      (event) => event.kind === 'samples',
    )
    const { groups } = await server.get<RolloutsPage>(`/runs/${id}/rollouts?step=2`)
    expect(full.find(({ step, split }) => step === 2 && split === 'train')?.groups).toEqual(groups)
  })

  it('leaves out what told only of its moment where the past is asked for in brief', async () => {
    const { id } = await server.submit(STAND_IN)
    await server.ended(id)
    const all = runEvents(await server.follow(id))
    const brief = runEvents(await server.follow(id, { query: '?brief=true' }))
    expect(brief).toEqual(all.filter(({ kind }) => !['phase', 'progress', 'memory'].includes(kind)))
    expect(brief.length).toBeLessThan(all.length)
  })

  it('is taken up again after any event, with no gap and no repeat', async () => {
    await server.pace(20)
    const { id } = await server.submit({ ...STAND_IN, max_steps: 10 })
    const got: number[] = []
    for (let last: number | undefined; ; ) {
      const messages = await server.follow(id, { lastEventId: last, most: 7 })
      got.push(...runEvents(messages).map(({ seq }) => seq))
      last = got.at(-1)
      if (messages.some(({ event }) => event === 'end')) break
    }
    expect(got).toEqual(got.map((_, i) => i + 1))
    expect(runEvents(await server.follow(id)).length).toBe(got.length)
  })

  it('is one run, however often it comes with one key', async () => {
    const key = { 'idempotency-key': 'one-key' }
    const answers = await Promise.all(Array.from({ length: 50 }, () => server.post('/runs', { config: STAND_IN }, key)))
    const runs = (await Promise.all(answers.map((answer) => answer.json()))) as RunView[]
    expect(new Set(runs.map(({ id }) => id)).size).toBe(1)
    expect(answers.map(({ status }) => status).sort()).toEqual([...Array(49).fill(200), 201])
    expect(answers.filter(({ headers }) => headers.get('idempotent-replayed') === 'true')).toHaveLength(49)
    expect((await server.get<{ runs: RunView[] }>('/runs')).runs).toHaveLength(1)
    const other = await server.post('/runs', { config: { ...STAND_IN, seed: 8 } }, key)
    expect(other.status).toBe(422)
    expect(((await other.json()) as { error: string }).error).toMatch(/used for another request/)
    await server.ended(runs[0].id)
    const details = await server.details(runs[0].id)
    expect(details.attempts).toHaveLength(1)
    // The order of a request's keys is no difference.
    const reordered = Object.fromEntries(Object.entries(STAND_IN).reverse())
    expect((await server.post('/runs', { config: reordered }, key)).status).toBe(200)
  })

  it('is refused, in sentences, when something is wrong with it', async () => {
    const problem = async (body: unknown, headers = {}) => {
      const answer = await server.post('/runs', body, headers)
      return { status: answer.status, ...((await answer.json()) as { error: string; problems?: { path: string }[] }) }
    }
    expect(await problem({ config: 'max_stepps = 3' })).toMatchObject({
      status: 422,
      problems: [{ path: 'max_stepps', line: 1 }],
    })
    expect(await problem({ config: { ...STAND_IN, model: '../../etc' } })).toMatchObject({
      status: 422,
      error: expect.stringContaining('choose one of them'),
    })
    expect(await problem({ config: STAND_IN, target: 'moon' })).toMatchObject({
      status: 422,
      error: expect.stringContaining('no target "moon"'),
    })
    expect(await problem({ config: STAND_IN, colour: 'red' })).toMatchObject({
      status: 400,
      error: expect.stringContaining('colour'),
    })
    expect(await problem({ config: STAND_IN, secrets: ['none'] })).toMatchObject({
      status: 422,
      error: expect.stringContaining('none'),
    })
    expect(await problem({ config: STAND_IN }, { 'idempotency-key': 'a b' })).toMatchObject({ status: 400 })
    const answer = await server.fetch('/runs', { method: 'POST', body: '{' })
    expect(answer.status).toBe(400)
    expect((await server.fetch('/runs', { method: 'POST', body: 'x'.repeat(1024 * 1024 + 1) })).status).toBe(413)
    expect((await server.fetch('/runs', { method: 'POST', body: 'x'.repeat(1024 * 1024) })).status).toBe(400)
    expect((await server.get<{ runs: RunView[] }>('/runs')).runs).toEqual([])
  })
})

describe('a run', () => {
  it('is cancelled after a save and goes on as a new attempt, without a step lost or told twice', async () => {
    await server.pace(20)
    const { id } = await server.submit({ ...STAND_IN, max_steps: 20 })
    await server.until(id, ({ step }) => step >= 3)
    expect((await server.post(`/runs/${id}/cancel`)).status).toBe(202)
    const cancelled = await server.ended(id)
    expect(cancelled).toMatchObject({ state: 'cancelled', cancelling: false })
    expect((await server.post(`/runs/${id}/cancel`)).status).toBe(202)
    expect((await server.details(id)).state).toBe('cancelled')
    await server.pace(0)
    expect((await server.post(`/runs/${id}/resume`)).status).toBe(202)
    const done = await server.ended(id)
    expect(done).toMatchObject({ state: 'succeeded', attempt: 2, step: 20 })
    expect(done.attempts[1].fromStep).toBe(cancelled.step)
    const { rows } = await server.get<MetricsPage>(`/runs/${id}/metrics`)
    const steps = rows.filter(({ kind }) => kind === 'step').map(({ step }) => step)
    expect(steps).toEqual(Array.from({ length: 20 }, (_, i) => i + 1))
    const events = runEvents(await server.follow(id))
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1))
    expect((await server.post(`/runs/${id}/resume`)).status).toBe(422)
    await server.post(`/runs/${id}/resume`, { maxSteps: 22 })
    expect(await server.ended(id)).toMatchObject({ state: 'succeeded', attempt: 3, step: 22, maxSteps: 22 })
  })

  it('goes on by itself when its process was killed, and hides the steps that are done again', async () => {
    await server.pace(30)
    const { id } = await server.submit({ ...STAND_IN, max_steps: 12 })
    await server.until(id, ({ step }) => step >= 3)
    const [job] = (await server.runs.runs.context.engines.get('local')?.list()) ?? []
    process.kill((job.raw as { process: { pid: number } }).process.pid, 'SIGKILL')
    const done = await server.ended(id)
    expect(done).toMatchObject({ state: 'succeeded', attempt: 2, step: 12 })
    expect(done.attempts[0]).toMatchObject({ state: 'node_lost' })
    const { rows } = await server.get<MetricsPage>(`/runs/${id}/metrics`)
    expect(rows.filter(({ kind }) => kind === 'step').map(({ step }) => step)).toEqual(
      Array.from({ length: 12 }, (_, i) => i + 1),
    )
  })

  it('waits over a restart of the server, and goes on where it was saved', async () => {
    await server.pace(30)
    const first = await server.submit({ ...STAND_IN, max_steps: 60 })
    const second = await server.submit(STAND_IN)
    await server.until(first.id, ({ step }) => step >= 2)
    await server.stop()
    await server.start()
    expect(await server.ended(first.id)).toMatchObject({ state: 'succeeded', attempt: 2, step: 60 })
    expect(await server.ended(second.id)).toMatchObject({ state: 'succeeded' })
  })

  it('is cloned with what is put over it', async () => {
    const { id } = await server.submit(STAND_IN, { name: 'parent', labels: ['x'] })
    const answer = await server.post(`/runs/${id}/clone`, { set: ['learning_rate=0.5', 'max_steps=2'] })
    expect(answer.status).toBe(201)
    const clone = (await answer.json()) as RunView
    expect(clone).toMatchObject({ name: 'parent', labels: ['x'], clonedFrom: id, maxSteps: 2 })
    expect((await server.details(clone.id)).config.learning_rate).toBe(0.5)
    await Promise.all([server.ended(id), server.ended(clone.id)])
  })

  it('is renamed, labelled, found, and deleted with all that it has left', async () => {
    const { id } = await server.submit(STAND_IN)
    await server.pace(20)
    const running = await server.submit(long)
    await server.post(`/runs/${id}`, { name: 'Zebra', labels: ['50%_done'] }, {}, 'PATCH')
    const found = async (query: string) =>
      (await server.get<{ runs: RunView[] }>(`/runs?${query}`)).runs.map((run) => run.id)
    expect(await found('text=zeb')).toEqual([id])
    expect(await found(`label=${encodeURIComponent('50%_done')}`)).toEqual([id])
    expect(await found('label=50')).toEqual([])
    await server.ended(id)
    expect(await found('state=succeeded,failed')).toEqual([id])
    expect(await found('')).toEqual([running.id, id])
    expect(await found('limit=1')).toEqual([running.id])
    expect(await found(`before=${running.id}`)).toEqual([id])

    expect((await server.fetch(`/runs/${running.id}`, { method: 'DELETE' })).status).toBe(409)
    expect((await server.fetch(`/runs/${id}`, { method: 'DELETE' })).status).toBe(204)
    expect((await server.fetch(`/runs/${id}`)).status).toBe(404)
    await server.post(`/runs/${running.id}/cancel`, { graceful: false })
    await server.ended(running.id)
    await server.fetch(`/runs/${running.id}`, { method: 'DELETE' })
    const { db } = server.runs.store
    for (const table of ['run', 'attempt', 'artifact', 'step_index', 'event_file'] as const)
      expect(await db.selectFrom(table).selectAll().execute()).toEqual([])
    const { execFileSync } = await import('node:child_process')
    expect(execFileSync('find', [server.data, '-name', `*${id}*`], { encoding: 'utf8' })).toBe('')
  })

  it('leaves artifacts that are downloaded as they were, by their ids alone', async () => {
    const { id } = await server.submit({ ...STAND_IN, checkpointing: { save_every_n_steps: 2 } })
    await server.ended(id)
    const { artifacts } = await server.get<{ artifacts: ArtifactView[] }>(`/runs/${id}/artifacts`)
    expect(artifacts.map(({ kind, step, name }) => `${kind} ${step} ${name}`)).toEqual(
      expect.arrayContaining(['adapter 0 adapter_model.safetensors', 'checkpoint 2 save.bin', 'config 0 rl.toml']),
    )
    for (const artifact of artifacts) {
      const answer = await server.fetch(`/runs/${id}/artifacts/${artifact.id}`)
      const bytes = Buffer.from(await answer.arrayBuffer())
      expect(bytes.length).toBe(artifact.bytes)
      expect(createHash('sha256').update(bytes).digest('hex')).toBe(artifact.sha256)
      expect(answer.headers.get('content-disposition')).toMatch(/^attachment; filename="[\w.-]+"$/)
      expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
    }
    const other = await server.submit(STAND_IN)
    await server.ended(other.id)
    expect((await server.fetch(`/runs/${other.id}/artifacts/${artifacts[0].id}`)).status).toBe(404)
    for (const path of TRAVERSALS)
      expect((await server.fetch(`/runs/${id}/artifacts/${path}`)).status, path).toBeGreaterThanOrEqual(400)
  })

  it('is seen by its own project alone', async () => {
    const { id } = await server.submit(STAND_IN)
    const { runs } = server.runs
    const stranger = { id: 'key', project: 'other', operator: false }
    await expect(runs.get(stranger, id)).rejects.toMatchObject({ status: 404 })
    expect(await runs.list(stranger, { limit: 10 })).toEqual([])
    expect(await runs.list(LOCAL_CALLER, { limit: 10 })).toHaveLength(1)
    await server.ended(id)
  })
})

describe('a preview', () => {
  it('says what a config becomes, how large it is, and how long from what was measured', async () => {
    const ask = async (config: unknown) => (await (await server.post('/runs/preview', { config })).json()) as Preview
    const before = await ask(STAND_IN)
    expect(before).toMatchObject({
      problems: [],
      refusals: [],
      size: { steps: 6, rolloutsPerStep: 16, mostTokens: 6 * 16 * 32 },
    })
    expect(before.time).toBeNull()
    const { id } = await server.submit(STAND_IN)
    await server.ended(id)
    const after = await ask(STAND_IN)
    const { measurement, mostSeconds } = after.time as NonNullable<Preview['time']>
    expect(measurement).toMatchObject({ run: id, model: 'table', backend: 'cpu' })
    expect(mostSeconds).toBeCloseTo((6 * 16 * 32) / measurement.stepTokensPerSecond)
    expect(await ask('max_stepps = 1')).toMatchObject({ config: null, problems: [{ path: 'max_stepps' }] })
    expect((await ask({ ...STAND_IN, model: 'nowhere' })).refusals).toHaveLength(1)
    const { targets } = await server.get<{ targets: TargetView[] }>('/targets')
    expect(targets[0].measurements).toMatchObject([{ model: 'table', run: id }])
  })
})

describe('room', () => {
  it('is asked for before a submit', async () => {
    const { limits } = server.runs.runs.context
    limits.freeBytes = Number.MAX_SAFE_INTEGER
    const answer = await server.post('/runs', { config: STAND_IN })
    expect(answer.status).toBe(507)
    expect(((await answer.json()) as { error: string }).error).toMatch(/disk has \d+ MB left.*delete old ones/)
    limits.freeBytes = 0
    limits.projectBytes = 1
    const { id } = await server.submit(STAND_IN)
    await server.ended(id)
    expect((await server.post('/runs', { config: STAND_IN })).status).toBe(507)
  })

  it('is made by deleting the oldest ended runs, but for those that are to be kept', async () => {
    const { runs } = server.runs
    const { limits, store } = runs.context
    const ids: string[] = []
    for (const labels of [['keep'], [], []]) {
      const { id } = await server.submit({ ...STAND_IN, max_steps: 1 }, { labels })
      await server.ended(id)
      ids.push(id)
    }
    const bytes = (await server.details(ids[2])).bytes
    limits.keepBytes = Math.ceil(bytes * 2.5)
    expect(await tidy(runs)).toEqual([ids[1]])
    limits.keepBytes = null
    limits.keepDays = 30
    expect(await tidy(runs)).toEqual([])
    await store.db
      .updateTable('run')
      .set({ ended_at: Date.now() - 31 * 24 * 3600 * 1000 })
      .execute()
    expect(await tidy(runs)).toEqual([ids[2]])
    expect((await server.details(ids[0])).state).toBe('succeeded')
  })

  it('that runs out under a run stops the storing, and nothing is lost when there is some again', async () => {
    await server.pace(20)
    const { id } = await server.submit({ ...STAND_IN, max_steps: 15 })
    await server.until(id, ({ step }) => step >= 2)
    // A file system that says it is full: the event file is a device that always is.
    const file = join(server.data, 'runs', id, 'events.jsonl')
    await rename(file, `${file}.aside`)
    const { symlink, unlink } = await import('node:fs/promises')
    await symlink('/dev/full', file)
    await server.until(id, ({ reason }) => /no room left on the server's disk/.test(reason ?? ''))
    await unlink(file)
    await rename(`${file}.aside`, file)
    expect(await server.ended(id)).toMatchObject({ state: 'succeeded', step: 15, attempt: 1 })
    const events = runEvents(await server.follow(id))
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1))
    expect(events.filter(({ kind }) => kind === 'step')).toHaveLength(15)
  })
})

describe('a log', () => {
  it('is read by byte offset, whole', async () => {
    const { id } = await server.submit(STAND_IN)
    await server.ended(id)
    const whole = await (await server.fetch(`/runs/${id}/logs/out`)).text()
    expect(whole).toContain('environment {')
    let text = ''
    for (let offset = 0; ; ) {
      const answer = await server.fetch(`/runs/${id}/logs/out?offset=${offset}&limit=50`)
      text += await answer.text()
      offset = Number(answer.headers.get('x-next-offset'))
      if (answer.headers.get('x-end') === 'true') break
    }
    expect(text).toBe(whole)
    expect((await server.fetch(`/runs/${id}/logs/..%2f..%2fjob.json`)).status).toBe(404)
    expect((await server.fetch(`/runs/${id}/logs/out?attempt=9`)).status).toBe(404)
  })
})

const TRAVERSALS = [
  ...['..', '../..', '../../rollout-lab.db', '....//', '%2e%2e', '%2e%2e%2f', '..%2f..%2frollout-lab.db', '..%5c..%5c'],
  ...[
    '%252e%252e%252f',
    '..%c0%af',
    '..%ef%bc%8f',
    '%00',
    'a%00b',
    '/etc/passwd',
    '%2fetc%2fpasswd',
    'file:%2f%2f%2fetc',
  ],
  ...['C:%5cWindows', '..;/', '.%2e/', '%2e./', '~root', '%7e', '..%u2216', '.%00./', 'adapter_model.safetensors'],
]

describe('ids', () => {
  it('that are none lead nowhere', async () => {
    for (const path of TRAVERSALS) {
      const answer = await server.fetch(`/runs/${path}`)
      expect(answer.status, path).toBeGreaterThanOrEqual(400)
      expect(await answer.text(), path).not.toContain('root:')
    }
  })
})
