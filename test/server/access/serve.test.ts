// The whole server on a port: where it listens, who is let in, and how it ends.

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ROOT } from '../../../build/paths.ts'
import { firstKey } from '../../../server/access/firstKey.ts'
import { Keys } from '../../../server/access/keys.ts'
import { DEFAULT_CONFIG, readConfig, type ServerConfig } from '../../../server/config.ts'
import { ConfigFile } from '../../../server/configFile.ts'
import { DOOR_FILE, type Door, serve } from '../../../server/main.ts'
import { openLog } from '../../../server/observe/log.ts'
import { openStore } from '../../../server/store/open.ts'
import { temporary } from '../observe/temporary.ts'
import { bearer, cookieOf, json } from './door.ts'
import { OPEN } from './open.ts'

const { log } = openLog({ level: 'silent', to: { write: () => {} } })

async function started(data: string, server: Partial<ServerConfig['server']> = {}) {
  const config = new ConfigFile(null, { ...DEFAULT_CONFIG, server: { ...DEFAULT_CONFIG.server, ...server } })
  const runs = { root: ROOT, data, local: null }
  const serving = await serve({ webRoot: data, port: 0, runs, config, log })
  onTestFinished(() => serving.close())
  return serving
}

/** An address of this machine that is not its own name for itself. */
const elsewhere = Object.values(networkInterfaces())
  .flat()
  .find((address) => address && address.family === 'IPv4' && !address.internal)?.address

describe('a server', () => {
  it('asks for a link or a key from its first request on', async () => {
    const data = temporary()
    const server = await started(data)
    const at = (path: string) => new URL(path, server.url)
    for (const path of ['api/runs', 'api/targets', 'api/keys', 'api/secrets', 'v1/models', 'api/proxy/nodes'])
      expect((await fetch(at(path))).status, path).toBe(401)
    for (const path of ['api/runs', 'v1/chat/completions', 'tokenize'])
      expect((await fetch(at(path), json({}))).status, path).toBe(401)
    const answer = await fetch(server.link, { redirect: 'manual' })
    expect(answer.status).toBe(303)
    const headers = { cookie: cookieOf(answer)!, 'sec-fetch-site': 'same-origin' }
    for (const path of ['api/runs', 'api/targets', 'v1/models', 'api/proxy/nodes'])
      expect((await fetch(at(path), { headers })).status, path).toBe(200)
    expect((await fetch(server.link, { redirect: 'manual' })).status).toBe(401)
  })

  it('asks at every route that it describes, runs and models included', async () => {
    const server = await started(temporary())
    const { paths } = (await (await fetch(new URL('api/openapi.json', server.url))).json()) as {
      paths: Record<string, Record<string, unknown>>
    }
    const routes = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => [method.toUpperCase(), path.replaceAll(/\{\w+\}/g, 'x')]),
    )
    expect(routes.length).toBeGreaterThan(40)
    for (const [method, path] of routes) {
      if (OPEN.has(`${method} ${path}`)) continue
      const init = method === 'GET' ? {} : { ...json({}), method }
      const answer = await fetch(new URL(path, server.url), init)
      expect(answer.status, `${method} ${path}`).toBe(401)
      expect(await answer.text(), `${method} ${path}`).toContain('"error"')
    }
  })

  it('shows a key of this machine to whoever may read its data folder, and takes it away at its end', async () => {
    const data = temporary()
    const server = await started(data)
    const file = join(data, DOOR_FILE)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const door = JSON.parse(readFileSync(file, 'utf8')) as Door
    expect(door).toMatchObject({ url: server.url, pid: process.pid })
    expect((await fetch(new URL('api/runs', door.url), { headers: bearer(door.key) })).status).toBe(200)
    await server.close()
    expect(existsSync(file)).toBe(false)
  })

  it('refuses to be reached from other machines while nobody has a key', async () => {
    const data = temporary()
    for (const server of [{ host: '0.0.0.0' }, { hosts: ['lab.example'] }, { public_url: 'https://lab.example' }])
      await expect(started(data, server)).rejects.toThrow(/nobody has a key to it: .*serve --init/)
    const store = await openStore({ folder: data })
    const keys = new Keys(store.db)
    const made = await firstKey(keys)
    expect(made).toMatchObject({ key: expect.stringMatching(/^rlk_/), name: 'operator' })
    expect(await firstKey(keys)).toMatchObject({
      sentence: expect.stringContaining('There is an operator key already'),
    })
    await store.close()
    const server = await started(data, { hosts: ['lab.example'] })
    const headers = { ...bearer((made as { key: string }).key), host: 'lab.example' }
    expect(await statusOf(server.url, '/api/keys', headers)).toBe(200)
    expect(await statusOf(server.url, '/api/keys', { host: 'lab.example' })).toBe(401)
  })

  it('makes another first key when the only one is revoked', async () => {
    const store = await openStore({ folder: temporary() })
    const keys = new Keys(store.db)
    await firstKey(keys)
    await keys.revoke('operator')
    expect(await firstKey(keys)).toMatchObject({ name: 'operator-2' })
    await store.close()
  })

  it.runIf(elsewhere)('listens on 127.0.0.1 alone', async () => {
    const { port } = new URL((await started(temporary())).url)
    const refused = await new Promise((resolve) => {
      connect(Number(port), elsewhere!)
        .on('connect', () => resolve(false))
        .on('error', () => resolve(true))
    })
    expect(refused).toBe(true)
  })
})

