// `rollout-lab keys` and `rollout-lab secrets` against a server of this machine and as somebody elsewhere.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ROOT } from '../../../build/paths.ts'
import { main } from '../../../cli/main.ts'
import { DOOR_FILE, type Serving, serve } from '../../../server/main.ts'
import { openLog } from '../../../server/observe/log.ts'
import { temporary } from '../observe/temporary.ts'

const { log } = openLog({ level: 'silent', to: { write: () => {} } })

let data: string
let server: Serving
let out: string
let err: string

beforeEach(async () => {
  data = temporary()
  server = await serve({ webRoot: data, port: 0, runs: { root: ROOT, data, local: null }, log })
  vi.stubEnv('ROLLOUT_LAB_DATA', data)
  vi.stubEnv('ROLLOUT_LAB_SERVER', undefined)
  vi.stubEnv('ROLLOUT_LAB_KEY', undefined)
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    out += text
    return true
  })
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    err += text
    return true
  })
})

afterEach(async () => {
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
  await server.close()
})

async function rolloutLab(...args: string[]): Promise<number> {
  out = ''
  err = ''
  return main(args, { root: data, buildPage: async () => {} })
}

describe('rollout-lab keys', () => {
  it('makes a key, lists it, and ends it', async () => {
    expect(await rolloutLab('keys', 'create', 'laptop', '--scope', 'runs:read', 'infer', '--days', '7')).toBe(0)
    expect(out).toMatch(/^rlk_[\w-]{43}\n$/)
    expect(err).toMatch(/^laptop, for runs:read, infer in default, until 20/)
    const key = out.trim()
    vi.stubEnv('ROLLOUT_LAB_SERVER', server.url)
    vi.stubEnv('ROLLOUT_LAB_KEY', key)
    expect(await rolloutLab('secrets', 'list')).toBe(0)
    expect(await rolloutLab('keys', 'list')).toBe(1)
    expect(err).toBe('The key laptop does not have the scope operator: ask an operator for one.\n')
    vi.unstubAllEnvs()
    vi.stubEnv('ROLLOUT_LAB_DATA', data)
    expect(await rolloutLab('keys', 'list')).toBe(0)
    expect(out).toMatch(
      /^NAME +PROJECT +SCOPES +BEGINS +USED\nlaptop +default +runs:read,infer +rlk_\S{4} +20\S+ +until 20/,
    )
    expect(out).not.toContain(key)
    expect(await rolloutLab('keys', 'revoke', 'laptop')).toBe(0)
    vi.stubEnv('ROLLOUT_LAB_SERVER', server.url)
    vi.stubEnv('ROLLOUT_LAB_KEY', key)
    expect(await rolloutLab('secrets', 'list')).toBe(1)
    expect(err).toContain('unknown, revoked or expired')
  })

  it('makes a link that opens once, and reads the audit log', async () => {
    expect(await rolloutLab('keys', 'link')).toBe(0)
    expect((await fetch(out.trim(), { redirect: 'manual' })).status).toBe(303)
    expect((await fetch(out.trim(), { redirect: 'manual' })).status).toBe(401)
    expect(await rolloutLab('keys', 'audit')).toBe(0)
    expect(
      out
        .split('\n')
        .slice(1, 3)
        .map((line) => line.split(/ {2,}/).slice(1, 5)),
    ).toEqual([
      ['browser', 'default', '200', 'GET /'],
      ['this-machine', 'default', '201', 'POST /api/session/links'],
    ])
  })

  it('says how a server is found when there is none', async () => {
    await server.close()
    expect(await rolloutLab('keys', 'list')).toBe(1)
    expect(err).toContain(`there is no ${DOOR_FILE} in ${data}`)
    expect(await rolloutLab('keys', 'list', '--server', 'nowhere')).toBe(1)
    expect(err).toContain('expected an address such as https://lab.example')
    expect(await rolloutLab('keys', 'list', '--server', 'http://127.0.0.1:1')).toBe(1)
    expect(err).toContain('put it into the variable ROLLOUT_LAB_KEY')
    vi.stubEnv('ROLLOUT_LAB_KEY', 'x')
    expect(await rolloutLab('keys', 'list', '--server', 'http://127.0.0.1:1')).toBe(1)
    expect(err).toContain('did not answer')
  })
})

describe('rollout-lab secrets', () => {
  it('uploads a file, lists names, rotates and deletes; no value is ever printed', async () => {
    const file = join(data, '.env')
    writeFileSync(file, '# keys\nexport WANDB_API_KEY="canary one"\nHUB_TOKEN=canary-two\n')
    expect(await rolloutLab('secrets', 'upload', 'team', file)).toBe(0)
    expect(out).toBe('team of default holds HUB_TOKEN, WANDB_API_KEY.\n')
    expect(await rolloutLab('secrets', 'list')).toBe(0)
    expect(out).toMatch(/\nteam +default +HUB_TOKEN,WANDB_API_KEY +20\S+ +this-machine\n$/)
    expect(out + err).not.toContain('canary')
    const before = readFileSync(join(data, 'secrets.key'), 'utf8')
    expect(await rolloutLab('secrets', 'rotate')).toBe(0)
    expect(out).toMatch(/^1 set is sealed anew\. .*secrets\.key holds a new key/)
    expect(readFileSync(join(data, 'secrets.key'), 'utf8')).not.toBe(before)
    expect(await rolloutLab('secrets', 'delete', 'team')).toBe(0)
    expect(await rolloutLab('secrets', 'delete', 'team')).toBe(1)
    expect(err).toContain('The project default has no secret set team')
  })

  it('refuses what is no file of variables before anything is sent', async () => {
    const file = join(data, '.env')
    writeFileSync(file, 'no variables here\n')
    expect(await rolloutLab('secrets', 'upload', 'team', file)).toBe(1)
    expect(err).toContain('holds no variable: expected lines NAME=value.')
    expect(await rolloutLab('secrets', 'upload', 'team', join(data, 'none'))).toBe(1)
    expect(err).toContain('cannot be read')
  })
})
