// Adapters: taken in once, served by every node that can, put back into every node that forgot them.

import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { AdapterDesk } from '../../server/proxy/adapters/desk.ts'
import { AdaptersInMemory } from '../../server/proxy/adapters/store.ts'
import type { AdapterView } from '../../server/proxy/views.ts'
import type { ScriptedNode } from './scriptedNode.ts'
import { chat, nodes, type Started, send, start, stopLater, times, until } from './started.ts'

const FIXTURE = join(ROOT, 'test/policy/fixtures/adapter')
const CONFIG = JSON.parse(readFileSync(join(FIXTURE, 'adapter_config.json'), 'utf8'))
const WEIGHTS = readFileSync(join(FIXTURE, 'adapter_model.safetensors'))
const BASE = 'qwen3-tied'
const OFTEN = { health: { every_seconds: 0.05, again_seconds: 0.02, models_every_seconds: 0.2 } }

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'rollout-lab-adapters-'))
  stopLater(async () => rmSync(made, { recursive: true, force: true }))
  return made
}

/** Nodes that read below `/seen` what the server writes to a folder of its own. */
async function withAdapters(behind: ScriptedNode[], { config = {}, more = {}, shared = folder() } = {}) {
  const own = folder()
  const store = new AdaptersInMemory()
  const adapters = await AdapterDesk.open(store, own, 1_000_000)
  const started = await start(
    behind,
    { ...OFTEN, ...config },
    { adapter_root: { server: shared, node: '/seen' }, ...more },
    { adapters },
  )
  return { started, own, shared, store, adapters }
}

async function upload(
  started: Started,
  { name = 'reverse', config = CONFIG, weights = WEIGHTS, key = 'operator', base }: Record<string, unknown> = {},
) {
  const announced = await send(
    started,
    '/api/proxy/adapters',
    { name, config, ...(base !== undefined && { base }) },
    { key: key as string },
  )
  if (announced.status !== 201) return announced
  return send(started, announced.json.upload, undefined, {
    key: key as string,
    method: 'PUT',
    raw: weights as Buffer,
    headers: { 'content-type': 'application/octet-stream' },
  })
}

const models = (node: ScriptedNode) => node.asked.map(({ body }) => JSON.parse(body).model)

