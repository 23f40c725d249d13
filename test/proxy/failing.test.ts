// Nodes that hang, cut, lie, stall and die, and what a client sees of it.

import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import {
  answerBriefly,
  type Behaviour,
  chunkOf,
  cutAfter,
  fail,
  hang,
  json,
  LAST_CHUNKS,
  ScriptedNode,
} from './scriptedNode.ts'
import { CHAT, chat, nodes, type Started, send, start, stopLater, times, until } from './started.ts'

const QUICK = { deadlines: { first_byte_seconds: 0.6, answer_seconds: 0.6, gap_seconds: 0.6 } }
const first = (started: Started) => started.proxy.fleet.node('a')!

describe('a node that dies', () => {
  it('costs no request that had not begun, while others live', async () => {
    const behind = await nodes({}, {}, {})
    const started = await start(behind)
    await behind[0].die()
    const answers = await Promise.all(times(60, () => chat(started)))
    expect(answers.map(({ status }) => status)).toEqual(times(60, () => 200))
    expect(first(started).state.state).toBe('down')
    expect(first(started).state.reason).toContain('refused the connection')
  })

  it('cuts 200 in flight: every cut stream says so, and every other is answered', async () => {
    let begun = 0
    let waiting = 0
    let go!: () => void
    const held = new Promise<void>((resolve) => {
      go = resolve
    })
    // Odd requests have seen two words when the node dies, even ones nothing.
    const behave: Behaviour = async ({ body }, response) => {
      if (!response.headersSent && JSON.parse(body).user === 'begun') {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(chunkOf('one') + chunkOf('two'))
        begun++
      } else waiting++
      await held
      if (response.destroyed) return
      if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(chunkOf('three') + LAST_CHUNKS)
    }
    const behind = await nodes({ behave }, { behave }, { behave })
    const started = await start(behind)
    const asked = times(200, (i) => chat(started, { stream: true, user: i % 2 ? 'begun' : 'waiting' }))
    await until(() => begun + waiting === 200)
    const onDead = behind[0].asked.map(({ body }) => JSON.parse(body).user)
    expect(onDead.length).toBeGreaterThan(50)
    await behind[0].die()
    await until(() => begun + waiting === 200 + onDead.filter((user) => user === 'waiting').length)
    go()
    const answers = await Promise.all(asked)
    expect(answers.every(({ status, broken }) => status === 200 && !broken)).toBe(true)
    const cut = answers.filter(({ text }) => !text.endsWith('data: [DONE]\n\n'))
    expect(cut).toHaveLength(onDead.filter((user) => user === 'begun').length)
    for (const { text } of cut) {
      const events = text.split('\n\n').filter(Boolean)
      expect(events).toHaveLength(3)
      expect(JSON.parse(events[2].slice(6)).error.code).toBe('stream_cut')
    }
    // A request is on its second node, and no third, and none twice.
    for (const answer of answers) expect(['1', '2']).toContain(answer.headers['x-rollout-lab-attempts'])
  })

  it('and a request that ends every node that it is sent to ends two of them', async () => {
    const behind = await nodes({}, {}, {})
    for (const node of behind) node.script.behave = () => void node.die()
    const started = await start(behind)
    const { status, json: body } = await chat(started)
    expect([status, body.error.code]).toEqual([502, 'node_failed'])
    expect(behind.map(({ asked }) => asked.length).sort()).toEqual([0, 1, 1])
  })

  it('comes back by two good health checks, with one request as its probe', async () => {
    const [a, b] = await nodes({}, {})
    const started = await start([a, b], { health: { every_seconds: 0.05, again_seconds: 0.02 } })
    await a.die()
    await until(() => first(started).state.state === 'down')
    first(started).breaker.open('test')
    await a.revive()
    await until(() => first(started).state.state === 'probing')
    expect(a.asked).toHaveLength(0)
    await chat(started)
    expect(first(started).state.state).toBe('up')
  })
})

it('a node that is killed and revived is back with the default times, every one of them', async () => {
  const behind = await nodes({}, {})
  const started = await start(behind)
  await behind[0].die()
  expect((await Promise.all(times(10, () => chat(started)))).every(({ status }) => status === 200)).toBe(true)
  expect(first(started).state.state).toBe('down')
  await behind[0].revive()
  await until(() => first(started).state.state !== 'down')
  const answers = await Promise.all(times(20, () => chat(started)))
  expect(answers.every(({ status }) => status === 200)).toBe(true)
  expect(behind[0].asked.length).toBeGreaterThan(0)
  expect(first(started).state.state).toBe('up')
})

