import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import * as comlink from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter'
import { build } from 'vite'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { EnvironmentPort } from '../../workers/protocol.ts'
import { EnvironmentGuard, type EnvironmentLink } from '../../workers/trainer/environmentGuard.ts'
import { says } from './games.ts'

const folder = mkdtempSync(join(tmpdir(), 'environment-worker-'))
const lost: string[] = []
let workers = 0
let guard: EnvironmentGuard

beforeAll(async () => {
  await build({
    configFile: false,
    logLevel: 'silent',
    ssr: { noExternal: true },
    build: {
      ssr: fileURLToPath(new URL('guarded.worker.ts', import.meta.url)),
      outDir: folder,
      rolldownOptions: { output: { entryFileNames: 'worker.mjs' } },
    },
  })
}, 60_000)

afterEach(() => guard.close())
afterAll(() => rmSync(folder, { recursive: true }))

async function connect(): Promise<EnvironmentLink> {
  workers++
  const worker = new Worker(join(folder, 'worker.mjs'))
  return {
    port: comlink.wrap<EnvironmentPort>(nodeEndpoint(worker)) as unknown as EnvironmentPort,
    close: () => void worker.terminate(),
    gone: new Promise((resolve) => worker.once('exit', (code) => resolve(`The thread ended with code ${code}.`))),
  }
}

/** A guarded worker with one open rollout per handle. */
async function started(...handles: string[]) {
  lost.length = 0
  workers = 0
  guard = new EnvironmentGuard(connect, (sentence) => lost.push(sentence))
  await guard.open({ environments: [{ id: 'wild', name: 'wild', args: {}, ratio: 1 }], seed: 0 })
  await guard.setup(
    handles.map((handle) => ({ handle, split: 'train' as const, position: 0 })),
    5000,
  )
}

const say = (content: string, ...handles: string[]) =>
  guard.respond(
    handles.map((handle) => ({ handle, message: says(content), truncated: false })),
    300,
  )

test('a worker in good health is heard as if it were here', async () => {
  await started('a')
  expect((await guard.draw('train', [0], 5000))[0].answer).toBe('ok')
  expect(await say('hm', 'a')).toEqual([
    { handle: 'a', done: false, stop: null, messages: [{ role: 'user', content: 'And?' }], error: null },
  ])
  await say('ok', 'a')
  expect((await guard.score([{ handles: ['a'] }], 5000))[0][0]).toMatchObject({ reward: 1, error: null })
  expect([workers, lost]).toEqual([1, []])
})

test('a worker that never yields is ended; its open rollouts are errored and the next ones go on', async () => {
  await started('a', 'b')
  const sentence = "The environment's worker did not answer within 300 ms and was restarted."
  expect(await say('spin', 'a')).toEqual([
    { handle: 'a', done: true, stop: 'has_error', messages: [], error: sentence },
  ])
  expect((await say('hm', 'b'))[0]).toMatchObject({ done: true, error: sentence })
  expect(await guard.setup([{ handle: 'c', split: 'train', position: 0 }], 5000)).toMatchObject([{ error: null }])
  expect((await say('ok', 'b', 'c')).map(({ error }) => error)).toEqual([sentence, null])
  const [group] = await guard.score([{ handles: ['a', 'b', 'c'] }], 5000)
  expect(group.map(({ reward, error }) => [reward, error])).toEqual([
    [null, sentence],
    [null, sentence],
    [1, null],
  ])
  expect([workers, lost]).toEqual([2, [sentence]])
})

test('a worker that dies is replaced, with a sentence for each rollout that it held', async () => {
  await started('a', 'b')
  const [a] = await say('die', 'a')
  expect(a).toMatchObject({ done: true, stop: 'has_error', error: 'The thread ended with code 3.' })
  expect((await guard.draw('train', [0], 5000))[0].answer).toBe('ok')
  expect((await guard.score([{ handles: ['b'] }], 5000))[0][0]).toMatchObject({ reward: null, error: a.error })
  expect([workers, lost.length]).toEqual([2, 1])
})

test('a reward that never yields makes its group errored, and those scores are not awaited for ever', async () => {
  await started('a', 'b')
  await say('spin in the score', 'a')
  const [group] = await guard.score([{ handles: ['a', 'b'] }], 300)
  for (const { reward, error } of group) {
    expect(reward).toBeNull()
    expect(error).toContain('did not answer within 300 ms')
  }
  expect(await guard.setup([{ handle: 'a', split: 'train', position: 0 }], 5000)).toMatchObject([{ error: null }])
})

test('drawing outlives the death of the worker that was asked', async () => {
  await started('a')
  const [dying, drawn] = await Promise.all([say('die', 'a'), guard.draw('train', [0], 5000)])
  expect(dying[0].error).toContain('code 3')
  expect(drawn[0].answer).toBe('ok')
})

test('a guard that is closed ends its worker and says no more', async () => {
  await started('a')
  guard.close()
  await new Promise((resolve) => setTimeout(resolve, 50))
  expect(lost).toEqual([])
})
