import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { build } from '../../../bin/prepare.mjs'
import { ROOT } from '../../../build/paths.ts'
import { train } from '../../../cli/train.ts'
import type { RolloutsPage } from '../../../server/runs/views.ts'
import type { RolloutRecord, RunEvent } from '../../../workers/protocol.ts'
import { fromRolloutLines } from '../../../workers/storage/rolloutLines.ts'
import { runEvents, TestServer } from './server.ts'

const FILE = join(ROOT, 'configs/rl/reverse-text-nano.toml')
const SET = [
  ...['max_steps=3', 'batch_size=16', 'rollouts_per_example=4', 'scheduler.warmup_steps=0'],
  ...['eval.interval=2', 'eval.num_examples=4', 'browser.backend="wasm"'],
]

let folder: string
let server: TestServer
beforeAll(async () => {
  await build(['node'])
  folder = await mkdtemp(join(tmpdir(), 'rollout-lab-tokens-'))
  server = await TestServer.open(null)
}, 120_000)
afterAll(async () => {
  await server.remove()
  await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
})

/** Every token of a rollout with the log-probabilities of sampling and of learning. */
function spelled({ attempt, reward, advantage, tokens }: RolloutRecord): string {
  const each = tokens?.text.map((text, i) => `${text} ${tokens.sampled[i]} ${tokens.logMu[i]} ${tokens.logp?.[i]}`)
  return `${attempt} ${reward} ${advantage}: ${each?.join(' ')}`
}

describe('reverse-text on lab-nano, on this server', () => {
  it('draws the same tokens and tells the same kinds of events and metrics as in Node without the server', async () => {
    const out = join(folder, 'here')
    expect(await train({ root: ROOT, file: FILE, set: SET, out, write: () => {} })).toBe(0)
    const { id } = await server.submit(await readFile(FILE, 'utf8'), { set: SET })
    const there = runEvents(await server.follow(id))
    expect(await server.ended(id)).toMatchObject({ state: 'succeeded', step: 3 })

    const here = (await readFile(join(out, 'events.jsonl'), 'utf8'))
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as RunEvent)
    const kept = there.filter(({ kind }) => !['phase', 'progress', 'memory', 'saved'].includes(kind))
    expect(kept.map(({ kind }) => kind)).toEqual(here.map(({ kind }) => kind))
    const keys = (events: RunEvent[]) =>
      events.filter((event) => 'metrics' in event).map((event) => Object.keys((event as { metrics: object }).metrics))
    expect(keys(kept)).toEqual(keys(here))

    for (const split of ['train', 'eval'] as const) {
      const { steps } = await server.get<{ steps: number[] }>(`/runs/${id}/rollouts?split=${split}`)
      for (const step of steps) {
        const { groups } = await server.get<RolloutsPage>(`/runs/${id}/rollouts?step=${step}&split=${split}&limit=64`)
        const lines = await readFile(join(out, 'rollouts', `step_${step}`, split, 'rollouts.jsonl'), 'utf8')
        const said = groups.flatMap(({ rollouts }) => rollouts.map(spelled))
        expect(said.length).toBeGreaterThan(0)
        expect(said).toEqual(fromRolloutLines(lines).flatMap(({ rollouts }) => rollouts.map(spelled)))
      }
      if (split === 'train') expect(steps).toEqual([1, 2, 3])
    }
    const adapter = async (path: string) =>
      (await readFile(join(path, 'adapter/adapter_model.safetensors'))).toString('base64')
    expect(await adapter(join(server.data, 'local/runs', id))).toBe(await adapter(out))
    expect(await readdir(join(server.data, 'runs', id))).toEqual(['events.jsonl', 'samples.jsonl'])
  }, 120_000)

  it('shows how fast it is before a run', async () => {
    const jobs = await readdir(join(server.data, 'local/jobs'))
    const answer = await server.post('/targets/local/measure', { model: 'lab-nano' })
    expect(answer.status).toBe(200)
    const { measurement } = (await answer.json()) as { measurement: Record<string, unknown> }
    expect(measurement).toMatchObject({ model: 'lab-nano', run: null, tokensPerSecond: expect.any(Number) })
    expect(measurement.tokensPerSecond as number).toBeGreaterThan(0)
    expect(await readdir(join(server.data, 'local/jobs'))).toEqual(jobs)
    expect((await server.post('/targets/local/measure', { model: '/etc' })).status).toBe(422)
  }, 120_000)
})