describe('an adapter', () => {
  it('is on every node when its upload is answered, under a name that its content makes', async () => {
    const behind = await nodes({ models: [BASE] }, { models: [BASE] })
    const { started, own, shared } = await withAdapters(behind)
    const answer = await upload(started)
    expect(answer.status).toBe(201)
    const view = answer.json as AdapterView
    expect(view).toMatchObject({
      project: 'team',
      name: 'reverse',
      version: 1,
      baseModel: BASE,
      rank: 4,
      bytes: WEIGHTS.length,
    })
    expect(view.sha256).toBe(createHash('sha256').update(WEIGHTS).digest('hex'))
    expect(view.servedName).toMatch(/^team\.reverse\.v1\.[0-9a-f]{8}$/)
    expect(view.nodes).toEqual(['a', 'b'].map((node) => ({ node, state: 'loaded', reason: null })))
    for (const node of behind)
      expect([...node.adapters]).toEqual([[view.servedName, { root: `/seen/${view.servedName}`, parent: BASE }]])
    for (const root of [own, shared]) {
      expect(readFileSync(join(root, view.servedName, 'adapter_model.safetensors')).equals(WEIGHTS)).toBe(true)
      expect(JSON.parse(readFileSync(join(root, view.servedName, 'adapter_config.json'), 'utf8'))).toEqual(CONFIG)
      expect(readdirSync(root)).toEqual([view.servedName])
    }
  })

  it('is asked for by name, by version, or through an alias, and by its own project alone', async () => {
    const [node] = await nodes({ models: [BASE] })
    const { started } = await withAdapters([node], { config: { aliases: { best: 'reverse' } } })
    const one = (await upload(started)).json.servedName
    const two = (await upload(started)).json.servedName
    for (const model of ['reverse', 'reverse@1', 'reverse@2', 'best', one])
      expect((await chat(started, { model })).status).toBe(200)
    expect(models(node)).toEqual([two, one, two, two, one])
    for (const model of ['reverse', 'reverse@1', one, 'best']) {
      const { status, json } = await chat(started, { model }, { key: 'other' })
      expect([model, status, json.error.code]).toEqual([model, 404, 'model_not_found'])
    }
    const listed = async (key: string) =>
      (await send(started, '/v1/models', undefined, { key })).json.data.map(({ id }: { id: string }) => id)
    expect(await listed('user')).toEqual([BASE, 'best', 'reverse', 'reverse@1', 'reverse@2'])
    expect(await listed('other')).toEqual([BASE, 'best'])
    expect((await send(started, '/api/proxy/adapters', undefined, { key: 'other' })).json.adapters).toEqual([])
  })

  it('goes only where it is loaded', async () => {
    const behind = await nodes({ models: [BASE] }, { models: [BASE], readable: () => false }, { models: ['another'] })
    const { started } = await withAdapters(behind)
    const { nodes: states } = (await upload(started)).json as AdapterView
    expect(states.map(({ state }) => state)).toEqual(['loaded', 'no-shared-path', 'no-base'])
    expect(states[1].reason).toMatch(/^it cannot see \/seen\/team\.reverse/)
    const answers = await Promise.all(times(12, () => chat(started, { model: 'reverse' })))
    expect(answers.map(({ headers }) => headers['x-rollout-lab-node'])).toEqual(times(12, () => 'a'))
    const base = await Promise.all(times(12, () => chat(started, { model: BASE })))
    expect(new Set(base.map(({ headers }) => headers['x-rollout-lab-node']))).toEqual(new Set(['a', 'b']))
  })

  it('is back on a node that was killed, before it is asked for there', async () => {
    const [a, b] = await nodes({ models: [BASE] }, { models: [BASE] })
    const { started } = await withAdapters([a, b])
    const { servedName } = (await upload(started)).json
    await a.die()
    const meanwhile = await Promise.all(times(20, () => chat(started, { model: 'reverse' })))
    expect(meanwhile.map(({ status }) => status)).toEqual(times(20, () => 200))
    await a.revive()
    expect(a.adapters.size).toBe(0)
    const before = a.asked.length
    await until(() => a.adapters.has(servedName))
    await until(async () => (await chat(started, { model: 'reverse' })).headers['x-rollout-lab-node'] === 'a')
    expect(a.asked.length).toBeGreaterThan(before)
    expect(models(a).every((model) => model === servedName)).toBe(true)
  })

  it('is put back into a node that restarted between two health checks, unseen', async () => {
    const [a, b] = await nodes({ models: [BASE] }, { models: [BASE] })
    const { started } = await withAdapters([a, b], { config: { health: { every_seconds: 60 } } })
    const { servedName } = (await upload(started)).json
    a.adapters.clear()
    const answers = await Promise.all(times(10, () => chat(started, { model: 'reverse' })))
    expect(answers.map(({ status }) => status)).toEqual(times(10, () => 200))
    await until(() => a.adapters.has(servedName))
  })

  it('is put back by the next start of the server, and what nobody wants is unloaded', async () => {
    const [node] = await nodes({ models: [BASE] })
    const { started, own, shared, store } = await withAdapters([node])
    const { servedName } = (await upload(started)).json
    await started.proxy.close()
    node.adapters.clear()
    node.adapters.set('team.old.v1.00000000', { root: '/seen/team.old.v1.00000000', parent: BASE })
    node.adapters.set('by-hand', { root: '/home/somebody/adapter', parent: BASE })
    const adapters = await AdapterDesk.open(store, own, 1_000_000)
    const again = await start([node], OFTEN, { adapter_root: { server: shared, node: '/seen' } }, { adapters })
    await until(() => node.adapters.has(servedName))
    expect([...node.adapters.keys()].sort()).toEqual(['by-hand', servedName].sort())
    expect((await chat(again, { model: 'reverse' })).status).toBe(200)
    expect((await chat(again, { model: 'by-hand' })).status).toBe(200)
  })

  it('that is removed is gone from nodes and folders', async () => {
    const [node] = await nodes({ models: [BASE] })
    const { started, own, shared } = await withAdapters([node])
    const { id } = (await upload(started)).json
    expect(
      (await send(started, `/api/proxy/adapters/${id}`, undefined, { method: 'DELETE', key: 'operator' })).status,
    ).toBe(204)
    expect([node.adapters.size, readdirSync(own), readdirSync(shared)]).toEqual([0, [], []])
    expect((await chat(started, { model: 'reverse' })).status).toBe(404)
  })

  it('whose name a node has given to another is put in its place', async () => {
    const [node] = await nodes({ models: [BASE] })
    const { started, adapters } = await withAdapters([node])
    const { servedName } = (await upload(started)).json
    node.adapters.set(servedName, { root: '/elsewhere', parent: BASE })
    await until(() => node.adapters.get(servedName)?.root === `/seen/${servedName}`)
    expect(adapters.view('team')[0].nodes[0].state).toBe('loaded')
  })

  it('that no node has loaded is a 503 that says where to look', async () => {
    const [node] = await nodes({ models: [BASE], readable: () => false })
    const { started } = await withAdapters([node])
    await upload(started)
    const { status, json } = await chat(started, { model: 'reverse' })
    expect([status, json.error.code]).toEqual([503, 'adapter_not_loaded'])
  })

  it('stays off a node whose folder is not there', async () => {
    const [node] = await nodes({ models: [BASE] })
    const { started } = await withAdapters([node], { shared: join(tmpdir(), 'rollout-lab-not-there') })
    const { nodes: states } = (await upload(started)).json as AdapterView
    expect(states[0].state).toBe('no-shared-path')
    expect(existsSync(join(tmpdir(), 'rollout-lab-not-there'))).toBe(false)
  })

  it('is loaded at the admin address, which users never reach', async () => {
    const [node, admin] = await nodes({ models: [BASE] }, { models: [BASE] })
    const { started } = await withAdapters([node], { more: { admin_url: admin.url } })
    await upload(started)
    expect(admin.adapters.size).toBe(1)
    expect(node.received.filter(({ path }) => path.includes('lora'))).toEqual([])
  })
})