describe('a node that hangs', () => {
  it('loses its request to another by the deadline of the first byte', async () => {
    const [a, b] = await nodes({ behave: hang }, {})
    const started = await start([a, b], QUICK)
    const answers = await Promise.all(times(8, () => chat(started, { stream: true })))
    expect(answers.every(({ status, text }) => status === 200 && text.endsWith('data: [DONE]\n\n'))).toBe(true)
    const twice = answers.filter(({ headers }) => headers['x-rollout-lab-attempts'] === '2')
    expect(twice).toHaveLength(a.asked.length)
    expect(a.asked.length).toBeGreaterThan(0)
    await until(() => a.asked.every(({ aborted }) => aborted))
  })

  it('after its head is not taken for one that answers', async () => {
    const [a, b] = await nodes(
      {
        behave: (_request, response) => {
          response.writeHead(200, { 'content-type': 'text/event-stream' })
          response.flushHeaders()
        },
      },
      {},
    )
    const started = await start([a, b], QUICK)
    for (const answer of await Promise.all(times(4, () => chat(started, { stream: true })))) {
      expect(answer.text).toContain('[DONE]')
      expect(answer.headers['x-rollout-lab-node']).toBe('b')
    }
  })

  it('in the middle of a stream is cut, and the client told', async () => {
    const [a] = await nodes({
      behave: (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(chunkOf('one'))
      },
    })
    const answer = await chat(await start([a], QUICK), { stream: true })
    const events = answer.text.split('\n\n').filter(Boolean)
    expect(events).toHaveLength(2)
    expect(JSON.parse(events[1].slice(6)).error.message).toBe(
      'The answer was cut: node a failed (it fell silent for 0.6 s).',
    )
  })

  it('alone is a 504 that says which and how long', async () => {
    const [a] = await nodes({ behave: hang })
    const { status, json: body } = await chat(await start([a], QUICK))
    expect([status, body.error.code]).toEqual([504, 'node_late'])
    expect(body.error.message).toBe('Node a failed: it sent nothing for 0.6 s.')
  })

  it('that trickles for ever is ended by the deadline of the whole', async () => {
    const [a] = await nodes({
      behave: async (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        while (!response.destroyed) {
          response.write(chunkOf('more'))
          await new Promise((resolve) => setTimeout(resolve, 20))
        }
      },
    })
    const answer = await chat(await start([a], { deadlines: { whole_seconds: 0.3 } }), { stream: true })
    expect(answer.text).toContain('the whole answer took more than 0.3 s')
    expect(answer.text).not.toContain('[DONE]')
    await until(() => a.asked[0].aborted)
  })
})

describe('a node that cuts', () => {
  it('ends a stream with one error event and no [DONE], and half an event is not passed on', async () => {
    const [a, b] = await nodes(
      { behave: cutAfter(3, 'data: {"choices":[{"del') },
      { behave: cutAfter(3, 'data: {"ch') },
    )
    const answer = await chat(await start([a, b]), { stream: true })
    const events = answer.text.split('\n\n').filter(Boolean)
    expect(events).toHaveLength(4)
    for (const event of events) JSON.parse(event.slice(6))
    expect(answer.text.match(/"error"/g)).toHaveLength(1)
    expect(answer.text).not.toContain('[DONE]')
    expect(answer.headers['x-rollout-lab-attempts']).toBe('1')
    expect(a.asked.length + b.asked.length).toBe(1)
  })

  it('an answer that is not a stream is asked again elsewhere', async () => {
    const half: Behaviour = (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' })
      response.write('{"half":')
      setTimeout(() => response.socket!.destroy(), 10)
    }
    const [a, b] = await nodes({ behave: half }, {})
    const started = await start([a, b])
    for (const answer of await Promise.all(times(4, () => chat(started)))) expect(answer.json.choices).toHaveLength(1)
    expect(a.asked.length).toBeGreaterThan(0)
  })

  it('a long answer that has begun breaks the connection, so that it cannot be taken for whole', async () => {
    const [a] = await nodes({
      behave: async (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json' })
        await new Promise<void>((resolve) => response.write(`{"text":"${'x'.repeat(500_000)}`, () => resolve()))
        setTimeout(() => response.socket!.destroy(), 20)
      },
    })
    expect((await chat(await start([a]))).broken).toBe(true)
  })
})

