// Where a request goes, and where it waits.

import { describe, expect, it } from 'vitest'
import { nodeSchema, proxySchema } from '../../server/proxy/config.ts'
import { answerBriefly, type Behaviour, type Script, ScriptedNode } from './scriptedNode.ts'
import { type Answered, CHAT, chat, nodeConfigs, nodes, send, start, stopLater, times, until } from './started.ts'

/** Answers when it is let go. */
function held() {
  const waiting: (() => void)[] = []
  const behave: Behaviour = async (request, response) => {
    await new Promise<void>((resolve) => waiting.push(resolve))
    await answerBriefly(request, response)
  }
  return { behave, waiting, release: () => waiting.splice(0).map((go) => go()) }
}

const on = (answers: Answered[]) => answers.map(({ headers }) => headers['x-rollout-lab-node'])
const FAST = { health: { every_seconds: 0.05, again_seconds: 0.02, models_every_seconds: 0.1 } }

describe('the least loaded node', () => {
  it('gets the next request: ours are spread evenly', async () => {
    const { behave, waiting, release } = held()
    const behind = await nodes({ behave }, { behave }, { behave })
    const started = await start(behind)
    const asked = times(60, () => chat(started))
    await until(() => waiting.length === 60)
    expect(behind.map(({ asked }) => asked.length)).toEqual([20, 20, 20])
    release()
    await Promise.all(asked)
  })

  it("is judged by the node's own numbers: others may use it too", async () => {
    const { behave, waiting, release } = held()
    const behind = await nodes({ behave, load: { running: 20, waiting: 10, kvCache: 0.5 } }, { behave })
    const started = await start(behind)
    const asked = times(40, () => chat(started))
    await until(() => waiting.length === 40)
    // 20 running and 10 waiting, which count twice, are as much as 40 of ours.
    expect(behind.map(({ asked }) => asked.length)).toEqual([0, 40])
    asked.push(...times(10, () => chat(started)))
    await until(() => waiting.length === 50)
    expect(behind.map(({ asked }) => asked.length)).toEqual([5, 45])
    const [{ load }] = (await send(started, '/api/proxy/nodes')).json.nodes
    expect(load).toMatchObject({ running: 20, waiting: 10, kvCache: 0.5 })
    release()
    await Promise.all(asked)
  })

  it('is judged by size: places count as a share', async () => {
    const { behave, waiting, release } = held()
    const behind = await nodes({ behave }, { behave })
    const started = await start(behind, {}, [{ max_in_flight: 30 }, { max_in_flight: 10 }])
    const asked = times(40, () => chat(started))
    await until(() => waiting.length === 40)
    expect(behind.map(({ asked }) => asked.length)).toEqual([30, 10])
    release()
    await Promise.all(asked)
  })
})

describe('a session', () => {
  it('stays on its node, sessions are spread, and a lost node moves only its own', async () => {
    const behind = await nodes({}, {}, {})
    const started = await start(behind)
    const visit = async (session: number) =>
      on([await chat(started, {}, { headers: { 'x-session-id': `session ${session}` } })])[0]
    const homes = await Promise.all(times(60, visit))
    for (const name of ['a', 'b', 'c']) expect(homes.filter((home) => home === name).length).toBeGreaterThan(8)
    expect(await Promise.all(times(60, visit))).toEqual(homes)
    await behind[1].die()
    await chat(started)
    await until(() => started.proxy.fleet.node('b')!.health === 'down')
    const moved = await Promise.all(times(60, visit))
    expect(moved.filter((home, i) => homes[i] !== 'b' && home !== homes[i])).toEqual([])
    expect(moved).not.toContain('b')
  })

  it('leaves a node that is much fuller than the others', async () => {
    const { behave, waiting, release } = held()
    const behind = await nodes({ behave }, { behave })
    const started = await start(behind, {}, { max_in_flight: 20 })
    const asked = times(20, () => chat(started, {}, { headers: { 'x-session-id': 'one' } }))
    await until(() => waiting.length === 20)
    const counts = behind.map(({ asked }) => asked.length).sort((a, b) => a - b)
    // A quarter of 20 places more than the emptiest: 5 at least.
    expect(counts[0]).toBeGreaterThanOrEqual(7)
    expect(counts[1] - counts[0]).toBeGreaterThanOrEqual(4)
    release()
    await Promise.all(asked)
  })
})

