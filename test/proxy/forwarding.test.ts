// What goes through: bytes as they came, to the node and back.

import { describe, expect, it } from 'vitest'
import { chunkOf, json, LAST_CHUNKS, streamWords } from './scriptedNode.ts'
import { CHAT, chat, nodes, send, start } from './started.ts'

describe('a request', () => {
  it('reaches the node byte for byte, with fields that nobody here knows', async () => {
    const [node] = await nodes({})
    const started = await start([node])
    const raw =
      '{ "model" : "base",\n "return_token_ids":true, "prompt_logprobs": 1, "seed":12345678901234567890, "vllm_xargs":{"a":1e400},' +
      '"messages":[{"role":"user","content":"caf\\u00e9 \u{1f600}"}],"top_k":-1,"priority":-5 }'
    const { status, headers } = await send(started, '/v1/chat/completions', undefined, { raw })
    expect(status).toBe(200)
    expect(node.asked.map(({ body }) => body)).toEqual([raw])
    expect(headers['x-rollout-lab-node']).toBe('a')
    expect(headers['x-rollout-lab-attempts']).toBe('1')
  })

  it('has its alias replaced and nothing else', async () => {
    const [node] = await nodes({ models: ['Qwen/Qwen3-4B'] })
    const started = await start([node], { aliases: { judge: 'Qwen/Qwen3-4B' } })
    const raw = (name: string) =>
      `{"n":1, "mod\\u0065l"  :  "${name}" ,"seed":12345678901234567890,"messages":[{"model":"judge"}]}`
    expect((await send(started, '/v1/chat/completions', undefined, { raw: raw('judge') })).status).toBe(200)
    expect(node.asked.map(({ body }) => body)).toEqual([raw('Qwen/Qwen3-4B')])
  })

  it.each([
    ['/v1/completions', { model: 'base', prompt: 'x' }],
    ['/v1/embeddings', { model: 'base', input: 'x' }],
    ['/tokenize', { model: 'base', prompt: 'x' }],
    ['/detokenize', { model: 'base', tokens: [1] }],
  ])('goes to %s', async (path, body) => {
    const [node] = await nodes({ behave: (_request, response) => json(response, 200, { path }) })
    const started = await start([node])
    expect((await send(started, path, body)).json).toEqual({ path })
    expect(node.asked.map(({ path }) => path)).toEqual([path])
  })

  it('keeps its id, on the way there and on the way back', async () => {
    const [node] = await nodes({})
    const started = await start([node])
    const { headers } = await chat(started, {}, { headers: { 'x-request-id': 'mine-1' } })
    expect(headers['x-request-id']).toBe('mine-1')
    expect(node.asked[0].headers['x-request-id']).toBe('mine-1')
    const odd = await chat(started, {}, { headers: { 'x-request-id': 'a b"c' } })
    expect(odd.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
  })

  it('is sent below the path of the node, with the key of the node', async () => {
    const [node] = await nodes({})
    process.env.TEST_NODE_KEY = 'of-the-node'
    const started = await start([node], {}, { key_env: 'TEST_NODE_KEY' })
    await chat(started)
    expect(node.asked[0].headers.authorization).toBe('Bearer of-the-node')
    expect(JSON.stringify(node.received)).not.toContain('Bearer user')
  })
})

describe('an answer', () => {
  it('comes back byte for byte', async () => {
    const text = '{ "id":1, "big":12345678901234567890, "usage":{"prompt_tokens":2,"completion_tokens":1}}\n'
    const [node] = await nodes({
      behave: (_request, response) => void response.writeHead(200, { 'content-type': 'application/json' }).end(text),
    })
    const started = await start([node])
    const answer = await chat(started)
    expect(answer.text).toBe(text)
    expect(answer.headers['content-length']).toBe(String(text.length))
  })

  it('of any length comes back byte for byte', async () => {
    const text = `{"text":"${'0123456789'.repeat(300_000)}"}`
    const [node] = await nodes({
      behave: (_request, response) => void response.writeHead(200, { 'content-type': 'application/json' }).end(text),
    })
    const answer = await chat(await start([node]))
    expect(answer.text === text).toBe(true)
  })

  it('that is a stream comes back byte for byte, however it is cut into pieces', async () => {
    const text = `${chunkOf('one')}: a comment\n\n${chunkOf('two é', { id: 'x' }).replaceAll('\n', '\r\n')}${LAST_CHUNKS}`
    const bytes = Buffer.from(text)
    for (const size of [1, 7, 64, bytes.length]) {
      const [node] = await nodes({
        behave: async (_request, response) => {
          response.writeHead(200, { 'content-type': 'text/event-stream' })
          for (let at = 0; at < bytes.length; at += size) {
            response.write(bytes.subarray(at, at + size))
            await new Promise((resolve) => setImmediate(resolve))
          }
          response.end()
        },
      })
      const answer = await chat(await start([node]), { stream: true })
      expect(answer.text, `in pieces of ${size}`).toBe(text)
      expect(answer.headers['content-type']).toBe('text/event-stream; charset=utf-8')
    }
  })

  it("of the client's own making is passed on: a 400 of the node", async () => {
    const body = { error: { message: 'context too long', type: 'BadRequestError', param: null, code: 400 } }
    const [node] = await nodes({ behave: (_request, response) => json(response, 400, body) })
    const answer = await chat(await start([node]))
    expect([answer.status, answer.json]).toEqual([400, body])
    expect(node.asked).toHaveLength(1)
  })

  it('carries no header of the node but those that are known', async () => {
    const [node] = await nodes({
      behave: (_request, response) => {
        const headers = { 'set-cookie': 'a=b', location: 'http://trap', server: 'uvicorn', 'x-internal-path': '/data' }
        response.writeHead(200, { 'content-type': 'application/json', ...headers }).end('{}')
      },
    })
    const { headers } = await chat(await start([node]))
    expect(Object.keys(headers).sort()).toEqual(
      [
        ...['cache-control', 'connection', 'content-length', 'content-type', 'cross-origin-resource-policy', 'date'],
        ...['x-content-type-options', 'x-request-id', 'x-rollout-lab-attempts', 'x-rollout-lab-node'],
      ].sort(),
    )
  })
})

describe('usage', () => {
  it('is counted by key, project and model, from whole answers and from streams', async () => {
    const [node] = await nodes({})
    const started = await start([node])
    await chat(started)
    await chat(started, { stream: true })
    await chat(started, {}, { key: 'other' })
    const { usage } = (await send(started, '/api/proxy/usage', undefined, { key: 'operator' })).json
    const seen = usage.map(({ day: _, ...row }: { day: string }) => row)
    expect(seen).toEqual([
      {
        project: 'elsewhere',
        key: 'other',
        model: 'base',
        requests: 1,
        failed: 0,
        promptTokens: 7,
        completionTokens: 3,
        estimated: 0,
      },
      {
        project: 'team',
        key: 'user',
        model: 'base',
        requests: 2,
        failed: 0,
        promptTokens: 14,
        completionTokens: 6,
        estimated: 0,
      },
    ])
    const own = (await send(started, '/api/proxy/usage?key=other')).json.usage
    expect(own.map(({ key }: { key: string }) => key)).toEqual(['user'])
    const csv = await send(started, '/api/proxy/usage?format=csv', undefined, { key: 'operator' })
    expect(csv.text.split('\r\n')[0]).toBe(
      'day,project,key,model,requests,failed,promptTokens,completionTokens,estimated',
    )
    expect(csv.text).toContain(',team,user,base,2,0,14,6,0\r\n')
  })

  it('of a stream that tells none is counted by its events, and marked', async () => {
    const [node] = await nodes({
      behave: (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.end(`${chunkOf('a') + chunkOf('b') + chunkOf('c')}data: [DONE]\n\n`)
      },
    })
    const started = await start([node])
    await chat(started, { stream: true })
    const [row] = (await send(started, '/api/proxy/usage')).json.usage
    expect([row.completionTokens, row.estimated]).toEqual([3, 1])
  })

  it('holds no text of a user, and neither do the metrics', async () => {
    const [node] = await nodes({ behave: streamWords(['canary-answer']) })
    const started = await start([node])
    await chat(started, { stream: true, messages: [{ role: 'user', content: 'canary-question' }], user: 'canary-user' })
    await chat(started, { model: 'canary-model' })
    const usage = await send(started, '/api/proxy/usage', undefined, { key: 'operator' })
    const metrics = await send(started, '/api/proxy/metrics', undefined, { key: 'operator' })
    expect(usage.text + metrics.text).not.toContain('canary')
    expect(metrics.text).toContain(
      'rollout_lab_proxy_requests_total{node="a",model="base",route="/v1/chat/completions",outcome="answered"} 1',
    )
    expect(metrics.text).toContain('rollout_lab_proxy_node_state{node="a",state="up"} 1')
  })
})

it('lists models, aliases and what they stand for', async () => {
  const behind = await nodes({ models: ['base', 'small'] }, { models: ['base'] })
  const started = await start(behind, { aliases: { judge: 'small' } })
  const { object, data } = (await send(started, '/v1/models')).json
  expect(object).toBe('list')
  expect(data.map(({ id, rollout_lab }: never) => [id, rollout_lab])).toEqual([
    ['base', { kind: 'model', nodes: ['a', 'b'] }],
    ['small', { kind: 'model', nodes: ['a'] }],
    ['judge', { kind: 'alias', nodes: ['a'] }],
  ])
  expect(CHAT.model).toBe('base')
})