describe('a node that lies', () => {
  const lies: [string, Behaviour][] = [
    [
      'an empty answer',
      (_request, response) => void response.writeHead(200, { 'content-type': 'application/json' }).end(),
    ],
    [
      'an empty stream',
      (_request, response) => void response.writeHead(200, { 'content-type': 'text/event-stream' }).end(),
    ],
    [
      'half an answer',
      (_request, response) => void response.writeHead(200, { 'content-type': 'application/json' }).end('{"a":'),
    ],
    [
      'a page',
      (_request, response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<script>1</script>'),
    ],
    ['a redirect', (_request, response) => void response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()],
    ['no type', (_request, response) => void response.writeHead(200).end('{}')],
    [
      'a stream that begins with an error',
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.end(
          'data: {"error":{"message":"engine is dead","type":"InternalServerError","code":500}}\n\ndata: [DONE]\n\n',
        )
      },
    ],
    [
      'a model that it does not have',
      (_request, response) => json(response, 404, { error: { message: 'no such model', code: 404 } }),
    ],
  ]
  it.each(lies)('with %s is not believed: another answers', async (_name, behave) => {
    const [a, b] = await nodes({ behave }, {})
    const started = await start([a, b])
    for (const answer of await Promise.all(times(4, () => chat(started)))) {
      expect(answer.json.choices[0].message.content).toBe('ok')
      expect(answer.headers['x-rollout-lab-node']).toBe('b')
    }
    expect(a.asked.length).toBeGreaterThan(0)
  })

  it.each(lies)('alone, with %s, is an error with a sentence', async (_name, behave) => {
    const [a] = await nodes({ behave })
    const { status, json: body } = await chat(await start([a]))
    expect([502, 404]).toContain(status)
    expect(body.error.message).toMatch(/^(Node a failed: .+\.|There is no model base)/)
  })

  it('about its health is found out by requests: its stream ends without [DONE]', async () => {
    const [a] = await nodes({
      behave: (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.end(chunkOf('one'))
      },
    })
    const started = await start([a])
    const { text } = await chat(started, { stream: true })
    expect(text).toContain('its stream ended without [DONE]')
    await Promise.all(times(4, () => chat(started, { stream: true })))
    expect(first(started).state.state).toBe('open')
  })
})

describe('a node that never says [DONE]', () => {
  // As `transformers serve` ends a stream.
  const finish =
    'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":1}}\n\n'
  const undone: Behaviour = (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(chunkOf('one') + finish)
  }

  it('is believed when its stream says why it finished', async () => {
    const [a] = await nodes({ behave: undone })
    const started = await start([a])
    const { text } = await chat(started, { stream: true })
    expect(text).toBe(chunkOf('one') + finish)
    const [row] = (await send(started, '/api/proxy/usage')).json.usage
    expect([row.failed, row.promptTokens, row.completionTokens, row.estimated]).toEqual([0, 4, 1, 0])
  })

  it('is not when it has said [DONE] before', async () => {
    const [a] = await nodes({})
    const started = await start([a])
    expect((await chat(started, { stream: true })).text).toContain('[DONE]')
    a.script.behave = undone
    expect((await chat(started, { stream: true })).text).toContain('its stream ended without [DONE]')
  })

  it('has failed when it tells of an error in words, which are passed on alone', async () => {
    const error = 'data: {"error": "CUDA out of memory"}\n\n'
    const [a] = await nodes({
      behave: (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(chunkOf('one'))
        setTimeout(() => response.end(error), 50)
      },
    })
    const started = await start([a])
    const { text } = await chat(started, { stream: true })
    expect(text).toBe(chunkOf('one') + error)
    expect((await send(started, '/api/proxy/usage')).json.usage[0].failed).toBe(1)
  })
})

it('a node that does not list its models serves those that the config names', async () => {
  const [a] = await nodes({ models: [], behave: answerBriefly })
  a.script.models = ['other']
  const started = await start([a], {}, { models: ['base'] })
  a.script.models = ['base']
  expect((await chat(started)).status).toBe(200)
})

