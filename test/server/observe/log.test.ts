// What the log says, and what it never says.

import { readFileSync, statSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { mint } from '../../../server/access/credentials.ts'
import { openLog, withoutCredentials } from '../../../server/observe/log.ts'
import { bearer, json, openDoor } from '../access/door.ts'

function lines() {
  const said: string[] = []
  const { log } = openLog({ level: 'trace', to: { write: (line) => said.push(line) } })
  return { log, said }
}

describe('the log', () => {
  it('is one JSON object a line, with its level and time', () => {
    const { log, said } = lines()
    log.info({ run: 'r' }, 'two\nlines')
    expect(said).toHaveLength(1)
    expect(said[0].endsWith('}\n')).toBe(true)
    const { time, ...rest } = JSON.parse(said[0])
    expect(rest).toEqual({ level: 'info', run: 'r', msg: 'two\nlines' })
    expect(Number.isNaN(Date.parse(time))).toBe(false)
  })

  it('holds no credential, in whatever field, text or stack it comes', () => {
    const { log, said } = lines()
    const key = mint('key')
    const session = mint('session')
    log.info(
      { authorization: 'x', headers: { Cookie: 'a=b', 'Set-Cookie': ['c'] }, env: { WANDB_API_KEY: 'canary' } },
      key,
    )
    log.error({ err: new Error(`refused ${session}`) }, `GET /?token=${mint('link')}`)
    log.warn(
      { list: [{ password: 'canary' }], url: 'postgres://lab:canary@db/lab' },
      'Authorization: Bearer canary-canary',
    )
    log.warn({ text: 'sk-canarycanarycanary hf_canarycanarycanary ghp_canarycanarycanarycanary' })
    const all = said.join('')
    for (const secret of [key, session, 'rlt_', 'canary']) expect(all).not.toContain(secret)
    expect(all.match(/\[redacted\]/g)!.length).toBeGreaterThanOrEqual(11)
  })

  it('keeps counts of tokens and names of keys, which are none', () => {
    const { log, said } = lines()
    log.info({ tokens: 17, prompt_tokens: 5, tokens_per_second: 3.5, key: 'laptop' })
    expect(JSON.parse(said[0])).toMatchObject({ tokens: 17, prompt_tokens: 5, tokens_per_second: 3.5, key: 'laptop' })
  })

  it('cannot be given a line of somebody else’s', async () => {
    const door = await openDoor()
    await door.fetch('/api/nothing%0a{"level":"error"}', { headers: { 'x-request-id': 'a', 'user-agent': 'x' } })
    for (const line of door.lines) expect(JSON.parse(line).msg).toBe('answered')
  })

  it('goes to a file of its owner', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'rollout-lab-log-'))
    const file = join(folder, 'deep/server.log')
    const { log, flush } = openLog({ level: 'info', file })
    await new Promise((resolve) => setTimeout(resolve, 50))
    log.info('one')
    log.debug('not this')
    flush()
    expect(readFileSync(file, 'utf8')).toMatch(/^\{.*"msg":"one"\}\n$/)
    expect(statSync(file).mode & 0o077).toBe(0)
    await rm(folder, { recursive: true })
  })
})

describe('a request', () => {
  it('has one line: route, status, who asked; and neither query, headers nor body', async () => {
    const door = await openDoor()
    const key = await door.key({ name: 'laptop' })
    await door.fetch('/api/keys?canary=1', {
      ...json({ name: 'canary', scopes: ['infer'] }, { ...bearer(key), 'x-request-id': 'r1', 'user-agent': 'canary' }),
    })
    const [line, ...others] = door.lines.map((text) => JSON.parse(text))
    expect(others).toEqual([])
    expect(line).toMatchObject({ request: 'r1', method: 'POST', route: '/api/keys', status: 201, key: 'laptop' })
    expect(door.lines[0]).not.toContain('canary')
  })

  it('leaves no line at level warn, unless the server failed', async () => {
    const door = await openDoor()
    door.log.level = 'warn'
    await door.fetch('/api/session')
    expect(door.lines).toEqual([])
  })
})

describe('a text without credentials', () => {
  it('is otherwise as it was', () => {
    const text = 'Run rl-1 failed: no token at 17; see https://lab.example/docs?x=1 (key rlk of me@lab.example).'
    expect(withoutCredentials(text)).toBe(text)
  })
})
