// The whole server: its own keys and its own models, through its own door.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI, { AuthenticationError, PermissionDeniedError } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { DEFAULT_CONFIG, readConfig } from '../../server/config.ts'
import { ConfigFile } from '../../server/configFile.ts'
import { DOOR_FILE, type Serving, serve } from '../../server/main.ts'
import type { NodeView } from '../../server/proxy/views.ts'
import { chunkOf, ScriptedNode } from './scriptedNode.ts'
import { until } from './started.ts'

let folder: string
let server: Serving
let door: { url: string; key: string }
let node: ScriptedNode
const file = () => join(folder, 'server.toml')

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rollout-lab-serve-'))
  mkdirSync(join(folder, 'web'))
  writeFileSync(join(folder, 'web/index.html'), '<!doctype html><title>Page</title>')
  node = await ScriptedNode.start()
  writeFileSync(file(), `[log]\nlevel = "silent"\n[[node]]\nname = "a"\nurl = "${node.url}"\n`)
  server = await serve({
    webRoot: join(folder, 'web'),
    port: 0,
    runs: { root: ROOT, data: join(folder, 'data'), local: null },
    config: new ConfigFile(file(), readConfig(file())),
  })
  door = JSON.parse(readFileSync(join(folder, 'data', DOOR_FILE), 'utf8'))
  const both = async () => (await nodes()).every(({ state }) => state === 'up')
  await until(both)
})
afterAll(async () => {
  await server.close()
  await node.die()
  rmSync(folder, { recursive: true, force: true })
})

const authorization = () => ({ authorization: `Bearer ${door.key}` })
const nodes = async () =>
  ((await (await fetch(`${door.url}api/proxy/nodes`, { headers: authorization() })).json()) as { nodes: NodeView[] })
    .nodes
const clientOf = (key: string) => new OpenAI({ baseURL: `${door.url}v1`, apiKey: key, maxRetries: 0 })
const ASK = { model: 'lab-nano', messages: [{ role: 'user' as const, content: 'abcdef' }], max_tokens: 6 }

async function keyOf(scopes: string[], name: string): Promise<string> {
  const response = await fetch(`${door.url}api/keys`, {
    method: 'POST',
    headers: { ...authorization(), 'content-type': 'application/json' },
    body: JSON.stringify({ name, project: 'team', scopes }),
  })
  expect(response.status, await response.clone().text()).toBe(201)
  return ((await response.json()) as { key: string }).key
}

describe('the server', () => {
  it('has its own models as a node, beside those of server.toml', async () => {
    const views = await nodes()
    expect(views.map(({ name, state }) => [name, state])).toEqual([
      ['a', 'up'],
      ['this-server', 'up'],
    ])
    expect(views[1].models.map(({ id }) => id)).toContain('lab-nano')
  })

  it('answers OpenAI’s client with its own keys, and usage goes to them', async () => {
    const client = clientOf(await keyOf(['infer'], 'chatter'))
    const answer = await client.chat.completions.create(ASK).withResponse()
    expect(answer.data.choices[0].message.role).toBe('assistant')
    expect(answer.response.headers.get('x-rollout-lab-node')).toBe('this-server')
    expect(answer.response.headers.get('x-content-type-options')).toBe('nosniff')
    const usage = await (await fetch(`${door.url}api/proxy/usage`, { headers: authorization() })).json()
    expect(usage).toMatchObject({
      usage: [
        {
          key: 'chatter',
          project: 'team',
          model: 'lab-nano',
          requests: 1,
          completionTokens: answer.data.usage!.completion_tokens,
        },
      ],
    })
  })

  it('refuses whom it does not know, and who may not, in words that the client knows', async () => {
    await expect(clientOf('nobody').chat.completions.create(ASK)).rejects.toThrow(AuthenticationError)
    const reader = await keyOf(['runs:read'], 'reader')
    await expect(clientOf(reader).chat.completions.create(ASK)).rejects.toThrow(PermissionDeniedError)
    expect(node.asked).toEqual([])
  })

  it('answers one request after another on one connection, and its own routes between them', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const sockets = new Set<unknown>()
    const send = (method: string, path: string, body?: object) =>
      new Promise<[number, string]>((resolve, reject) => {
        const { port } = new URL(door.url)
        const asked = request(
          {
            host: '127.0.0.1',
            port,
            path,
            method,
            agent,
            headers: { ...authorization(), ...(body && { 'content-type': 'application/json' }) },
          },
          (response) => {
            sockets.add(response.socket)
            let text = ''
            response.on('data', (piece) => {
              text += piece
            })
            response.on('end', () => resolve([response.statusCode!, text]))
          },
        )
        asked.on('error', reject)
        asked.end(body && JSON.stringify(body))
      })
    for (let i = 0; i < 3; i++) {
      expect((await send('POST', '/v1/chat/completions', { ...ASK, model: 'base' }))[0]).toBe(200)
      expect((await send('POST', '/v1/chat/completions', { ...ASK, model: 'base', stream: true }))[1]).toContain(
        '[DONE]',
      )
      expect((await send('POST', '/v1/chat/completions', { ...ASK, n: 1000 }))[0]).toBe(400)
      expect((await send('GET', '/v1/models'))[0]).toBe(200)
      expect((await send('GET', '/v1/pause'))[0]).toBe(404)
      expect((await send('GET', '/'))[0]).toBe(200)
    }
    expect(sockets.size).toBe(1)
    agent.destroy()
  })

  it('ends an answer whose key is revoked', async () => {
    const key = await keyOf(['infer'], 'short-lived')
    node.script.behave = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(chunkOf('one'))
    }
    const stream = await clientOf(key).chat.completions.create({ ...ASK, model: 'base', stream: true })
    const words = stream[Symbol.asyncIterator]()
    await words.next()
    const revoked = await fetch(`${door.url}api/keys/short-lived`, { method: 'DELETE', headers: authorization() })
    expect(revoked.ok).toBe(true)
    await expect(words.next()).rejects.toThrow('the right to it ended')
    await until(() => node.asked.at(-1)!.aborted)
  })

  it('takes up nodes and aliases when server.toml changes, and keeps what it has when that has a mistake', async () => {
    const config = `[log]\nlevel = "silent"\n[proxy.aliases]\nquick = "lab-nano"\n[[node]]\nname = "b"\nurl = "${node.url}"\n`
    writeFileSync(file(), config)
    process.emit('SIGHUP')
    await until(async () => (await nodes()).some(({ name, state }) => name === 'b' && state === 'up'))
    expect((await nodes()).map(({ name }) => name)).not.toContain('a')
    expect((await clientOf(door.key).chat.completions.create({ ...ASK, model: 'quick' })).choices).toHaveLength(1)
    writeFileSync(file(), `${config}url = "http://169.254.169.254"\n`)
    process.emit('SIGHUP')
    writeFileSync(file(), `${config}[[node]]\nname = "c"\nurl = "http://169.254.169.254"\n`)
    process.emit('SIGHUP')
    expect((await nodes()).map(({ name }) => name).sort()).toEqual(['b', 'this-server'])
  })

  it('counts the proxy in its metrics', async () => {
    const text = await (await fetch(`${door.url}metrics`, { headers: authorization() })).text()
    expect(text).toContain('rollout_lab_proxy_requests_total{node="this-server",model="lab-nano"')
    expect(DEFAULT_CONFIG.proxy.own_models).toBe(true)
  })
})