it('a long beginning that a node has seen goes there again', async () => {
  const behind = await nodes({}, {}, {})
  const started = await start(behind)
  const long = (topic: number) => ({ role: 'system', content: `Topic ${topic}. `.repeat(200) })
  for (let topic = 0; topic < 6; topic++) {
    const home = on([await chat(started, { messages: [long(topic)] })])[0]
    for (let turn = 0; turn < 4; turn++)
      expect(on([await chat(started, { messages: [long(topic), { role: 'user', content: `turn ${turn}` }] })])).toEqual(
        [home],
      )
  }
  expect(behind.filter(({ asked }) => asked.length > 0).length).toBeGreaterThan(1)
})

describe('the queue', () => {
  it('holds what no node has a place for, in order, and says how many', async () => {
    const { behave, waiting, release } = held()
    const [node] = await nodes({ behave })
    const started = await start([node], {}, { max_in_flight: 2 })
    const asked = times(6, (i) => chat(started, { user: String(i) }))
    await until(() => started.proxy.fleet.queue.size === 4)
    expect((await send(started, '/api/proxy/queue')).json).toMatchObject({
      waiting: 4,
      capacity: 256,
      patienceSeconds: 30,
      byModel: [{ model: 'base', waiting: 4 }],
    })
    for (let left = 4; left >= 0; left -= 2) {
      await until(() => waiting.length === 2 && started.proxy.fleet.queue.size === left)
      release()
    }
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual(times(6, () => 200))
    expect(
      node.asked
        .map(({ body }) => JSON.parse(body).user)
        .slice(0, 2)
        .sort(),
    ).toEqual(['0', '1'])
  })

  it('is fair by key: a hundred of one do not keep another waiting', async () => {
    const { behave, waiting, release } = held()
    const [node] = await nodes({ behave })
    const started = await start([node], {}, { max_in_flight: 1 })
    const crowd = times(40, () => chat(started, { user: 'crowd' }))
    await until(() => started.proxy.fleet.queue.size === 39)
    const few = times(3, () => chat(started, { user: 'few' }, { key: 'second' }))
    await until(() => started.proxy.fleet.queue.size === 42)
    for (let i = 0; i < 43; i++) {
      await until(() => waiting.length === 1)
      release()
    }
    await Promise.all([...crowd, ...few])
    const places = node.asked.map(({ body }, i) => (JSON.parse(body).user === 'few' ? i : -1)).filter((i) => i >= 0)
    expect(places).toHaveLength(3)
    // Turns alternate from the moment the few have come.
    expect(places[2]).toBeLessThanOrEqual(7)
  })

  it('that is full answers with 429 and when to come again, and the longest line gives way first', async () => {
    const { behave, waiting, release } = held()
    const [node] = await nodes({ behave })
    const started = await start([node], { queue: { capacity: 4 } }, { max_in_flight: 1 })
    const crowd = times(5, () => chat(started))
    await until(() => started.proxy.fleet.queue.size === 4)
    const over = await chat(started)
    expect([over.status, over.json.error.code, over.headers['retry-after']]).toEqual([429, 'queue_full', '5'])
    const other = chat(started, {}, { key: 'other' })
    const settled = await Promise.race([...crowd, other])
    expect([settled.status, settled.json.error.code]).toEqual([429, 'queue_full'])
    while (node.asked.length < 5) {
      await until(() => waiting.length === 1)
      release()
    }
    release()
    await until(() => waiting.length === 0)
    expect((await other).status).toBe(200)
    expect((await Promise.all(crowd)).map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 429])
  })

  it('has patience, and then answers with 429', async () => {
    const { behave, release } = held()
    const [node] = await nodes({ behave })
    const started = await start([node], { queue: { patience_seconds: 0.2 } }, { max_in_flight: 1 })
    const first = chat(started)
    await until(() => node.asked.length === 1)
    const late = await chat(started)
    expect([late.status, late.json.error.code]).toEqual([429, 'queue_timeout'])
    release()
    expect((await first).status).toBe(200)
  })

  it('does not wait for what cannot come: no node up', async () => {
    const [node] = await nodes({})
    const started = await start([node])
    await node.die()
    expect((await chat(started)).status).toBe(502)
    const { status, json, headers } = await chat(started)
    expect([status, json.error.code, headers['retry-after']]).toEqual([503, 'no_node_up', '10'])
  })

  it('bridges the start: a request that comes before the first check waits for it', async () => {
    const node = new ScriptedNode()
    await node.revive()
    stopLater(() => node.die())
    const started = await start([node])
    started.proxy.configure(proxySchema.parse({}), [
      ...nodeConfigs([node]),
      nodeSchema.parse({ name: 'z', url: node.url }),
    ])
    started.proxy.configure(proxySchema.parse({}), [nodeSchema.parse({ name: 'y', url: node.url })])
    const answer = await chat(started)
    expect([answer.status, answer.headers['x-rollout-lab-node']]).toEqual([200, 'y'])
  })
})

