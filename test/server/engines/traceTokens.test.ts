// The tokens of a cluster's rollouts: the ids and log-probabilities that its traces hold, spelled by a tokenizer that lies
// where the server can read it; messages alone where one is missing.

import { appendFile, cp, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ROOT } from '../../../build/paths.ts'
import { type Followed, follow } from '../../../server/engines/primeRl/follow.ts'
import { RunLayout } from '../../../server/engines/primeRl/layout.ts'
import { groupsOf } from '../../../server/engines/primeRl/traces.ts'
import { withoutSecrets } from '../../../server/runs/redaction.ts'
import { redactor } from '../../../server/secrets/redact.ts'
import type { GivenEvent } from '../../../server/store/events/eventFile.ts'
import { fullSizeConfig } from '../../cluster/support/config.ts'

const spell = (ids: number[]) => ids.map((id) => `<${id}>`)

function node(parent: number | null, sampled: boolean, ids: number[], changes: Record<string, unknown> = {}) {
  return {
    ...{ parent, sampled, message: { role: sampled ? 'assistant' : 'user', content: 'said' }, token_ids: ids },
    ...{ mask: ids.map(() => sampled), logprobs: sampled ? ids.map((id) => -id / 10) : [], ...changes },
  }
}

const episode = (nodes: unknown[]) => ({ group: { id: 'g' }, traces: [{ task: { data: {} }, ok: true, nodes }] })
const rolloutOf = (nodes: unknown[]) => groupsOf([episode(nodes)], spell)[0].rollouts[0]

describe('the tokens of a trace', () => {
  it('are those after the prompt, with log μ where the policy sampled', () => {
    const { tokens, promptTokens } = rolloutOf([
      node(null, false, [1, 2]),
      node(0, true, [3, 4]),
      node(1, false, [5]),
      node(2, true, [6]),
    ])
    expect(promptTokens).toBe(2)
    expect(tokens).toEqual({
      text: ['<3>', '<4>', '<5>', '<6>'],
      sampled: [1, 1, 0, 1],
      logMu: [-0.3, -0.4, 0, -0.6],
      ...{ entropy: null, logp: null, logpAfter: null, slope: null },
    })
  })

  it('are read as verifiers writes them', async () => {
    const lines = (await readFile(join(ROOT, 'test/cluster/support/episodes.jsonl'), 'utf8')).trim().split('\n')
    const [{ rollouts }] = groupsOf([JSON.parse(lines[0])], spell)
    expect(rollouts[0].tokens).toMatchObject({
      text: ['<5>', '<6>', '<7>', '<8>', '<9>'],
      sampled: [1, 1, 1, 0, 1],
      logMu: [-0.1, -0.2, -0.3, 0, -0.5],
    })
  })

  it('may have log-probabilities for the sampled ones alone', () => {
    const { tokens } = rolloutOf([
      node(null, false, [1]),
      node(0, true, [2, 3, 4], { mask: [false, true, true], logprobs: [-0.25, -0.123456] }),
    ])
    expect(tokens).toMatchObject({ sampled: [0, 1, 1], logMu: [0, -0.25, -0.1235] })
  })

  it.each([
    ['has no ids', { token_ids: [] }],
    ['has fewer log-probabilities than tokens', { logprobs: [-0.1] }],
    ['has a log-probability that is none', { logprobs: [-0.1, null] }],
    ['has a mask of another length', { mask: [true] }],
  ])('are left out where a node %s', (_, changes) => {
    const rollout = rolloutOf([node(null, false, [1]), node(0, true, [2, 3], changes)])
    expect(rollout.tokens).toBeNull()
    expect(rollout.messages).toMatchObject([{ role: 'assistant', content: 'said' }])
  })

  it('are shown up to a limit for a step, and the messages of the others', () => {
    const long = () => episode([node(null, false, [1]), node(0, true, new Array(20_000).fill(2))])
    const { rollouts } = groupsOf([long(), long(), long()], spell)[0]
    expect(rollouts.map(({ tokens }) => tokens?.text.length ?? null)).toEqual([20_000, 20_000, null])
    expect(rollouts[2].messages).toHaveLength(1)
  })

  it('of a rollout that holds a secret are not told, since they spell it piece by piece', () => {
    const texts: Record<number, string> = { 2: 'the key is hun', 3: 'ter2-hunter2', 4: 'nothing' }
    const told = (ids: number[], content: string) =>
      episode([node(null, false, [1]), node(0, true, ids, { message: { role: 'assistant', content } })])
    const groups = groupsOf([told([2, 3], 'the key is hunter2-hunter2'), told([4], 'nothing')], (ids) =>
      ids.map((id) => texts[id]),
    )
    const event: GivenEvent = { kind: 'samples', step: 1, split: 'train', groups, time: 0, source: 'slurm' }
    const [safe] = withoutSecrets([event], redactor({ KEY: 'hunter2-hunter2' }))
    expect(JSON.stringify(safe)).not.toContain('hun')
    expect(safe.kind === 'samples' && safe.groups[0].rollouts.map(({ tokens }) => tokens?.text ?? null)).toEqual([
      null,
      ['nothing'],
    ])
  })
})

