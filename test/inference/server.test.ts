// Our own model server as OpenAI's own client meets it: over a real port, on lab-nano.

import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getRequestListener } from '@hono/node-server'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { createInference, type Inference } from '../../server/inference/index.ts'
import { perturbedAdapter } from './adapter.ts'

const adapters = mkdtempSync(join(tmpdir(), 'rollout-lab-adapters-'))
let inference: Inference
let server: Server
let url: string
let client: OpenAI
beforeAll(async () => {
  inference = createInference({ root: ROOT, backend: 'wasm', maxOpen: 40, adapterRoot: adapters })
  server = createServer(getRequestListener(inference.app.fetch))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 1 })
})
afterAll(async () => {
  await inference.close()
  server.closeAllConnections()
  server.close()
  rmSync(adapters, { recursive: true })
})

const MESSAGES = [
  { role: 'system' as const, content: 'Reverse.' },
  { role: 'user' as const, content: 'abcdef' },
]
const ASK = { model: 'lab-nano', messages: MESSAGES, seed: 7, max_tokens: 40 }

const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

describe('chat', () => {
  it('is the same whole and in a stream, with the same usage', async () => {
    const whole = await client.chat.completions.create(ASK)
    expect(whole.choices[0].message.role).toBe('assistant')
    expect(whole.choices[0].message.content).toMatch(/^<r>/)
    expect(whole.choices[0].finish_reason).toBe('stop')
    const stream = client.chat.completions.stream({ ...ASK, stream_options: { include_usage: true } })
    const final = await stream.finalChatCompletion()
    expect(final.choices[0].message.content).toBe(whole.choices[0].message.content)
    expect(final.choices[0].finish_reason).toBe('stop')
    expect(final.usage).toEqual(whole.usage)
    expect(whole.usage!.total_tokens).toBe(whole.usage!.prompt_tokens + whole.usage!.completion_tokens)
  })

  it('gives n answers, each with its own noise, the first being the one asked alone', async () => {
    const [one, many] = await Promise.all([
      client.chat.completions.create(ASK),
      client.chat.completions.create({ ...ASK, n: 4 }),
    ])
    expect(many.choices.map(({ index }) => index)).toEqual([0, 1, 2, 3])
    expect(many.choices[0].message.content).toBe(one.choices[0].message.content)
    expect(new Set(many.choices.map(({ message }) => message.content)).size).toBeGreaterThan(1)
  })

  it('stops at a text and at a length, and says which', async () => {
    const stopped = await client.chat.completions.create({ ...ASK, temperature: 0, stop: '</r>' })
    expect(stopped.choices[0]).toMatchObject({ finish_reason: 'stop', stop_reason: '</r>' })
    expect(stopped.choices[0].message.content).not.toContain('</r>')
    const cut = await client.chat.completions.create({ ...ASK, max_tokens: 3 })
    expect(cut.choices[0].finish_reason).toBe('length')
    expect(cut.usage!.completion_tokens).toBe(3)
  })

  it('names log-probabilities and alternatives per token', async () => {
    const { choices } = await client.chat.completions.create({
      ...ASK,
      temperature: 0,
      logprobs: true,
      top_logprobs: 3,
    })
    const content = choices[0].logprobs!.content!
    expect(content[0]).toMatchObject({ token: '<', bytes: [60] })
    for (const { token, logprob, top_logprobs } of content) {
      expect(logprob).toBeLessThanOrEqual(0)
      expect(top_logprobs).toHaveLength(3)
      expect(top_logprobs[0]).toMatchObject({ token, logprob })
    }
  })

  it('gives token ids on request, the same in a stream', async () => {
    const extras = { ...ASK, return_token_ids: true, prompt_logprobs: 0 }
    const whole = await (await post('/v1/chat/completions', extras)).json()
    const sum = whole.prompt_token_ids.length + whole.choices[0].token_ids.length
    expect(sum).toBe(whole.usage.total_tokens)
    expect(whole.prompt_logprobs).toHaveLength(whole.prompt_token_ids.length)
    expect(whole.prompt_logprobs[0]).toBeNull()
    const lines = (await (await post('/v1/chat/completions', { ...ASK, return_token_ids: true, stream: true })).text())
      .split('\n\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)))
    expect(lines[0].prompt_token_ids).toEqual(whole.prompt_token_ids)
    expect(lines.flatMap(({ choices }) => choices[0]?.token_ids ?? [])).toEqual(whole.choices[0].token_ids)
  })

  it('reads text parts, and says what else it cannot read', async () => {
    const parts = [
      { type: 'text' as const, text: 'abc' },
      { type: 'text' as const, text: 'def' },
    ]
    const joined = await client.chat.completions.create({
      ...ASK,
      messages: [MESSAGES[0], { role: 'user', content: parts }],
    })
    const plain = await client.chat.completions.create(ASK)
    expect(joined.choices[0].message.content).toBe(plain.choices[0].message.content)
    const image = { type: 'image_url' as const, image_url: { url: 'http://127.0.0.1:1/x.png' } }
    const asked = client.chat.completions.create({ ...ASK, messages: [{ role: 'user', content: [image] }] })
    await expect(asked).rejects.toMatchObject({ status: 400, param: 'messages.0.content.0' })
  })
})

describe('completions', () => {
  it('take texts and token ids alike, several at once', async () => {
    const { tokens } = await (await post('/tokenize', { model: 'lab-nano', messages: MESSAGES })).json()
    const text = (await (await post('/detokenize', { model: 'lab-nano', tokens: tokens.slice(1, 5) })).json()).prompt
    const byIds = await client.completions.create({ model: 'lab-nano', prompt: tokens, seed: 7, max_tokens: 40 })
    const chat = await client.chat.completions.create(ASK)
    expect(byIds.choices[0].text).toBe(chat.choices[0].message.content)
    const two = await client.completions.create({
      model: 'lab-nano',
      prompt: [text, 'zz'],
      n: 2,
      seed: 1,
      max_tokens: 4,
    })
    expect(two.choices.map(({ index }) => index)).toEqual([0, 1, 2, 3])
  })

  it('stream like the whole', async () => {
    const ask = { model: 'lab-nano', prompt: 'ab', seed: 3, max_tokens: 30, logprobs: 2 }
    const whole = await client.completions.create(ask)
    let text = ''
    const tokens: string[] = []
    for await (const { choices } of await client.completions.create({ ...ask, stream: true })) {
      text += choices[0]?.text ?? ''
      tokens.push(...(choices[0]?.logprobs?.tokens ?? []))
    }
    expect([text, tokens]).toEqual([whole.choices[0].text, whole.choices[0].logprobs!.tokens])
  })

  it('echo a prompt with its own log-probabilities', async () => {
    const { choices } = await client.completions.create({
      ...{ model: 'lab-nano', prompt: 'abc', seed: 3, max_tokens: 2 },
      ...{ echo: true, logprobs: 0 },
    })
    const { tokens, token_logprobs, text_offset } = choices[0].logprobs!
    expect(choices[0].text.startsWith('abc')).toBe(true)
    expect(tokens!.slice(0, 3)).toEqual(['a', 'b', 'c'])
    expect(token_logprobs![0]).toBeNull()
    expect(text_offset).toEqual([0, 1, 2, 3, 4])
  })
})

describe('what is refused, in the shape of an OpenAI error', () => {
  it.each([
    ['a model that is not there', { ...ASK, model: '../../etc' }, 404, 'model'],
    [
      'tools, which the template does not know',
      { ...ASK, tools: [{ type: 'function', function: { name: 'f' } }] },
      400,
      'tools',
    ],
    ['a bias of logits', { ...ASK, logit_bias: { 5: 1 } }, 400, 'logit_bias'],
    ['a temperature of 3', { ...ASK, temperature: 3 }, 400, 'temperature'],
    ['no messages', { ...ASK, messages: [] }, 400, 'messages'],
    ['top_logprobs alone', { ...ASK, top_logprobs: 2 }, 400, 'top_logprobs'],
    [
      'a prompt longer than the model',
      { ...ASK, messages: [{ role: 'user', content: 'a'.repeat(300) }] },
      400,
      'messages',
    ],
    ['more prompt alternatives', { ...ASK, prompt_logprobs: 5 }, 400, 'prompt_logprobs'],
    ['more answers than may be open', { ...ASK, n: 41 }, 429, null],
  ])('%s', async (_what, body, status, param) => {
    const response = await post('/v1/chat/completions', body)
    expect(response.status).toBe(status)
    const { error } = await response.json()
    expect(error.message).toMatch(/[.:].*\.$|\.$/)
    expect(error.param).toBe(param)
  })

  it('a body that is not JSON, and one a byte too long', async () => {
    expect((await post('/v1/chat/completions', '{')).status).toBe(400)
    const body = JSON.stringify({ ...ASK, user: '' })
    const padded = (bytes: number) => JSON.stringify({ ...ASK, user: 'x'.repeat(bytes - body.length) })
    expect((await post('/v1/chat/completions', padded(1 << 20))).status).toBe(200)
    expect((await post('/v1/chat/completions', padded((1 << 20) + 1))).status).toBe(413)
  })

  it('fields of other servers are not: they are let through', async () => {
    const body = { ...ASK, priority: 3, user: 'me', service_tier: 'auto', store: false, metadata: { a: 'b' } }
    expect((await post('/v1/chat/completions', body)).status).toBe(200)
  })
})

describe('a reader that leaves', () => {
  it('ends the decoding, and gives its place back', async () => {
    const load = async () => {
      const text = await (await fetch(`${url}/metrics`)).text()
      return Number(text.match(/^vllm:num_requests_running (\d+)$/m)![1])
    }
    const abort = new AbortController()
    const body = { ...ASK, n: 40, max_tokens: 200, ignore_eos: true, stream: true as const }
    const stream = await client.chat.completions.create(body, { signal: abort.signal })
    for await (const _chunk of stream) break
    await expect.poll(load).toBe(0)
    const second = fetch(`${url}/v1/chat/completions`, {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' } },
      ...{ body: JSON.stringify({ ...body, stream: false }), signal: abort.signal },
    }).catch(() => {})
    await expect.poll(load).toBe(40)
    abort.abort()
    await second
    await expect.poll(load).toBe(0)
    expect((await client.chat.completions.create(ASK)).choices[0].finish_reason).toBe('stop')
  })
})

describe('models and adapters', () => {
  it('lists what may be asked, and no path of this machine', async () => {
    const { data } = await client.models.list()
    expect(data.map(({ id }) => id)).toEqual(expect.arrayContaining(['lab-nano', 'lab-tiny']))
    expect(JSON.stringify(data)).not.toContain(ROOT)
  })

  it('loads an adapter as a vLLM node does, answers under its name, and unloads it', async () => {
    const files = await perturbedAdapter()
    await mkdir(join(adapters, 'run-1'))
    for (const { name, bytes } of files) await writeFile(join(adapters, 'run-1', name), bytes)
    const load = { lora_name: 'mine@1', lora_path: join(adapters, 'run-1') }
    expect((await post('/v1/load_lora_adapter', load)).status).toBe(200)
    const again = await post('/v1/load_lora_adapter', load)
    expect([again.status, await again.text()]).toEqual([400, expect.stringContaining('has already been loaded')])
    expect((await post('/v1/load_lora_adapter', { ...load, load_inplace: true })).status).toBe(200)
    expect((await client.models.list()).data.find(({ id }) => id === 'mine@1')).toMatchObject({
      root: join(adapters, 'run-1'),
      parent: 'lab-nano',
    })
    const base = await client.chat.completions.create(ASK)
    const tuned = await client.chat.completions.create({ ...ASK, model: 'mine@1' })
    expect(tuned.choices[0].message.content).not.toBe(base.choices[0].message.content)
    expect((await post('/v1/unload_lora_adapter', { lora_name: 'mine@1' })).status).toBe(200)
    expect((await post('/v1/unload_lora_adapter', { lora_name: 'mine@1' })).status).toBe(404)
    await expect(client.chat.completions.create({ ...ASK, model: 'mine@1' })).rejects.toMatchObject({ status: 404 })
  })

  it('reads adapters below their folder alone', async () => {
    const outside = mkdtempSync(join(tmpdir(), 'rollout-lab-outside-'))
    for (const { name, bytes } of await perturbedAdapter()) writeFileSync(join(outside, name), bytes)
    symlinkSync(outside, join(adapters, 'link'))
    for (const path of [outside, '../'.repeat(9) + outside, join(adapters, 'link'), 'link', 'nothing'])
      expect((await post('/v1/load_lora_adapter', { lora_name: 'x', lora_path: path })).status, path).toBe(404)
    rmSync(outside, { recursive: true })
  })
})