describe('draining', () => {
  it('sends nothing new, lets what is there end, and can be undone', async () => {
    const { behave, waiting, release } = held()
    const behind = await nodes({ behave }, {})
    const started = await start(behind)
    const asked = times(4, () => chat(started))
    await until(() => waiting.length === 2)
    const drained = await send(started, '/api/proxy/nodes/a/drain', {}, { key: 'operator' })
    expect(drained.json).toMatchObject({ name: 'a', state: 'draining', inFlight: 2, reason: 'An operator drained it.' })
    expect(on(await Promise.all(times(10, () => chat(started))))).toEqual(times(10, () => 'b'))
    release()
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect(started.proxy.fleet.node('a')!.state.state).toBe('drained')
    await send(started, '/api/proxy/nodes/a/undrain', {}, { key: 'operator' })
    behind[0].script.behave = answerBriefly
    expect(on(await Promise.all(times(10, () => chat(started))))).toContain('a')
  })
})

describe('the config', () => {
  it('brings nodes, takes nodes away, and changes others while requests are under way', async () => {
    const { behave, waiting, release } = held()
    const behind = await nodes({ behave }, { models: ['new'] })
    const started = await start([behind[0]])
    const asked = chat(started)
    await until(() => waiting.length === 1)
    started.proxy.configure(proxySchema.parse({ aliases: { fresh: 'new' } }), [
      nodeSchema.parse({ name: 'b', url: behind[1].url }),
    ])
    expect((await chat(started, { model: 'fresh' })).headers['x-rollout-lab-node']).toBe('b')
    expect((await chat(started)).status).toBe(404)
    release()
    expect((await asked).status).toBe(200)
  })

  it('names a key that it does not know', () => {
    const { error } = proxySchema.safeParse({ deadlines: { first_bite_seconds: 1 } })
    expect(error?.issues[0]).toMatchObject({ code: 'unrecognized_keys', keys: ['first_bite_seconds'] })
  })

  it('gives single routes and models deadlines of their own', async () => {
    const [node] = await nodes({ models: ['base', 'slow'], behave: () => {} })
    const started = await start([node], {
      deadline: [{ answer_seconds: 0.1 }, { model: 'slow', answer_seconds: 0.3 }],
    })
    expect((await chat(started)).json.error.message).toContain('for 0.1 s')
    expect((await chat(started, { model: 'slow' })).json.error.message).toContain('for 0.3 s')
  })
})

describe('rates', () => {
  it('end with 429 and the seconds to wait, for this key alone', async () => {
    const [node] = await nodes({})
    const started = await start([node], {
      rates: { requests_per_minute: 3 },
      rate: [{ key: 'second', requests_per_minute: 5 }],
    })
    const statuses = async (key: string) => {
      const all: number[] = []
      for (let i = 0; i < 6; i++) all.push((await chat(started, {}, { key })).status)
      return all
    }
    expect(await statuses('user')).toEqual([200, 200, 200, 429, 429, 429])
    expect(await statuses('second')).toEqual([200, 200, 200, 200, 200, 429])
    const { json, headers } = await chat(started)
    expect(json.error.code).toBe('requests_per_minute')
    expect(Number(headers['retry-after'])).toBeGreaterThan(10)
    expect(Number(headers['retry-after'])).toBeLessThanOrEqual(20)
  })

  it('count tokens when they are known: who owes waits', async () => {
    const [node] = await nodes({})
    const started = await start([node], { rate: [{ project: 'team', tokens_per_minute: 15 }] })
    // Ten tokens each: five are left after the first, five are owed after the second.
    expect((await chat(started)).status).toBe(200)
    expect((await chat(started, { stream: true })).status).toBe(200)
    const { status, json } = await chat(started)
    expect([status, json.error.code]).toEqual([429, 'tokens_per_minute'])
    expect((await chat(started, {}, { key: 'other' })).status).toBe(200)
  })
})

it('health: three bad checks put a node down, two good ones bring it back', async () => {
  const script: Partial<Script> = {}
  const [node] = await nodes(script)
  const started = await start([node], FAST)
  node.script.healthy = false
  await until(() => started.proxy.fleet.node('a')!.state.state === 'down')
  const bad = node.received.filter(({ path }) => path === '/health').length
  expect(bad).toBeGreaterThanOrEqual(3)
  expect(started.proxy.fleet.node('a')!.state.reason).toBe('Asked for its health: /health answered with 500.')
  node.script.healthy = true
  await until(() => started.proxy.fleet.node('a')!.state.state === 'up')
  expect(node.received.filter(({ path }) => path === '/health').length - bad).toBeGreaterThanOrEqual(2)
  expect((await send(started, '/v1/chat/completions', CHAT)).status).toBe(200)
})
