import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ROOT } from '../../../build/paths.ts'
import { isFinal, type Job } from '../../../server/engines/engine.ts'
import { LocalEngine, type LocalOptions } from '../../../server/engines/local/engine.ts'
import type { GivenEvent } from '../../../server/store/events/eventFile.ts'
import { newId } from '../../../server/store/ids.ts'
import { buildPrograms, type Programs, standInConfig } from './standInProgram.ts'

let programs: Programs
beforeAll(async () => {
  programs = await buildPrograms()
}, 120_000)
afterAll(() => programs.remove())

let folder: string
let engines: LocalEngine[]
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollout-lab-local-'))
  engines = []
})
afterEach(async () => {
  for (const engine of engines) await engine.close()
  await rm(folder, { recursive: true, force: true })
})

async function open(more: Partial<LocalOptions> = {}): Promise<LocalEngine> {
  const options = { root: ROOT, folder, maxRuns: 1, loopback: true, models: ['table'], trainer: programs.trainer }
  const engine = await new LocalEngine({ ...options, ...more }).open()
  engines.push(engine)
  return engine
}

async function submit(
  engine: LocalEngine,
  more: { config?: Record<string, unknown>; run?: string; secrets?: Record<string, string> } = {},
) {
  const key = newId()
  const { run = key, secrets = {}, config } = more
  await engine.submit(
    { run, attempt: 1, name: 'a run', project: 'default', config: standInConfig(config), secrets },
    key,
  )
  return key
}