describe('retries', () => {
  it('go to other nodes, twice at most, and the last words are the node’s own', async () => {
    const behind = await nodes(...times(4, () => ({ behave: fail(503) })))
    const started = await start(behind)
    const { status, json: body, headers } = await chat(started)
    expect([status, body.error.message, headers['x-rollout-lab-attempts']]).toEqual([503, 'scripted 503', '3'])
    expect(behind.map(({ asked }) => asked.length).sort()).toEqual([0, 1, 1, 1])
  })

  it('stay within their budget, so that an outage is not doubled', async () => {
    const behind = await nodes({ behave: fail(500) }, { behave: fail(500) }, { behave: fail(500) })
    // Breakers that never open: the budget alone is looked at.
    const started = await start(behind, {
      retries: { budget: 0.1, reserve: 10 },
      breaker: { consecutive: 1e6, least: 1e6 },
    })
    for (let i = 0; i < 10; i++) await Promise.all(times(20, () => chat(started)))
    const asked = behind.reduce((sum, node) => sum + node.asked.length, 0)
    // 200 requests, a reserve of 10 and a tenth of 200.
    expect(asked - 200).toBeLessThanOrEqual(10 + 20)
    expect(asked - 200).toBeGreaterThanOrEqual(20)
  })

  it('leave a node alone that asked for patience', async () => {
    const [a, b] = await nodes({ behave: fail(429, { 'retry-after': '30' }) }, {})
    const started = await start([a, b])
    for (let i = 0; i < 10; i++) expect((await chat(started)).status).toBe(200)
    expect(a.asked.length).toBe(1)
  })

  it('pass the patience on when nobody else is there', async () => {
    const [a] = await nodes({ behave: fail(429, { 'retry-after': '7' }) })
    const { status, headers } = await chat(await start([a]))
    expect([status, headers['retry-after']]).toEqual([429, '7'])
  })
})

describe('breakers', () => {
  it('stay closed for 1,000 errors of clients', async () => {
    const [a] = await nodes({ behave: fail(400) })
    const started = await start([a])
    for (let i = 0; i < 20; i++) {
      const answers = await Promise.all(times(50, () => chat(started)))
      expect(answers.every(({ status }) => status === 400)).toBe(true)
    }
    expect(a.asked).toHaveLength(1000)
    expect(first(started).state.state).toBe('up')
  })

  it('open after 5 errors of the server, and then exactly one request is the probe', async () => {
    const [a, b] = await nodes({ models: ['only-a', 'base'], behave: fail(500) }, {})
    const started = await start([a, b], {
      retries: { most: 0 },
      breaker: { open_seconds: 60 },
      health: { every_seconds: 60 },
    })
    for (let i = 0; i < 5; i++) expect((await chat(started, { model: 'only-a' })).status).toBe(500)
    expect(first(started).state.state).toBe('open')
    expect(first(started).state.reason).toBe('5 answers in a row failed: it answered with 500')
    for (const { headers } of await Promise.all(times(20, () => chat(started))))
      expect(headers['x-rollout-lab-node']).toBe('b')
    expect(a.asked).toHaveLength(5)

    let answer!: () => void
    const answered = new Promise<void>((resolve) => {
      answer = resolve
    })
    a.script.behave = async (request, response) => {
      await answered
      await answerBriefly(request, response)
    }
    first(started).breaker.until = Date.now()
    const crowd = times(50, () => chat(started))
    await until(() => b.asked.length === 20 + 49)
    expect(a.asked).toHaveLength(6)
    expect(first(started).state.state).toBe('probing')
    answer()
    expect((await Promise.all(crowd)).every(({ status }) => status === 200)).toBe(true)
    expect(first(started).state.state).toBe('up')
  })

  it('give the probe back when its client leaves', async () => {
    const [a] = await nodes({ behave: hang })
    const started = await start([a], { health: { every_seconds: 60 } })
    first(started).breaker.open('test')
    first(started).breaker.halfOpen()
    const client = connect(Number(new URL(started.url).port), '127.0.0.1')
    const body = JSON.stringify(CHAT)
    client.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer user\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    await until(() => first(started).breaker.probing)
    client.destroy()
    await until(() => !first(started).breaker.probing)
    expect(first(started).state.state).toBe('probing')
    a.script.behave = answerBriefly
    expect((await chat(started)).status).toBe(200)
    expect(first(started).state.state).toBe('up')
  })

  it('all open: the least bad node gets one request, marked as a last resort, and the others wait for it', async () => {
    const behind = await nodes({}, {})
    const started = await start(behind, { breaker: { open_seconds: 5 }, health: { every_seconds: 60 } })
    for (const node of started.proxy.fleet.nodes) node.breaker.open('test')
    for (const node of started.proxy.fleet.nodes) node.breaker.since -= 2000
    const answers = await Promise.all(times(10, () => chat(started)))
    expect(answers.every(({ status }) => status === 200)).toBe(true)
    expect(answers.filter(({ headers }) => headers['x-rollout-lab-last-resort'] === '1')).toHaveLength(1)
  })

  it('say in the list of nodes what they do, why, since when and until when', async () => {
    const [a] = await nodes({ behave: fail(500) })
    const started = await start([a], { health: { every_seconds: 60 } })
    for (let i = 0; i < 5; i++) await chat(started)
    const [view] = (await send(started, '/api/proxy/nodes')).json.nodes
    expect(view).toMatchObject({ name: 'a', state: 'open', inFlight: 0, maxInFlight: 256 })
    expect(Date.parse(view.until) - Date.parse(view.since)).toBe(10_000)
    expect(view.reason).toContain('500')
  })
})

