// rollout-lab compile, and the same over the API.

import { describe, expect, test } from 'vitest'
import { runCompile } from '../../cli/compile.ts'
import { load } from '../../configs/load.ts'
import { createApp } from '../../server/app.ts'
import type { TargetId } from '../../server/compile/target.ts'

const RUN = 'model = "Qwen/Qwen3-0.6B"\nmax_steps = 20\n[[env]]\nid = "reverse-text"\n'

async function run(text: string, target: TargetId, options: { explain?: boolean; payload?: boolean } = {}) {
  let [out, said] = ['', '']
  const code = await runCompile({
    ...{ file: 'run.toml', target, ...options },
    read: async () => text,
    write: (part) => {
      out += part
    },
    say: (part) => {
      said += part
    },
  })
  return { code, out, said }
}

describe('rollout-lab compile', () => {
  test('writes the config and nothing else to standard output, the notes beside it, with both lines', async () => {
    const { code, out, said } = await run(RUN, 'prime-rl')
    expect(code).toBe(0)
    expect(load(out).problems).toBeUndefined()
    expect(said).toMatch(/run\.toml:4:1: env\[0\]\.id = "reverse-text" is the Python package .*\[note\]/)
    expect(said).toMatch(/Checkpoints are switched on, every 20 steps.*\(line \d+ there\) \[note\]/)
  })

  test('says what cannot go along, with line and column, writes nothing, and gives 1', async () => {
    const { code, out, said } = await run(`${RUN}[kl_penalty]\nenabled = true\n`, 'prime-rl')
    expect([code, out]).toEqual([1, ''])
    expect(said.split('\n')).toEqual([
      expect.stringMatching(/^run\.toml:6:1: kl_penalty\.enabled = true cannot go along: no reference policy/),
      '1 thing of this config cannot be done by prime-rl of 2026-08.',
      '',
    ])
  })

  test('explains every knob', async () => {
    const { out } = await run(RUN, 'prime-rl', { explain: true })
    expect(out).toContain('rollouts_per_example (the default) → orchestrator.group_size: another name')
    expect(out).toContain('max_steps (20) → max_steps: the same')
  })

  test('writes the body of a request to Hosted Training, without secrets', async () => {
    const { out } = await run(`env_files = ["secrets.env"]\n${RUN}`, 'hosted', { payload: true })
    expect(JSON.parse(out)).toMatchObject({
      ...{ model: { name: 'Qwen/Qwen3-0.6B' }, environments: [{ id: 'primeintellect/reverse-text' }] },
      ...{ max_steps: 20, batch_size: 128, rollouts_per_example: 8, max_tokens: 512, lora_alpha: 32 },
    })
    expect(out).not.toContain('secrets')
  })

  test('says when there is no file', async () => {
    let said = ''
    const say = (text: string) => {
      said += text
    }
    expect(await runCompile({ file: '/nowhere.toml', target: 'hosted', write: say, say })).toBe(1)
    expect(said).toContain('/nowhere.toml cannot be read: ')
  })
})

describe('POST /api/compile', () => {
  const app = createApp({ webRoot: '/nowhere' })
  const post = (body: string, headers: Record<string, string> = { 'content-type': 'application/json' }) =>
    app.request('http://127.0.0.1/api/compile', { method: 'POST', body, headers: { host: '127.0.0.1', ...headers } })

  test('answers the text and the notes', async () => {
    const answer = await post(JSON.stringify({ text: RUN, target: 'hosted' }))
    expect(answer.status).toBe(200)
    expect(await answer.json()).toMatchObject({
      target: 'hosted',
      text: expect.stringContaining('batch_size = 128'),
      notes: expect.any(Array),
    })
  })

  test('answers the reasons for a config that cannot go along', async () => {
    const answer = await post(JSON.stringify({ text: '[lora]\nranks = 3', target: 'prime-rl' }))
    expect(await answer.json()).toMatchObject({
      problems: [{ line: 2, column: 1, sentence: expect.stringContaining('Unknown key ranks') }],
    })
  })

  test('says what a request is', async () => {
    const answer = await post(JSON.stringify({ text: RUN, target: 'ray' }))
    expect(answer.status).toBe(400)
    expect(((await answer.json()) as { error: string }).error).toContain(
      'target one of prime-rl, prime-rl-2026-01, hosted',
    )
  })

  test('takes no form of another page, and no more than a MiB', async () => {
    expect((await post(JSON.stringify({ text: RUN, target: 'hosted' }), { 'content-type': 'text/plain' })).status).toBe(
      400,
    )
    expect((await post(JSON.stringify({ text: 'x'.repeat(2 ** 20), target: 'hosted' }))).status).toBe(413)
  })
})
