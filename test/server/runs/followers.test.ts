import { afterEach, describe, expect, it } from 'vitest'
import { STAND_IN } from '../engines/standInProgram.ts'
import { ScriptedEngine } from './scriptedEngine.ts'
import { messagesOf, runEvents, TestServer } from './server.ts'

let server: TestServer
afterEach(() => server.remove())

const RUNS = 100

describe('a hundred runs followed at once', () => {
  it('reach each follower whole, in order, while the server answers others', async () => {
    const engine = new ScriptedEngine({ events: 200, batch: 10, everyMs: 50 })
    server = await TestServer.open(null, { local: null, engines: async () => [engine] })
    const runs = await Promise.all(
      Array.from({ length: RUNS }, (_, i) => server.submit({ ...STAND_IN, seed: i + 1 }, { target: 'scripted' })),
    )
    const following = runs.map(({ id }) => server.follow(id))
    const asking = Array.from({ length: 20 }, () => server.get('/runs?limit=200'))
    await Promise.all(asking)
    for (const [i, messages] of (await Promise.all(following)).entries()) {
      const events = runEvents(messages)
      expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: events.length }, (_, n) => n + 1))
      expect(events.filter(({ kind }) => kind === 'step')).toHaveLength(20)
      expect(new Set(events.map(({ run }) => run))).toEqual(new Set([runs[i].id]))
      expect(messages.at(-1)?.event).toBe('end')
    }
  })

  it('cost no memory where a follower does not read', async () => {
    const engine = new ScriptedEngine({ events: 20_000, batch: 5_000, everyMs: 20 })
    server = await TestServer.open(null, { local: null, engines: async () => [engine] })
    const { id } = await server.submit(STAND_IN, { target: 'scripted' })
    await server.ended(id)
    const stalled = await Promise.all(Array.from({ length: 10 }, () => server.fetch(`/runs/${id}/events`)))
    await new Promise((resolve) => setTimeout(resolve, 200))
    // With the run gone, what comes now is what was held for them: a part of the file, not all of it.
    expect((await server.fetch(`/runs/${id}`, { method: 'DELETE' })).status).toBe(204)
    for (const { body } of stalled) {
      let events = 0
      for await (const { event } of messagesOf(body as ReadableStream<Uint8Array>)) if (event === 'run') events++
      expect(events).toBeLessThan(5_000)
    }
  })
})