describe('a client that', () => {
  const head = (started: Started, body: object) => {
    const text = JSON.stringify(body)
    const socket = connect(Number(new URL(started.url).port), '127.0.0.1')
    stopLater(async () => void socket.destroy())
    socket.on('error', () => {})
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer user\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
    )
    return socket
  }

  it.each([
    ['before the first byte', 0],
    ['in the middle of a stream', 2],
  ])('leaves %s ends the work on the node', async (_when, words) => {
    const [a] = await nodes({
      behave: (_request, response) => {
        if (!words) return
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        for (let i = 0; i < words; i++) response.write(chunkOf('word'))
      },
    })
    const started = await start([a])
    const client = head(started, { ...CHAT, stream: true })
    await until(() => a.asked.length === 1)
    if (words) await new Promise((resolve) => client.once('data', resolve))
    client.destroy()
    await until(() => a.asked[0].aborted)
    await until(() => first(started).inFlight === 0)
    expect(first(started).state.state).toBe('up')
  })

  it('leaves the queue leaves no trace in it', async () => {
    const [a] = await nodes({ behave: hang })
    const started = await start([a], {}, { max_in_flight: 1 })
    head(started, CHAT)
    await until(() => a.asked.length === 1)
    const second = head(started, CHAT)
    await until(() => started.proxy.fleet.queue.size === 1)
    second.destroy()
    await until(() => started.proxy.fleet.queue.size === 0)
    expect(a.asked).toHaveLength(1)
  })

  it('stalls on a stream of 64 MB lets no more than 16 MB be read from the node, and is dropped after its deadline', async () => {
    const event = Buffer.from(chunkOf('x'.repeat(64 * 1024)))
    let read = 0
    const [a] = await nodes({
      behave: async (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        const { socket } = response
        response.setMaxListeners(0)
        for (let sent = 0; sent < 64 * 1024 * 1024 && !response.destroyed; sent += event.length) {
          if (!response.write(event)) {
            await new Promise<void>((resolve) => {
              response.once('drain', resolve)
              response.once('close', resolve)
            })
          }
          read = Math.max(read, socket?.bytesWritten ?? 0)
        }
      },
    })
    const started = await start([a], { deadlines: { stalled_client_seconds: 1 } })
    const before = process.memoryUsage().rss
    const client = head(started, { ...CHAT, stream: true })
    client.pause()
    await until(() => a.asked[0]?.aborted === true)
    expect(read).toBeGreaterThan(0)
    // What the kernel took in of the node's side is counted too.
    expect(read).toBeLessThan(16 * 1024 * 1024)
    expect(process.memoryUsage().rss - before).toBeLessThan(64 * 1024 * 1024)
    const metrics = await send(started, '/api/proxy/metrics', undefined, { key: 'operator' })
    expect(metrics.text).toContain('outcome="stalled"} 1')
  })
})

it('a server that is stopped lets streams end, cuts those that do not, and refuses what is new', async () => {
  const streaming: Behaviour = (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(chunkOf('one'))
  }
  const node = await ScriptedNode.start({ behave: streaming })
  stopLater(() => node.die())
  const started = await start([node])
  const open = chat(started, { stream: true })
  await until(() => node.asked.length === 1)
  const closed = started.proxy.close(0.3)
  expect((await chat(started)).json.error.code).toBe('shutting_down')
  expect((await open).text).toContain('the server is being stopped')
  await closed
})
