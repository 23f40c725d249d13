// Secret sets: sealed, rotated, and told to nobody. On SQLite and on Postgres.

import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { newKey, readKeys, writeKeys } from '../../../server/secrets/keyring.ts'
import { seal, unseal } from '../../../server/secrets/seal.ts'
import { problemOf } from '../../../server/secrets/variables.ts'
import { bearer, openDoor, type TestDoor } from '../access/door.ts'
import { temporary } from '../observe/temporary.ts'
import { sqlite, startPostgres } from '../store/databases.ts'

const CANARY = 'canary-4f1c9a'
const postgres = await startPostgres()
afterAll(() => postgres?.stop())

const upload = (door: TestDoor, key: string, name: string, variables: Record<string, string>, query = '') =>
  door.fetch(`/api/secrets/${name}${query}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json', ...bearer(key) },
    body: JSON.stringify({ variables }),
  })

async function everyRow(door: TestDoor): Promise<string> {
  const { db } = door.store
  const tables = await db.introspection.getTables()
  const rows = await Promise.all(
    tables.map(({ name }) =>
      db
        .selectFrom(name as never)
        .selectAll()
        .execute(),
    ),
  )
  return JSON.stringify(rows)
}

describe.each([sqlite, postgres].filter((database) => database !== null))('a secret set on $name', (database) => {
  const open = () => openDoor(undefined, { url: database.url() })

  it('goes in and never comes out: not of a row, an answer or the log', async () => {
    const door = await open()
    const key = await door.key({ scopes: ['runs:write'] })
    const answers = [
      await upload(door, key, 'wandb', { WANDB_API_KEY: CANARY, OTHER: 'x' }),
      await door.fetch('/api/secrets', { headers: bearer(key) }),
      await upload(door, key, 'bad', { 'no name': CANARY }),
      await upload(door, key, 'worse', { PATH: CANARY }),
      await upload(door, key, 'none', { A: `${CANARY}\0` }),
      await door.fetch('/api/audit', { headers: bearer(await door.key()) }),
    ]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 400, 400, 400, 200])
    const told = (await Promise.all(answers.map((answer) => answer.text()))).join('')
    expect(told).toContain('"variables":["OTHER","WANDB_API_KEY"]')
    for (const text of [told, door.lines.join(''), await everyRow(door)]) {
      expect(text).not.toContain(CANARY)
      expect(text).not.toContain(Buffer.from(CANARY).toString('base64').slice(0, 12))
    }
    expect(await door.secrets.variables('default', ['wandb'])).toEqual({ WANDB_API_KEY: CANARY, OTHER: 'x' })
  })

  it('belongs to its project; an operator reaches all', async () => {
    const door = await open()
    const [a, b] = [
      await door.key({ project: 'a', scopes: ['runs:write'] }),
      await door.key({ project: 'b', scopes: ['runs:write'] }),
    ]
    await upload(door, a, 'hub', { HUB_TOKEN: CANARY })
    const names = async (key: string, query = '') =>
      (
        (await (await door.fetch(`/api/secrets${query}`, { headers: bearer(key) })).json()) as {
          sets: { name: string }[]
        }
      ).sets?.map(({ name }) => name)
    expect(await names(a)).toEqual(['hub'])
    expect(await names(b)).toEqual([])
    expect((await upload(door, b, 'hub', { HUB_TOKEN: 'other' }, '?project=a')).status).toBe(404)
    expect((await door.fetch('/api/secrets/hub', { method: 'DELETE', headers: bearer(b) })).status).toBe(404)
    await expect(door.secrets.variables('b', ['hub'])).rejects.toThrow('The project b has no secret set hub')
    expect(await names(await door.key(), '?project=a')).toEqual(['hub'])
    expect(
      (await door.fetch('/api/secrets/hub?project=a', { method: 'DELETE', headers: bearer(await door.key()) })).status,
    ).toBe(204)
    expect(await names(a)).toEqual([])
  })

  it('is taken from its row by nobody who moves it, changes it or puts an older one back', async () => {
    const door = await open()
    const { db } = door.store
    await door.secrets.put('a', 'one', { A: 'first' }, 'me')
    const old = await db.selectFrom('secret_set').select(['nonce', 'sealed']).executeTakeFirstOrThrow()
    await door.secrets.put('a', 'one', { A: 'second' }, 'me')
    const good = await db.selectFrom('secret_set').selectAll().executeTakeFirstOrThrow()
    await db
      .insertInto('secret_set')
      .values({ ...good, project: 'b' })
      .execute()
    await expect(door.secrets.variables('b', ['one'])).rejects.toThrow('was changed in the database')
    await db.deleteFrom('secret_set').where('project', '=', 'b').execute()
    for (const change of [
      old,
      { sealed: good.sealed.replace(/^./, (letter) => (letter === 'A' ? 'B' : 'A')) },
      { version: 9 },
    ]) {
      await db.updateTable('secret_set').set(change).execute()
      await expect(door.secrets.variables('a', ['one'])).rejects.toThrow('was changed in the database')
      await db.updateTable('secret_set').set(good).execute()
    }
    expect(await door.secrets.variables('a', ['one'])).toEqual({ A: 'second' })
  })

  it('is sealed with a new key by rotation, also while others write, and with the old one by nobody', async () => {
    const door = await open()
    const file = join(door.folder, 'secrets.key')
    for (let i = 0; i < 5; i++) await door.secrets.put('a', `set-${i}`, { A: `${i}` }, 'me')
    const before = readFileSync(file, 'utf8')
    const [answer] = await Promise.all([
      door.fetch('/api/secrets/rotate', { method: 'POST', headers: bearer(await door.key()) }),
      ...Array.from({ length: 5 }, (_, i) => door.secrets.put('b', `set-${i}`, { A: `${i}` }, 'me')),
    ])
    expect(((await answer.json()) as { sets: number }).sets).toBeGreaterThanOrEqual(5)
    const after = readFileSync(file, 'utf8')
    expect(after.trim().split('\n')).toHaveLength(1)
    expect(after).not.toBe(before)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    for (const project of ['a', 'b'])
      for (let i = 0; i < 5; i++) expect(await door.secrets.variables(project, [`set-${i}`])).toEqual({ A: `${i}` })
    writeFileSync(file, before)
    await expect(door.secrets.variables('a', ['set-0'])).rejects.toThrow('sealed with another key')
  })

  it('can be opened after a rotation that was cut off at any write', async () => {
    const door = await open()
    const file = join(door.folder, 'secrets.key')
    await door.secrets.put('a', 'one', { A: 'kept' }, 'me')
    const [old] = await readKeys({ file })
    // The new key is in the file, and no row is sealed with it yet.
    await writeKeys(file, [newKey(), old])
    expect(await door.secrets.variables('a', ['one'])).toEqual({ A: 'kept' })
    // All rows are sealed with the new key, and the old one is in the file still.
    await door.secrets.rotate()
    await writeKeys(file, [...(await readKeys({ file })), old])
    expect(await door.secrets.variables('a', ['one'])).toEqual({ A: 'kept' })
    expect(await door.secrets.problem()).toBeNull()
  })
})

describe('a key', () => {
  it('from a variable takes the place of another by standing in front of it', async () => {
    const variable = 'ROLLOUT_LAB_TEST_KEY'
    onTestFinished(() => {
      delete process.env[variable]
    })
    const [first, second] = [newKey(), newKey()].map(({ bytes }) => bytes.toString('base64'))
    const door = await openDoor(undefined, { keys: () => ({ variable }) })
    await expect(door.secrets.put('a', 'one', { A: 'x' }, 'me')).rejects.toThrow(`the variable ${variable} is not set`)
    process.env[variable] = first
    await door.secrets.put('a', 'one', { A: 'x' }, 'me')
    process.env[variable] = `${second},${first}`
    expect(await door.secrets.rotate()).toMatchObject({ sets: 1, sentence: expect.stringContaining('can be left out') })
    process.env[variable] = second
    expect(await door.secrets.variables('a', ['one'])).toEqual({ A: 'x' })
    process.env[variable] = first
    expect(await door.secrets.problem()).toContain('sealed with another key')
  })

  it('in a file is this user’s alone, and is refused where others can read it or it is none', async () => {
    const file = join(temporary(), 'deep/secrets.key')
    expect(await readKeys({ file })).toEqual([])
    await writeKeys(file, [newKey()])
    expect(statSync(file).mode & 0o777).toBe(0o600)
    chmodSync(file, 0o644)
    await expect(readKeys({ file })).rejects.toThrow('can be read by others on this machine (mode 644): chmod 600 it.')
    chmodSync(file, 0o600)
    writeFileSync(file, 'too short')
    await expect(readKeys({ file })).rejects.toThrow('holds no key for secrets')
  })

  it('seals so that the same text is never the same twice', () => {
    const key = newKey()
    const label = { project: 'a', name: 'b', version: 1 }
    const [one, two] = [seal('{"A":"é🎲"}', label, key), seal('{"A":"é🎲"}', label, key)]
    expect(one).not.toEqual(two)
    expect(unseal(one, label, key)).toBe('{"A":"é🎲"}')
    expect(() => unseal(one, { ...label, version: 2 }, key)).toThrow()
    expect(() => unseal(one, label, newKey())).toThrow()
    expect(() => unseal({ ...one, sealed: one.sealed.slice(0, -8) }, label, key)).toThrow()
  })
})

describe('variables', () => {
  it.each([
    'LD_PRELOAD',
    'NODE_OPTIONS',
    'PYTHONPATH',
    'PYTHONSTARTUP',
    'BASH_ENV',
    'DYLD_INSERT_LIBRARIES',
    'GIT_SSH_COMMAND',
    'PROMPT_COMMAND',
    'SLURM_CONF',
    'ROLLOUT_LAB_SECRETS',
  ])('are not %s, which decides what runs', (name) =>
    expect(problemOf({ [name]: 'x' })).toContain('decides what a program runs'),
  )

  it.each(['', '1A', 'A-B', 'A B', 'A=B', 'Ä', 'A\n', '__proto__ ', 'x'.repeat(129)])('are not called %j', (name) =>
    expect(problemOf({ [name]: 'x' })).toContain('is no name of a variable'),
  )

  it('are so many and so long at most, to the byte', () => {
    expect(problemOf({})).toContain('at least one')
    expect(problemOf({ A: 'é'.repeat(16 * 1024) })).toBeNull()
    expect(problemOf({ A: `${'é'.repeat(16 * 1024)}x` })).toContain('longer than 32768 bytes')
    const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`V${i}`, 'x']))
    expect(problemOf(many(100))).toBeNull()
    expect(problemOf(many(101))).toContain('at most 100')
    // Four values of the most, and four names of one byte: four bytes above the most of all.
    const large = Object.fromEntries(['A', 'B', 'C', 'D'].map((name) => [name, 'x'.repeat(32 * 1024)]))
    expect(problemOf(large)).toContain('this one has 131076')
    expect(problemOf({ ...large, D: 'x'.repeat(32 * 1024 - 4) })).toBeNull()
  })
})
