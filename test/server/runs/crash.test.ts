import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { RunView } from '../../../server/runs/views.ts'
import { openStore } from '../../../server/store/open.ts'
import { buildPrograms, type Programs, STAND_IN } from '../engines/standInProgram.ts'
import { startPostgres } from '../store/databases.ts'
import { expectWhole, KillableServer, type Shown } from './crash.ts'

/** `npm run test:crash` asks for a hundred. */
const RANDOM_RUNS = Number(process.env.CRASH_RUNS ?? 6)

/** Between any two writes of a submit, of a batch of events, of an end. */
const POINTS = [
  ...['submit:before-rows', 'submit:after-rows', 'submit:before-engine', 'local:before-job', 'local:after-job'],
  ...['local:before-spawn', 'local:after-spawn', 'submit:before-recording', 'submit:after-recording'],
  ...['events:before-batch', 'events:before-samples#2', 'events:before-append#2', 'events:before-index'],
  ...['events:before-index#3', 'events:after-index#2', 'events:after-batch#2'],
  ...['artifact:before-put', 'artifact:before-row', 'artifact:before-row#2', 'end:before-rows', 'end:after-rows'],
]

const postgres = await startPostgres()
let programs: Programs
beforeAll(async () => {
  programs = await buildPrograms()
}, 120_000)
afterAll(async () => {
  await programs.remove()
  await postgres?.stop()
})

let server: KillableServer
afterEach(() => server.remove())

const STEPS = 4
const config = { ...STAND_IN, max_steps: STEPS, checkpointing: { save_every_n_steps: 2 } }

describe.each([null, postgres].map((database) => ({ database, name: database?.name ?? 'sqlite' })))(
  'a server that is killed, its rows in $name',
  ({ database, name }) => {
    // The rows' writes differ between databases; those of the files do not.
    const points = name === 'sqlite' ? POINTS : POINTS.filter((point) => /rows|recording|index/.test(point))

    it.skipIf(name === 'sqlite' && database).each(points)('at %s, goes on as if it had not been', async (point) => {
      server = await KillableServer.create(programs, database?.url() ?? null)
      await server.start(point)
      const shown: Shown = { lines: [] }
      const body = { config }
      let run = await server.post<RunView>('/runs', body, 'key')
      if (run) await server.follow(run.id, shown)
      await server.gone
      await server.start()
      // Whoever got no answer asks again with the same key.
      run = await server.post<RunView>('/runs', body, 'key')
      expect(run).not.toBeNull()
      const { id } = run as RunView
      expect((await server.processes()).length).toBeLessThanOrEqual(1)
      expect(await server.follow(id, shown)).toBe(true)
      const ended = await server.ended(id)
      await expectWhole(server, ended, STEPS, shown)
      expect(await server.list()).toHaveLength(1)
      expect(ended.attempts).toHaveLength(1)
    })
  },
)

describe('a server that is killed', () => {
  it('between events and what the rows say of them, brings the rows in step', async () => {
    server = await KillableServer.create(programs)
    await server.start('end:before-rows')
    const run = (await server.post<RunView>('/runs', { config })) as RunView
    await server.gone
    const store = await openStore({ folder: server.data })
    await store.db.updateTable('run').set({ step: 0 }).execute()
    await store.db.updateTable('attempt').set({ from_step: null }).execute()
    await store.close()
    await server.start()
    expect(await server.ended(run.id)).toMatchObject({ state: 'succeeded', step: STEPS, attempts: [{ fromStep: 0 }] })
  })

  it('over a cancel, cancels', async () => {
    server = await KillableServer.create(programs)
    await server.start('cancel:after-row')
    await server.pace(30)
    const run = (await server.post<RunView>('/runs', { config: { ...config, max_steps: 500 } })) as RunView
    const shown: Shown = { lines: [] }
    const following = server.follow(run.id, shown)
    while (shown.lines.length < 20) await new Promise((resolve) => setTimeout(resolve, 20))
    expect(await server.post(`/runs/${run.id}/cancel`, {})).toBeNull()
    await following
    await server.start()
    expect(await server.follow(run.id, shown)).toBe(true)
    expect(await server.ended(run.id)).toMatchObject({ state: 'cancelled' })
    expect(shown.lines.map(({ id }) => id)).toEqual(shown.lines.map((_, i) => i + 1))
  })

  it.each(['delete:after-mark', 'delete:before-rows'])(
    'at %s, has deleted all of it after the restart',
    async (point) => {
      server = await KillableServer.create(programs)
      await server.start(point)
      const run = (await server.post<RunView>('/runs', { config })) as RunView
      await server.ended(run.id)
      expect(await server.fetch(`/runs/${run.id}`, { method: 'DELETE' })).toBeNull()
      await server.gone
      await server.start()
      expect(await server.list()).toEqual([])
      const { execFileSync } = await import('node:child_process')
      expect(execFileSync('find', [server.data, '-name', `*${run.id}*`], { encoding: 'utf8' })).toBe('')
    },
  )

  it(`at random moments, with its runs' processes now and then, loses none of ${RANDOM_RUNS} runs`, async () => {
    server = await KillableServer.create(programs, null, 2)
    await server.start()
    await server.pace(100)
    const steps = 8
    const random = generator(20_261_121)
    const runs: { id: string; shown: Shown; done: boolean }[] = []
    for (let i = 0; i < RANDOM_RUNS; i++) {
      const body = { config: { ...config, max_steps: steps, seed: i + 1 } }
      const { id } = (await server.post<RunView>('/runs', body, `run-${i}`)) as RunView
      runs.push({ id, shown: { lines: [] }, done: false })
    }
    let kills = 0
    while (runs.some(({ done }) => !done)) {
      const following = runs
        .filter(({ done }) => !done)
        .slice(0, 8)
        .map(async (run) => {
          run.done = await server.follow(run.id, run.shown)
        })
      const over = Promise.all(following)
      await Promise.race([over, new Promise((resolve) => setTimeout(resolve, 300 + random() * 1500))])
      if (random() < 0.3) {
        const processes = await server.processes()
        const chosen = processes[Math.floor(random() * processes.length)]
        if (chosen) process.kill(chosen.pid, 'SIGKILL')
      }
      await server.kill()
      kills++
      await over
      await server.start()
    }
    for (const { id, shown } of runs) await expectWhole(server, await server.ended(id), steps, shown)
    expect(await server.list()).toHaveLength(RANDOM_RUNS)
    process.stdout.write(`${RANDOM_RUNS} runs, the server killed ${kills} times\n`)
  }, 1_800_000)
})

/** Numbers from 0 to 1, the same each time. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
