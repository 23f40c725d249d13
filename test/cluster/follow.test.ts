// Following run folders as prime-rl fills them: many at once, torn lines, logs that begin anew, episodes of every shape.

import { appendFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Followed, follow } from '../../server/engines/primeRl/follow.ts'
import { RunLayout } from '../../server/engines/primeRl/layout.ts'
import { exitSaid, filesOf, readAcross } from '../../server/engines/primeRl/logs.ts'
import { groupsOf, readGroups } from '../../server/engines/primeRl/traces.ts'
import type { GivenEvent } from '../../server/store/events/eventFile.ts'
import { fullSizeConfig } from './support/config.ts'
import { stepsOf } from './support/followRun.ts'

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'follow-'))
})
afterEach(() => rm(root, { recursive: true, force: true }))

async function put(path: string, text: string) {
  await mkdir(dirname(path), { recursive: true })
  await appendFile(path, text)
}

const config = fullSizeConfig()
const followed = (run: string, changes: Partial<Followed> = {}): Followed => ({
  ...{ run, attempt: 1, config, layout: new RunLayout(root, run), source: 'slurm', fromStep: 0 },
  ...{ metricsFrom: 0, logsFrom: 0, begun: true, over: false, ...changes },
})

function episode(task: number, i: number, changes: Record<string, unknown> = {}) {
  const nodes = [
    { parent: null, message: { role: 'system', content: 'Reverse.' }, sampled: false, token_ids: [1, 2] },
    {
      parent: 0,
      message: { role: 'user', content: [{ type: 'text', text: 'abc' }, { type: 'image_url' }] },
      token_ids: [3],
    },
    {
      parent: 1,
      message: { role: 'assistant', content: 'cba', reasoning_content: 'hm' },
      sampled: true,
      token_ids: [4],
      advantages: [0.25],
    },
  ]
  const trace = {
    ...{
      id: `${task}-${i}`,
      task: { type: 'T', data: { idx: task, answer: 'cba' } },
      nodes,
      calls: [{ finish_reason: 'length' }],
    },
    ...{
      rewards: { a: { score: 1, weight: 0.5 }, b: { score: 0.5, weight: 1 }, skipped: null },
      metrics: { turns: 1, none: null },
    },
    ...{ ok: true, is_completed: true, stop_condition: 'max_turns', errors: [], ...changes },
  }
  return {
    env: { id: 'primeintellect/reverse-text' },
    group: { id: `g${task}` },
    ok: true,
    errors: [],
    traces: [trace],
  }
}

describe('episodes', () => {
  test('become groups of rollouts with messages, rewards and advantages', () => {
    const [group] = groupsOf([episode(3, 0), episode(3, 1)])
    expect(group).toMatchObject({
      exampleId: 3,
      environment: 'primeintellect/reverse-text',
      answer: 'cba',
      reason: null,
    })
    expect(group.prompt).toEqual([
      { role: 'system', content: 'Reverse.' },
      { role: 'user', content: 'abc[image_url]' },
    ])
    expect(group.rollouts).toHaveLength(2)
    expect(group.rollouts[1]).toMatchObject({
      ...{
        attempt: 1,
        reward: 1,
        advantage: 0.25,
        metrics: { a: 1, b: 0.5, turns: 1 },
        stop: 'max_turns',
        error: null,
      },
      ...{ truncated: true, promptTokens: 3, messages: [{ role: 'assistant', content: '<think>\nhm\n</think>\ncba' }] },
    })
  })

  test('of verifiers itself: one with a tool, one that failed, one that never began', async () => {
    const groups = await readGroups(fileURLToPath(new URL('./support/episodes.jsonl', import.meta.url)), 8)
    expect(groups).toHaveLength(1)
    const [{ rollouts, ...group }] = groups
    expect(group).toMatchObject({
      ...{ environment: 'reverse-text', exampleId: 7, answer: 'cba' },
      prompt: [
        { role: 'system', content: 'Reverse.' },
        { role: 'user', content: 'abc' },
      ],
    })
    expect(rollouts).toMatchObject([
      {
        ...{
          reward: 0.75,
          advantage: 0.25,
          metrics: { lcs: 0.75, num_turns: 2 },
          stop: 'agent_completed',
          error: null,
        },
        ...{ truncated: false, promptTokens: 4 },
        messages: [
          { role: 'assistant', tool_calls: [{ id: 'c1', name: 'check', arguments: '{"x":1}' }] },
          { role: 'tool', content: 'right', tool_call_id: 'c1' },
          { role: 'assistant', content: 'done' },
        ],
      },
      { reward: null, error: 'ProviderError: the model was away', messages: [] },
      { reward: null, error: 'SandboxError: no sandbox', messages: [] },
    ])
  })

  test('that failed have no reward, and say why', () => {
    const errors = [{ type: 'Timeout', message: 'the sandbox was away' }]
    const [{ rollouts }] = groupsOf([episode(1, 0, { ok: false, errors })])
    expect(rollouts[0]).toMatchObject({ reward: null, error: 'Timeout: the sandbox was away' })
  })

  test('of any shape break nothing', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.dictionary(
            fc.constantFrom('traces', 'env', 'group', 'errors'),
            fc.json().map((text) => JSON.parse(text)),
          ),
        ),
        (all) => {
          expect(Array.isArray(groupsOf(all as never))).toBe(true)
        },
      ),
      { numRuns: 300 },
    )
    const loop = { traces: [{ nodes: [{ parent: 1 }, { parent: 0 }, { parent: 1, message: { role: 'x' } }] }] }
    expect(groupsOf([loop])[0].rollouts).toHaveLength(1)
  })

  test('of a step that came again are those of the newest batch', async () => {
    const path = join(root, 'traces.jsonl')
    const lines = [...Array(16)].map((_, i) => JSON.stringify(episode(Math.floor(i / 4), i)))
    await writeFile(path, `${lines.join('\n')}\n{"torn`)
    const groups = await readGroups(path, 8)
    expect(groups.map(({ exampleId }) => exampleId)).toEqual([2, 3])
    expect(await readGroups(join(root, 'nothing'), 8)).toEqual([])
  })
})

