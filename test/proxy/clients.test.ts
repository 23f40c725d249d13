// OpenAI's own clients, unchanged, against the proxy: in front of our model server over lab-nano, and of a scripted node
// for what that server does not compute (tools, embeddings).

import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import OpenAI, { APIError, NotFoundError, RateLimitError } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { type InferenceNode, listenAsNode } from '../../server/inference/listen.ts'
import { AdapterDesk } from '../../server/proxy/adapters/desk.ts'
import { AdaptersInMemory } from '../../server/proxy/adapters/store.ts'
import { nodeSchema, proxySchema } from '../../server/proxy/config.ts'
import { perturbedAdapter } from '../inference/adapter.ts'
import { type Behaviour, cutAfter, json, ScriptedNode } from './scriptedNode.ts'
import { type Started, start, stopLater, times, until } from './started.ts'

let model: InferenceNode
let root: string
beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'rollout-lab-node-'))
  model = await listenAsNode({ root: ROOT, backend: 'wasm', adapterRoot: root })
})
afterAll(async () => {
  await model.close()
  rmSync(root, { recursive: true, force: true })
})

const TOOL_CALL = {
  id: 'call_1',
  type: 'function',
  function: { name: 'weather', arguments: '{"city":"Zürich","days":12345678901234567890}' },
}

/** What vLLM would do with tools and embeddings. */
const behave: Behaviour = async ({ path, body }, response) => {
  const { stream, model: name, tools, input, user } = JSON.parse(body)
  if (user === 'cut') return cutAfter(2)({ path, body } as never, response)
  if (path === '/v1/embeddings') {
    const data = [input]
      .flat()
      .map((_: unknown, index: number) => ({ object: 'embedding', index, embedding: [index, 0.5] }))
    return json(response, 200, { object: 'list', data, model: name, usage: { prompt_tokens: 2, total_tokens: 2 } })
  }
  const base = { id: 'chatcmpl-t', created: 1, model: name }
  const message = tools
    ? { role: 'assistant', content: null, tool_calls: [TOOL_CALL] }
    : { role: 'assistant', content: 'Sunny.' }
  if (!stream)
    return json(response, 200, {
      ...base,
      object: 'chat.completion',
      choices: [{ index: 0, message, finish_reason: tools ? 'tool_calls' : 'stop' }],
    })
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const send = (delta: object, finish: string | null = null) =>
    response.write(
      `data: ${JSON.stringify({ ...base, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`,
    )
  send({ role: 'assistant', content: null })
  const { arguments: text } = TOOL_CALL.function
  send({ tool_calls: [{ index: 0, ...TOOL_CALL, function: { name: 'weather', arguments: '' } }] })
  for (let at = 0; at < text.length; at += 9)
    send({ tool_calls: [{ index: 0, function: { arguments: text.slice(at, at + 9) } }] })
  send({}, 'tool_calls')
  response.end('data: [DONE]\n\n')
}

/** A proxy in front of both. */
async function both(): Promise<{ started: Started; client: OpenAI; scripted: ScriptedNode }> {
  const scripted = await ScriptedNode.start({ models: ['tools'], behave })
  stopLater(() => scripted.die())
  const own = mkdtempSync(join(tmpdir(), 'rollout-lab-adapters-'))
  stopLater(async () => rmSync(own, { recursive: true, force: true }))
  const adapters = await AdapterDesk.open(new AdaptersInMemory(), own, 100_000_000)
  const config = { aliases: { judge: 'lab-nano' } }
  const started = await start([scripted], config, {}, { adapters })
  started.proxy.configure(proxySchema.parse(config), [
    nodeSchema.parse({ name: 'a', url: scripted.url }),
    {
      ...nodeSchema.parse({ name: 'here', url: model.url, adapter_root: { server: root, node: root } }),
      key: model.key,
    },
  ])
  await until(() => started.proxy.fleet.node('here')!.health === 'up')
  const client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'user', maxRetries: 0 })
  return { started, client, scripted }
}

const messages = [
  { role: 'system', content: 'Reverse the text.' },
  { role: 'user', content: 'abcdef' },
] as const
const ASK = { model: 'lab-nano', messages: [...messages], max_tokens: 8, seed: 5 }