describe('following a run', () => {
  let root: string
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'rollout-lab-traces-'))
  })
  afterEach(() => rm(root, { recursive: true, force: true }))

  const config = fullSizeConfig()

  async function told(changes: Partial<Followed> = {}, id = 50) {
    const layout = new RunLayout(join(root, 'runs'), 'R')
    const traces = layout.rollouts(1, 'train', 'effective')
    await mkdir(dirname(traces), { recursive: true })
    await appendFile(traces, `${JSON.stringify(episode([node(null, false, [40]), node(0, true, [id, 51])]))}\n`)
    await appendFile(layout.metrics, `${JSON.stringify({ step: 1, time: 1, 'loss/mean': 0, producer: 'trainer' })}\n`)
    const followed: Followed = {
      ...{ run: 'R', attempt: 1, config, layout, source: 'slurm', fromStep: 0, metricsFrom: 0, logsFrom: 0 },
      ...{ begun: true, over: true, ...changes },
    }
    const { events, cursor } = await follow(followed, null)
    const again = await follow(followed, cursor)
    return [...events, ...again.events]
  }

  const tokenizer = (folder: string) => cp(join(ROOT, 'models/lab-nano'), folder, { recursive: true })
  const textOf = (events: GivenEvent[]) => {
    const samples = events.find((event) => event.kind === 'samples')
    return samples?.kind === 'samples' ? (samples.groups[0].rollouts[0].tokens?.text ?? null) : undefined
  }

  const notesOf = (events: GivenEvent[]) =>
    events.flatMap((event) => (event.kind === 'started' ? event.description.notes : []))

  it('spells ids by the model in its folder', async () => {
    await tokenizer(join(root, 'runs/R/model'))
    const events = await told()
    const text = textOf(events)
    expect(text).toHaveLength(2)
    expect(text!.join('')).toMatch(/^[^<]{2,}$/)
    expect(notesOf(events)).toEqual([])
  })

  it('spells ids by the hub cache that the jobs use', async () => {
    const snapshot = join(root, 'hf/hub/models--Qwen--Qwen3-0.6B/snapshots/abc')
    await tokenizer(snapshot)
    expect(textOf(await told({ environment: { HF_HOME: join(root, 'hf') } }))).toHaveLength(2)
  })

  it('goes on where an id is in no vocabulary', async () => {
    await tokenizer(join(root, 'runs/R/model'))
    expect(textOf(await told({}, 9_999_999))).toHaveLength(2)
  })

  it('tells messages alone where there is no tokenizer, and says so', async () => {
    const events = await told()
    expect(textOf(events)).toBeNull()
    expect(notesOf(events)).toEqual([expect.stringMatching(/^The samples show messages without .* tokenizer of Qwen/)])
  })
})