describe('a running server', () => {
  it('takes a changed server.toml, and counts what was written past the router by its own status', async () => {
    const data = temporary()
    const file = join(data, 'server.toml')
    writeFileSync(file, '')
    const over = (config: ServerConfig) => ({ ...config, log: { ...config.log, file: join(data, 'server.log') } })
    const config = new ConfigFile(file, readConfig(file), over)
    const server = await serve({ webRoot: data, port: 0, runs: { root: ROOT, data, local: null }, config })
    onTestFinished(() => server.close())
    const origin = 'https://notebook.example'
    const allowed = async () =>
      (await fetch(new URL('healthz', server.url), { headers: { origin } })).headers.get('access-control-allow-origin')
    expect(await allowed()).toBeNull()
    writeFileSync(file, `[access]\norigins = ["${origin}"]\n[[node]]\nname = "a"\nurl = "http://127.0.0.1:1"\n`)
    process.emit('SIGHUP')
    expect(await allowed()).toBe(origin)
    const { key } = JSON.parse(readFileSync(join(data, DOOR_FILE), 'utf8')) as Door
    const nodes = await (await fetch(new URL('api/proxy/nodes', server.url), { headers: bearer(key) })).json()
    expect(nodes).toMatchObject({ nodes: expect.arrayContaining([expect.objectContaining({ name: 'a' })]) })
    const chat = json({ model: 'none', messages: [] }, bearer(key))
    const { status } = await fetch(new URL('v1/chat/completions', server.url), chat)
    expect(status).toBeGreaterThanOrEqual(400)
    const metrics = await (await fetch(new URL('metrics', server.url))).text()
    expect(metrics).toContain(`route="/v1/chat/completions",status="${status}"} 1`)
  })
})

describe('a server that ends', () => {
  it('lets answers end that have begun, takes no new ones, and cuts what takes too long', async () => {
    const data = temporary()
    const server = await started(data)
    const { key } = JSON.parse(readFileSync(join(data, DOOR_FILE), 'utf8')) as Door
    const { hostname, port } = new URL(server.url)
    // A body that is still on its way keeps an answer open.
    const slow = (headers = {}) => {
      const sending = request({
        hostname,
        port,
        method: 'POST',
        path: '/api/keys',
        headers: { ...bearer(key), ...headers },
      })
      const status = new Promise<number | string>((resolve) => {
        sending.on('response', (answer) => resolve(answer.resume().statusCode!)).on('error', () => resolve('cut'))
      })
      sending.setHeader('content-type', 'application/json')
      sending.write('{"name":"late",')
      return { status, finish: () => sending.end('"scopes":["infer"]}') }
    }
    const [finishing, never] = [slow(), slow()]
    await new Promise((resolve) => setTimeout(resolve, 100))
    const ended = server.close(1)
    await expect(fetch(new URL('healthz', server.url))).rejects.toThrow()
    finishing.finish()
    expect(await finishing.status).toBe(201)
    expect(await never.status).toBe('cut')
    await ended
  })
})

describe('rollout-lab serve', () => {
  const rolloutLab = (cwd: string, ...args: string[]) =>
    spawnSync(process.execPath, [join(ROOT, 'bin/rollout-lab.mjs'), ...args], {
      cwd,
      encoding: 'utf8',
      env: { ...process.env, ROLLOUT_LAB_DATA: '', ROLLOUT_LAB_SERVER: undefined, ROLLOUT_LAB_KEY: undefined },
    })

  it('--check says what is wrong, at its place; --init makes a file and one key', () => {
    const folder = temporary()
    const file = join(folder, 'server.toml')
    writeFileSync(file, '[server]\nport = "x"\n')
    const wrong = rolloutLab(folder, 'serve', '--check', '--config', file)
    expect([wrong.status, wrong.stderr]).toEqual([
      1,
      expect.stringContaining(`${file}:2:8: server.port must be a number`),
    ])
    writeFileSync(file, '[secrets]\nkey_env = "ROLLOUT_LAB_NO_SUCH_KEY"\n')
    expect(rolloutLab(folder, 'serve', '--check', '--config', file).stderr).toContain(
      'ROLLOUT_LAB_NO_SUCH_KEY, which is not set',
    )

    const fresh = temporary()
    const made = rolloutLab(fresh, 'serve', '--init')
    expect([made.status, made.stdout]).toEqual([0, expect.stringMatching(/^rlk_[\w-]{43}\n$/)])
    const check = rolloutLab(fresh, 'serve', '--check', '--config', 'server.toml')
    expect([check.status, check.stdout]).toEqual([0, expect.stringContaining('of this machine alone')])
    const again = rolloutLab(fresh, 'serve', '--init')
    expect([again.status, again.stdout]).toEqual([1, ''])
    expect(again.stderr).toContain('There is an operator key already: operator')
  }, 120_000)
})

function statusOf(url: string, path: string, headers: Record<string, string>): Promise<number> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    request({ hostname, port, path, headers }, (answer) => resolve(answer.resume().statusCode!))
      .on('error', reject)
      .end()
  })
}
