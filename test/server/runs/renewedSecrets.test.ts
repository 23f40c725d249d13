// A batch system may begin a job anew by itself. What was handed to it for its first beginning is gone by then.

import { afterEach, expect, test } from 'vitest'
import type { Job } from '../../../server/engines/engine.ts'
import { STAND_IN } from '../engines/standInProgram.ts'
import { ScriptedEngine } from './scriptedEngine.ts'
import { TestServer } from './server.ts'

/** Begins each job twice. */
class Requeueing extends ScriptedEngine {
  renewed: Record<string, string>[] = []

  override async get(engineId: string): Promise<Job | null> {
    const job = await super.get(engineId)
    return job && { ...job, wantsSecrets: this.renewed.length === 0 }
  }

  async renewSecrets(_engineId: string, secrets: Record<string, string>): Promise<void> {
    this.renewed.push(secrets)
  }
}

let server: TestServer
afterEach(() => server.remove())

test('a job that is begun anew is given its secrets again, once', async () => {
  const engine = new Requeueing({ events: 20, batch: 5, everyMs: 20 })
  const secrets = () => async () => ({ TOKEN: 'letters' })
  server = await TestServer.open(null, { local: null, engines: async () => [engine], secrets })
  const { id } = await server.submit(STAND_IN, { target: 'scripted' })
  expect((await server.ended(id)).state).toBe('succeeded')
  expect(engine.renewed).toEqual([{ TOKEN: 'letters' }])
})