describe('logs', () => {
  test('are one stream over the parts that a restart begins', async () => {
    const layout = new RunLayout(root, 'r')
    for (const [k, text] of ['first\n', 'zweite\n', 'troisième\n'].entries())
      await put(join(layout.output, `logs/attempt_${k + 1}/trainer.log`), text)
    const files = await filesOf(layout, 1, 0, 'trainer')
    const whole = 'first\nzweite\ntroisième\n'
    for (const most of [1, 2, 5, 7, 100]) {
      let text = Buffer.alloc(0)
      for (;;) {
        const { bytes } = await readAcross(files, text.length, most)
        if (bytes.length === 0) break
        text = Buffer.concat([text, bytes])
      }
      expect(text.toString()).toBe(whole)
    }
    expect(await filesOf(layout, 2, 2, 'trainer')).toEqual([join(layout.output, 'logs/attempt_3/trainer.log')])
    expect(await filesOf(layout, 1, 0, '../../etc/passwd')).toEqual([])
  })

  test('say at once that a component has died', () => {
    expect(exitSaid('x\n2026 trainer exited with code 137 after 3 s\n')).toMatchObject({
      component: 'trainer',
      code: 137,
    })
    expect(exitSaid('router exited with code 0')).toBeNull()
    expect(exitSaid('nothing of the kind')).toBeNull()
  })
})

test('a hundred runs are followed at once, each exactly, in portions that tear their lines', async () => {
  const RUNS = 100
  const STEPS = 12
  const cursors = new Map<string, string | null>()
  const events = new Map<string, GivenEvent[]>()
  const files = new Map<string, string>()
  for (let r = 0; r < RUNS; r++) {
    const rows = [...Array(STEPS)].flatMap((_, i) => [
      { step: i + 1, time: i + 1, 'train/agg/all/agent/reward/mean': r / 100 },
      { step: i + 1, time: i + 1, 'optim/lr': 1e-4, 'loss/mean': -i },
    ])
    files.set(`run${r}`, rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
    cursors.set(`run${r}`, null)
    events.set(`run${r}`, [])
  }
  const turn = async (over: boolean) => {
    await Promise.all(
      [...files.keys()].map(async (run) => {
        for (;;) {
          const read = await follow(followed(run, { over }), cursors.get(run)!)
          cursors.set(run, read.cursor)
          events.get(run)!.push(...read.events)
          if (read.events.length === 0) return
        }
      }),
    )
  }
  for (let part = 0; part < 8; part++) {
    for (const [run, text] of files) {
      const size = Math.ceil(text.length / 8)
      await put(join(root, run, 'output/metrics.jsonl'), text.slice(part * size, (part + 1) * size))
    }
    await turn(part === 7)
  }
  await turn(true)
  for (const [run, told] of events) {
    expect(stepsOf(told), run).toEqual([...Array(STEPS)].map((_, i) => i + 1))
    expect(told.filter(({ kind }) => kind === 'started')).toHaveLength(1)
    const last = told.findLast((event) => event.kind === 'step')
    expect(last?.kind === 'step' && last.metrics).toMatchObject({
      'reward/mean': Number(run.slice(3)) / 100,
      'loss/mean': -11,
    })
  }
}, 60_000)

test('a cursor from before a crash tells the same events again, and nothing else', async () => {
  const layout = new RunLayout(root, 'r')
  const rows = [1, 2, 3].flatMap((step) => [
    { step, time: 1, 'a/b': step },
    { step, time: 1, 'optim/lr': step },
  ])
  await put(layout.metrics, rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
  await put(layout.rollouts(2, 'train', 'effective'), `${JSON.stringify(episode(1, 0))}\n`)
  const once = await follow(followed('r'), null)
  const again = await follow(followed('r'), null)
  const bare = (events: GivenEvent[]) => events.map(({ time: _, ...event }) => event)
  expect(bare(again.events)).toEqual(bare(once.events))
  expect(again.cursor).toBe(once.cursor)
  // Rollouts are told two steps at a time; what is left follows from the cursor alone.
  const rest = await follow(followed('r'), once.cursor)
  expect((await follow(followed('r'), rest.cursor)).events).toEqual([])
})

test('earlier attempts are left out: their metrics and logs', async () => {
  const layout = new RunLayout(root, 'r')
  await put(
    layout.metrics,
    `${JSON.stringify({ step: 1, time: 1, x: 1 })}\n${JSON.stringify({ step: 1, time: 1, 'optim/lr': 1 })}\n`,
  )
  const metricsFrom = (await readFile(layout.metrics)).length
  await put(
    layout.metrics,
    `${JSON.stringify({ step: 2, time: 1, x: 1 })}\n${JSON.stringify({ step: 2, time: 1, 'optim/lr': 1 })}\n`,
  )
  const { events } = await follow(followed('r', { attempt: 2, metricsFrom, fromStep: 1 }), null)
  expect(stepsOf(events)).toEqual([2])
})