describe('the openai package for Node', () => {
  it('chats, whole and streamed, with the same words, and its streaming helper ends as it should', async () => {
    const { client } = await both()
    const whole = await client.chat.completions.create(ASK)
    const said = whole.choices[0].message.content
    expect(whole.usage!.completion_tokens).toBeGreaterThan(0)

    const words: string[] = []
    for await (const chunk of await client.chat.completions.create({ ...ASK, stream: true }))
      words.push(chunk.choices[0]?.delta.content ?? '')
    expect(words.join('')).toBe(said)

    const runner = client.chat.completions.stream({ ...ASK, stream_options: { include_usage: true } })
    const seen: string[] = []
    runner.on('content', (delta) => seen.push(delta))
    expect(await runner.finalContent()).toBe(said)
    expect(seen.join('')).toBe(said)
    expect((await runner.totalUsage()).completion_tokens).toBe(whole.usage!.completion_tokens)
  })

  it('gets log-probabilities, token ids and prompt log-probabilities as the node gave them', async () => {
    const { client } = await both()
    const extras = { return_token_ids: true, prompt_logprobs: 1 }
    const whole = await client.chat.completions.create({ ...ASK, logprobs: true, top_logprobs: 2, ...extras })
    const direct = new OpenAI({ baseURL: `${model.url}/v1`, apiKey: model.key })
    const same = await direct.chat.completions.create({ ...ASK, logprobs: true, top_logprobs: 2, ...extras })
    expect(whole.choices).toEqual(same.choices)
    expect((whole as never as Record<string, unknown>).prompt_logprobs).toEqual(
      (same as never as Record<string, unknown>).prompt_logprobs,
    )
    expect(whole.choices[0].logprobs!.content!.length).toBeGreaterThan(0)
    const text = await client.completions.create({ model: 'judge', prompt: 'abc', max_tokens: 4, logprobs: 1, seed: 1 })
    expect(text.choices[0].logprobs!.token_logprobs!.length).toBe(4)
  })

  it('calls tools, whole and by its streaming helper', async () => {
    const { client } = await both()
    const tools = [
      {
        type: 'function' as const,
        function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
      },
    ]
    const whole = await client.chat.completions.create({ model: 'tools', messages: [...messages], tools })
    expect(whole.choices[0].message.tool_calls).toEqual([TOOL_CALL])
    const final = await client.chat.completions
      .stream({ model: 'tools', messages: [...messages], tools })
      .finalChatCompletion()
    expect(final.choices[0].message.tool_calls![0].function).toMatchObject(TOOL_CALL.function)
  })

  it('embeds, and lists models', async () => {
    const { client } = await both()
    const { data } = await client.embeddings.create({ model: 'tools', input: ['a', 'b'], encoding_format: 'float' })
    expect(data.map(({ embedding }) => embedding)).toEqual([
      [0, 0.5],
      [1, 0.5],
    ])
    const ids: string[] = []
    for await (const { id } of client.models.list()) ids.push(id)
    expect(ids).toEqual(expect.arrayContaining(['tools', 'lab-nano', 'judge']))
  })

  it('raises its own errors for ours: an unknown model, a cap, a full queue, a cut stream', async () => {
    const { client, scripted, started } = await both()
    await expect(client.chat.completions.create({ ...ASK, model: 'gpt-5' })).rejects.toThrow(NotFoundError)
    await expect(client.chat.completions.create({ ...ASK, n: 500 })).rejects.toMatchObject({ status: 400, param: 'n' })
    scripted.script.behave = cutAfter(2)
    const cut = (async () => {
      const stream = await client.chat.completions.create({ ...ASK, model: 'tools', stream: true })
      for await (const _chunk of stream);
    })()
    const error = await cut.catch((error) => error)
    expect(error).toBeInstanceOf(APIError)
    expect(error.message).toContain('The answer was cut: node a failed')
    started.proxy.configure(proxySchema.parse({ rates: { requests_per_minute: 1 } }), [
      nodeSchema.parse({ name: 'a', url: scripted.url }),
    ])
    scripted.script.behave = behave
    await client.chat.completions.create({ ...ASK, model: 'tools' }).catch(() => {})
    await expect(client.chat.completions.create({ ...ASK, model: 'tools' })).rejects.toThrow(RateLimitError)
  })
})

it('an adapter, uploaded through the proxy, changes what our own model server says', async () => {
  const { client, started } = await both()
  const [weights, config] = await perturbedAdapter()
  const view = await started.proxy.adapters!.add(
    { project: 'team', name: 'odd', base: 'lab-nano', config: JSON.parse(new TextDecoder().decode(config.bytes)) },
    (async function* () {
      yield weights.bytes
    })(),
  )
  expect(view.nodes).toContainEqual({ node: 'here', state: 'loaded', reason: null })
  const ask = async (name: string) =>
    (await client.completions.create({ model: name, prompt: 'abcdef', max_tokens: 8, temperature: 0 })).choices[0].text
  expect(await ask('odd')).toBe(await ask('odd@1'))
  expect(await ask('odd')).not.toBe(await ask('lab-nano'))
  await started.proxy.adapters!.remove(view.id, 'team')
  await expect(ask('odd')).rejects.toThrow(NotFoundError)
})

it('fifty answers at once of our own model server come through whole', async () => {
  const { client, started } = await both()
  const answers = await Promise.all(
    times(50, async (seed) => {
      const stream = client.chat.completions.stream({ ...ASK, seed, max_tokens: 16 })
      return stream.finalContent()
    }),
  )
  expect(answers).toHaveLength(50)
  expect(started.proxy.fleet.node('here')!.inFlight).toBe(0)
})

/** A Python that can import openai: ROLLOUT_LAB_PYTHON, or python3. */
async function python(): Promise<string | null> {
  for (const program of [process.env.ROLLOUT_LAB_PYTHON, 'python3'])
    if (
      program &&
      (await promisify(execFile)(program, ['-c', 'import openai']).then(
        () => true,
        () => false,
      ))
    )
      return program
  return null
}
const program = await python()
if (!program)
  process.stdout.write('skipped: no Python has the openai package (set ROLLOUT_LAB_PYTHON to one that does)\n')

it.skipIf(!program)('the openai package for Python does all of that too', async () => {
  const { started, scripted } = await both()
  const script = join(ROOT, 'test/proxy/openaiClient.py')
  expect(existsSync(script)).toBe(true)
  const { stdout } = await promisify(execFile)(program!, [script, `${started.url}/v1`], { timeout: 60_000 })
  const said = JSON.parse(stdout)
  expect(said).toMatchObject({
    streamed_is_whole: true,
    helper_is_whole: true,
    logprobs: true,
    token_ids: true,
    tool: TOOL_CALL.function,
    helper_tool: TOOL_CALL.function,
    embeddings: [
      [0, 0.5],
      [1, 0.5],
    ],
    unknown_model: 'NotFoundError',
    too_many: ['BadRequestError', 'n'],
    cut: 'APIError',
  })
  expect(said.models).toEqual(expect.arrayContaining(['tools', 'lab-nano', 'judge']))
  expect(scripted.asked.length).toBeGreaterThan(0)
  expect(readFileSync(script, 'utf8')).toContain('import openai')
})