describe('an upload', () => {
  const wrong: [string, Record<string, unknown>, number, string][] = [
    ['a name that is a path', { name: '../../x' }, 400, 'bad_name'],
    ['a name with a version', { name: 'x@1' }, 400, 'bad_name'],
    ['the name of a model', { name: BASE }, 409, 'name_taken'],
    ['a rank above every node’s', { config: { ...CONFIG, r: 17 } }, 400, 'rank_too_high'],
    [
      'one module’s rank above every node’s',
      { config: { ...CONFIG, rank_pattern: { q_proj: 32 } } },
      400,
      'rank_too_high',
    ],
    ['a base model that nobody serves', { config: { ...CONFIG, base_model_name_or_path: 'gpt-5' } }, 400, 'no_base'],
    ['DoRA', { config: { ...CONFIG, use_dora: true } }, 400, 'bad_adapter'],
    ['no LoRA', { config: { ...CONFIG, peft_type: 'IA3' } }, 400, 'bad_adapter'],
    ['whole modules', { config: { ...CONFIG, modules_to_save: ['lm_head'] } }, 400, 'bad_adapter'],
    ['weights of a higher rank than it says', { config: { ...CONFIG, r: 2 } }, 400, 'bad_adapter'],
    ['weights that are cut', { weights: WEIGHTS.subarray(0, -1) }, 400, 'bad_adapter'],
    ['weights that are too long', { weights: Buffer.concat([WEIGHTS, Buffer.alloc(1)]) }, 400, 'bad_adapter'],
    ['weights that are none', { weights: Buffer.from('PK\x03\x04 something else') }, 400, 'bad_adapter'],
    ['a header that lies about its length', { weights: Buffer.alloc(16, 0xff) }, 400, 'bad_adapter'],
    ['more bytes than the limit', { weights: Buffer.alloc(1_000_001) }, 413, 'too_large'],
  ]
  it.each(wrong)('with %s is refused, and leaves nothing behind', async (_what, given, status, code) => {
    const [node] = await nodes({ models: [BASE] })
    const { started, own, adapters } = await withAdapters([node])
    const answer = await upload(started, given)
    expect([answer.status, answer.json.error.code]).toEqual([status, code])
    expect(answer.json.error.message).toMatch(/\.$/)
    expect([readdirSync(own), adapters.wanted, node.adapters.size]).toEqual([[], [], 0])
  })

  it('beyond the number that nodes take is refused', async () => {
    const [node] = await nodes({ models: [BASE] })
    const { started } = await withAdapters([node], { more: { max_adapters: 1 } })
    expect((await upload(started)).status).toBe(201)
    expect((await upload(started, { name: 'second' })).json.error.code).toBe('too_many_adapters')
  })

  it('is the operator’s, and its second half its own project’s', async () => {
    const [node] = await nodes({ models: [BASE] })
    const { started } = await withAdapters([node])
    expect((await upload(started, { key: 'user' })).status).toBe(403)
    const none = await send(started, '/api/proxy/adapters/01ARZ3NDEKTSV4RRFFQ69G5FAV/weights', undefined, {
      key: 'operator',
      method: 'PUT',
      raw: WEIGHTS,
    })
    expect(none.status).toBe(404)
  })

  it('ten at once are ten versions', async () => {
    const [node] = await nodes({ models: [BASE] })
    const { started } = await withAdapters([node], { more: { max_adapters: 10 } })
    const views = await Promise.all(times(10, () => upload(started)))
    expect(views.map(({ json }) => json.version).sort((a, b) => a - b)).toEqual(times(10, (i) => i + 1))
  })
})
