// Under which names the server answers.

import { describe, expect, it } from 'vitest'
import { namesOf, reachOf, serverSchema } from '../../../server/access/config.ts'
import { hostnameOf, isLoopback } from '../../../server/access/hosts.ts'
import { openDoor, sentence } from './door.ts'

describe('a host', () => {
  it.each([
    ['127.0.0.1:5173', '127.0.0.1', true],
    ['LOCALHOST', 'localhost', true],
    ['lab.localhost:1', 'lab.localhost', true],
    ['[::1]:80', '[::1]', true],
    ['127.0.0.1.evil.example', '127.0.0.1.evil.example', false],
    ['0.0.0.0:5173', '0.0.0.0', false],
    ['localhost.', 'localhost.', false],
    ['127.0.0.1:5173:5173', null, false],
    ['127.0.0.1@evil.example', null, false],
    ['127.0.0.1/evil.example', null, false],
    ['evil.example 127.0.0.1', null, false],
    ['', null, false],
  ])('%s is the name %s, of this machine: %s', (host, name, loopback) => {
    expect(hostnameOf(host)).toBe(name)
    expect(name !== null && isLoopback(name)).toBe(loopback)
  })
})

describe('a server of this machine', () => {
  it.each(['evil.example', 'evil.example:5173', '10.0.0.1', 'lab.example'])('is not to be had as %s', async (host) => {
    const door = await openDoor()
    const cookie = await door.signIn()
    for (const path of [
      '/',
      '/api/session',
      '/api/keys',
      '/healthz',
      '/metrics',
      `/?token=${door.access.makeLink().token}`,
    ]) {
      const answer = await door.page(path, { cookie, headers: { host } })
      expect(answer.status, path).toBe(421)
      expect(await sentence(answer)).toContain(host)
      expect(answer.headers.get('set-cookie')).toBeNull()
    }
  })
})

describe('a server of a network', () => {
  it('answers to the names on its list, from one request to the next', async () => {
    const door = await openDoor((config) => ({ ...config, server: { ...config.server, hosts: ['lab.example'] } }))
    const status = async (host: string) => (await door.fetch('/healthz', { headers: { host } })).status
    expect(await status('lab.example')).toBe(200)
    expect(await status('Lab.Example:443')).toBe(200)
    expect(await status('evil.example')).toBe(421)
    expect(await status('lab.example.evil.example')).toBe(421)
    door.config = { ...door.config, server: { ...door.config.server, hosts: ['lab.example', 'other.example'] } }
    expect(await status('other.example')).toBe(200)
  })

  it.each([
    [{}, 'loopback', []],
    [{ host: 'localhost' }, 'loopback', []],
    [{ host: '::1' }, 'loopback', []],
    [{ host: '0.0.0.0' }, 'network', []],
    [{ host: '::' }, 'network', []],
    [{ host: '10.0.0.7' }, 'network', ['10.0.0.7']],
    [{ hosts: ['lab.example'] }, 'network', ['lab.example']],
    [{ public_url: 'https://lab.example' }, 'network', ['lab.example']],
    [{ public_url: 'http://localhost:9000' }, 'loopback', []],
  ] as const)('%o is %s, with the names %o', (table, reach, names) => {
    const server = serverSchema.parse(table)
    expect(reachOf(server)).toBe(reach)
    expect(namesOf(server)).toEqual(names)
  })
})
