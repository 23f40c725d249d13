// A run whose program prints, logs and answers with what it was given in secret: what a server tells of it.

import { expect } from 'vitest'
import { runEvents, type TestServer } from '../../server/runs/server.ts'

export const CANARY = 'canary-4f1c-in-the-log'

/** Sets for a server of tests. */
export const canarySets = () => async (_project: string, sets: string[]) =>
  sets.length > 0 ? { CANARY } : ({} as Record<string, string>)

/** Ends when the run has ended; the whole folder of its files is `everything`, in which the value stands. */
export async function expectNotTold(server: TestServer, id: string, everything: () => Promise<string>): Promise<void> {
  const run = await server.ended(id)
  expect(await everything()).toContain(CANARY)
  const logs = await Promise.all(
    ['job', 'trainer'].map(async (stream) => (await server.fetch(`/runs/${id}/logs/${stream}`)).text()),
  )
  for (const log of logs) expect(log).toContain(`telling ${'*'.repeat(CANARY.length)}\n`)
  const events = runEvents(await server.follow(id, { query: '?samples=true' }))
  expect(JSON.stringify(events)).toContain('answer 0 [secret]')
  const { groups } = await server.get<{ groups: unknown[] }>(`/runs/${id}/rollouts?step=1`)
  expect(JSON.stringify([run, logs, events, groups])).not.toContain(CANARY)
}