async function until(engine: LocalEngine, id: string, found: (job: Job) => boolean): Promise<Job> {
  for (;;) {
    const job = await engine.get(id)
    if (job && found(job)) return job
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

const ended = (engine: LocalEngine, id: string) => until(engine, id, ({ state }) => isFinal(state))

async function eventsOf(engine: LocalEngine, id: string): Promise<GivenEvent[]> {
  const events: GivenEvent[] = []
  for (let cursor: string | null = null; ; ) {
    const read: Awaited<ReturnType<LocalEngine['readEvents']>> = await engine.readEvents(id, cursor)
    events.push(...read.events)
    if (read.events.length === 0 && read.cursor === cursor) return events
    cursor = read.cursor
  }
}

const stepsOf = (events: GivenEvent[]) =>
  events.filter(({ kind }) => kind === 'step').map((event) => (event as { step: number }).step)
const pidOf = (job: Job) => (job.raw as { process: { pid: number } }).process.pid
/** Milliseconds that each step takes at least. */
const pace = (milliseconds: number | string) => writeFile(join(folder, 'runs', 'pace'), String(milliseconds))

describe('this machine as an engine', () => {
  it('runs a job in a process of its own, from its first event to its last', async () => {
    const engine = await open()
    const id = await submit(engine)
    expect(await ended(engine, id)).toMatchObject({ state: 'succeeded', exitCode: 0, reason: null })
    const events = await eventsOf(engine, id)
    expect(stepsOf(events)).toEqual([1, 2, 3, 4, 5, 6])
    expect(events.at(-1)).toMatchObject({ kind: 'state', state: 'finished' })
    expect((await engine.files(id)).map(({ kind, name }) => `${kind} ${name}`)).toContain(
      'adapter adapter_model.safetensors',
    )
    expect((await engine.get(id))?.nodes).toEqual(['this server'])
  })

  it('takes one job at a time, first in, first out, and says how many are before one', async () => {
    const engine = await open()
    await pace(30)
    const ids = [await submit(engine), await submit(engine), await submit(engine)]
    await until(engine, ids[0], ({ state }) => state === 'running')
    expect(await engine.get(ids[1])).toMatchObject({ state: 'queued', queuePosition: 0 })
    expect(await engine.get(ids[2])).toMatchObject({
      state: 'queued',
      queuePosition: 1,
      reason: '1 other run is before it.',
    })
    const jobs = await Promise.all(ids.map((id) => ended(engine, id)))
    for (const i of [1, 2]) expect(jobs[i].startedAt).toBeGreaterThanOrEqual(jobs[i - 1].endedAt as number)
    expect(await engine.card()).toMatchObject({ maxRuns: 1, running: 0, queued: 0 })
  })

  it('is handed the same job twice and does it once', async () => {
    const engine = await open()
    const key = newId()
    const spec = { run: key, attempt: 1, name: 'a run', project: 'default', config: standInConfig(), secrets: {} }
    await Promise.all([engine.submit(spec, key), engine.submit(spec, key)])
    await ended(engine, key)
    await engine.submit(spec, key)
    expect(await engine.list()).toHaveLength(1)
    expect(stepsOf(await eventsOf(engine, key))).toEqual([1, 2, 3, 4, 5, 6])
  })

  it('cancels one that waits, one that runs after a save, and one at once', async () => {
    const engine = await open()
    await pace(50)
    const ids = [await submit(engine, { config: { max_steps: 200, learning_rate: 1e-6 } }), await submit(engine)]
    await until(engine, ids[0], ({ state }) => state === 'running')
    await engine.cancel(ids[1], 'graceful')
    expect(await engine.get(ids[1])).toMatchObject({ state: 'cancelled', reason: 'Cancelled before it began.' })
    while (stepsOf(await eventsOf(engine, ids[0])).length < 2) await new Promise((resolve) => setTimeout(resolve, 20))
    await engine.cancel(ids[0], 'graceful')
    expect(await ended(engine, ids[0])).toMatchObject({ state: 'cancelled', reason: 'Cancelled; the run is saved.' })
    expect((await eventsOf(engine, ids[0])).at(-1)).toMatchObject({ kind: 'state', state: 'stopped' })

    const third = await submit(engine, { config: { max_steps: 200, learning_rate: 1e-6 } })
    await until(engine, third, ({ state }) => state === 'running')
    await engine.cancel(third, 'now')
    expect(await ended(engine, third)).toMatchObject({ state: 'cancelled', reason: 'Ended at once.' })
  })

  it('goes on from the newest save in another job of the same run', async () => {
    const engine = await open()
    await pace(40)
    const first = await submit(engine)
    while (stepsOf(await eventsOf(engine, first)).length < 2) await new Promise((resolve) => setTimeout(resolve, 20))
    await engine.cancel(first, 'graceful')
    await ended(engine, first)
    const done = stepsOf(await eventsOf(engine, first))
    const second = await submit(engine, { run: first })
    expect(await ended(engine, second)).toMatchObject({ state: 'succeeded' })
    expect([...done, ...stepsOf(await eventsOf(engine, second))]).toEqual([1, 2, 3, 4, 5, 6])
  })

  it('tells of a killed process, with all that its saves cover', async () => {
    const engine = await open()
    await pace(40)
    const id = await submit(engine, { config: { max_steps: 200, learning_rate: 1e-6 } })
    while (stepsOf(await eventsOf(engine, id)).length < 3) await new Promise((resolve) => setTimeout(resolve, 20))
    process.kill(pidOf((await engine.get(id)) as Job), 'SIGKILL')
    expect(await ended(engine, id)).toMatchObject({ state: 'node_lost' })
    const text = await readFile(join(folder, 'runs', id, 'events.jsonl'), 'utf8')
    const kept = text.slice(0, text.lastIndexOf('\n')).split('\n')
    const inFolder = kept
      .map((line) => JSON.parse(line))
      .filter(({ kind }) => kind === 'step')
      .map(({ step }) => step)
    expect(stepsOf(await eventsOf(engine, id)).slice(0, inFolder.length)).toEqual(inFolder)
  })

  it('hands over from the run folder what the process had no time to', async () => {
    const engine = await open()
    const id = await submit(engine)
    await ended(engine, id)
    const all = await eventsOf(engine, id)
    // As if it had been killed after its last save and before its last words.
    const spool = join(folder, 'jobs', id, 'spool', '000001.jsonl')
    const lines = (await readFile(spool, 'utf8')).split('\n')
    await writeFile(spool, `${lines.slice(0, lines.length / 2).join('\n')}\n{"torn`)
    await writeFile(
      join(folder, 'jobs', id, 'exit.json'),
      JSON.stringify({ state: 'node_lost', reason: 'killed', code: null, endedAt: 1 }),
    )
    const again = await eventsOf(engine, id)
    const kept = ({ kind }: GivenEvent) => !['phase', 'progress', 'memory', 'saved'].includes(kind)
    expect(again.filter(kept)).toEqual(all.filter(kept))
    expect(again.some((event) => event.kind === 'samples' && event.groups.length > 0)).toBe(true)
  })

  it('finds its jobs again after a restart, without disturbing them', async () => {
    const engine = await open({ stopOnClose: false })
    await pace(40)
    const id = await submit(engine)
    const waiting = await submit(engine)
    const before = await until(engine, id, ({ state }) => state === 'running')
    await engine.close()
    const later = await open()
    const after = (await later.get(id)) as Job
    expect(pidOf(after)).toBe(pidOf(before))
    expect(await ended(later, id)).toMatchObject({ state: 'succeeded' })
    expect(await ended(later, waiting)).toMatchObject({ state: 'succeeded' })
    expect(stepsOf(await eventsOf(later, id))).toEqual([1, 2, 3, 4, 5, 6])
  })

  it('lets its jobs save and end when it is closed', async () => {
    const engine = await open()
    await pace(40)
    const id = await submit(engine, { config: { max_steps: 200, learning_rate: 1e-6 } })
    while (stepsOf(await eventsOf(engine, id)).length < 1) await new Promise((resolve) => setTimeout(resolve, 20))
    await engine.close()
    expect(await engine.get(id)).toMatchObject({
      state: 'node_lost',
      reason: 'The server was shut down; the run is saved.',
    })
  })

  it('ends a run that takes too long, saved', async () => {
    const engine = await open({ maxSeconds: 1 })
    await pace(50)
    const id = await submit(engine, { config: { max_steps: 2000, learning_rate: 1e-6 } })
    expect(await ended(engine, id)).toMatchObject({
      state: 'timed_out',
      reason: expect.stringContaining('1 s that this server allows'),
    })
    expect((await eventsOf(engine, id)).at(-1)).toMatchObject({ kind: 'state', state: 'stopped' })
  })

  it('ends a run that takes too much memory', async () => {
    const engine = await open({ memoryBytes: 400 * 1024 * 1024 })
    await pace('memory')
    const id = await submit(engine, { config: { max_steps: 200, learning_rate: 1e-6 } })
    expect(await ended(engine, id)).toMatchObject({
      state: 'failed',
      reason: expect.stringMatching(/MB of memory.*local.memory_bytes/),
    })
  })

  it('ends runs that no server looks after any more', async () => {
    const engine = await open({ stopOnClose: false, orphanSeconds: 1 })
    await pace(50)
    const id = await submit(engine, { config: { max_steps: 2000, learning_rate: 1e-6 } })
    await until(engine, id, ({ state }) => state === 'running')
    await engine.close()
    expect(await ended(engine, id)).toMatchObject({
      state: 'node_lost',
      reason: expect.stringContaining('No server has been seen'),
    })
  })

  it('shows a process nothing of the server’s environment, and its secrets to it alone', async () => {
    process.env.ROLLOUT_LAB_CANARY = 'canary-in-the-server'
    const engine = await open()
    const id = await submit(engine, { secrets: { HUB_TOKEN: 'canary-in-a-set' } })
    await ended(engine, id)
    delete process.env.ROLLOUT_LAB_CANARY
    const job = join(folder, 'jobs', id)
    const log = Buffer.from((await engine.readLog(id, 'out', 0, 1e6)).bytes).toString()
    const environment = JSON.parse(/^environment (.*)$/m.exec(log)?.[1] ?? '{}')
    // It was there, and what the process printed of it was taken out before it was written down.
    expect(environment.HUB_TOKEN).toBe('[secret]')
    expect(environment).toMatchObject({ HOME: job, TMPDIR: job })
    expect(log).not.toContain('canary-in-the-server')
    expect(Object.keys(environment)).not.toContain('npm_config_registry')
    for (const name of await readdir(job)) {
      if (name === 'spool') continue
      expect(await readFile(join(job, name), 'utf8')).not.toContain('canary')
    }
    expect(await readdir(job)).not.toContain('secrets.env')
  })

  it('reads a log by byte offset', async () => {
    const engine = await open()
    const id = await submit(engine)
    await ended(engine, id)
    const whole = await engine.readLog(id, 'out', 0, 1e6)
    let text = ''
    for (let offset = 0, eof = false; !eof; ) {
      const part = await engine.readLog(id, 'out', offset, 100)
      text += Buffer.from(part.bytes).toString()
      ;({ nextOffset: offset, eof } = part)
    }
    expect(text).toBe(Buffer.from(whole.bytes).toString())
  })

  it('refuses models that it does not have, and code of others where others can reach it', async () => {
    const engine = await open()
    expect(engine.refusals(standInConfig({ model: '/etc' }))[0]).toMatch(
      /model = "\/etc": this server computes lab-nano, lab-tiny, table, any of the hub/,
    )
    for (const model of ['../../etc', 'file:/etc', 'dropped:x', 'a/../../b', '~/model', 'owner/.hidden'])
      expect(engine.refusals(standInConfig({ model })), model).toHaveLength(1)
    expect(engine.refusals(standInConfig({ model: 'somebody/something' }))).toEqual([])
    const reached = await open({ loopback: false, folder: join(folder, 'other') })
    const config = standInConfig()
    expect(reached.refusals(config)).toEqual([])
    expect(reached.refusals({ ...config, model: 'HuggingFaceTB/SmolLM2-135M-Instruct' })).toEqual([])
    expect(reached.refusals({ ...config, model: 'somebody/something' })).toHaveLength(1)
    const inside = { ...config, browser: { ...config.browser, hub: 'http://169.254.169.254/' } }
    expect(reached.refusals(inside)[0]).toMatch(/fetches models from its own hub alone/)
    expect(reached.refusals({ ...config, env: [{ ...config.env[0], id: 'somebody/else' }] })[0]).toMatch(
      /somebody\/else: a server that others can reach runs bundled environments only/,
    )
  })
})
