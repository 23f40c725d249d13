// What the proxy does not let through: other routes of a node, other hosts, other people's keys, too much of anything.

import { createServer } from 'node:http'
import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { addressProblem, isRefused } from '../../server/proxy/address.ts'
import { nodeSchema } from '../../server/proxy/config.ts'
import { json } from './scriptedNode.ts'
import { CHAT, chat, nodes, type Started, send, start, stopLater, times, until } from './started.ts'

/** A server that nobody is to reach: counts its connections. */
async function trap() {
  const hits: string[] = []
  const server = createServer((request, response) => {
    hits.push(`${request.method} ${request.url} ${JSON.stringify(request.headers)}`)
    response.end('{}')
  })
  server.on('connection', () => hits.push('connection'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stopLater(async () => {
    server.closeAllConnections()
    server.close()
  })
  return { hits, url: `http://127.0.0.1:${(server.address() as { port: number }).port}` }
}

describe('routes', () => {
  // vLLM's own, from its api_server and its dev and RL routers, prime-rl's, and SGLang's.
  const KNOWN = [
    ...['/health', '/ping', '/version', '/load', '/metrics', '/liveness', '/is_sleeping', '/is_paused', '/server_info'],
    ...['/pause', '/resume', '/sleep', '/wake_up', '/reset_prefix_cache', '/reset_mm_cache', '/collective_rpc'],
    ...['/init_weight_transfer_engine', '/start_weight_update', '/update_weights', '/finish_weight_update'],
    ...['/weight_info', '/get_world_size', '/weight_checker', '/abort_requests', '/init_broadcaster'],
    ...['/scale_elastic_ep', '/is_scaling_elastic_ep', '/start_profile', '/stop_profile', '/tokenizer_info'],
    ...['/invocations', '/pooling', '/classify', '/score', '/v1/score', '/rerank', '/v1/rerank', '/v2/rerank'],
    ...['/v1/load_lora_adapter', '/v1/unload_lora_adapter', '/load_lora_adapter', '/unload_lora_adapter'],
    ...['/v1/responses', '/v1/responses/x', '/v1/messages', '/v1/audio/transcriptions', '/v1/audio/translations'],
    ...['/v1/models/base', '/v1/realtime', '/inference/v1/generate', '/openapi.json', '/docs', '/redoc'],
    ...['/generate', '/flush_cache', '/get_model_info', '/get_server_info', '/update_weights_from_disk', '/'],
  ]
  const TRICKS = [
    ...['/v1/chat/completions/', '/v1//chat/completions', '//v1/chat/completions', '/v1/./chat/completions'],
    ...[
      '/v1/chat/../chat/completions',
      '/v1/../pause',
      '/v1/%2e%2e/pause',
      '/v1/..%2fpause',
      '/v1%2fchat%2fcompletions',
    ],
    ...['/v1/chat%2fcompletions', '/V1/chat/completions', '/v1/chat/completions%00', '/v1/chat/completions%20'],
    ...[
      '/v1/chat/completions;x',
      '/tokenize/../pause',
      '/v1/chat/completions/../../../pause',
      '/%76%31/chat/completions',
    ],
    ...['/v1/models/../load_lora_adapter', '/v1/\\pause', '/v1/chat/completions%23'],
  ]
  const LISTED = ['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/tokenize', '/detokenize']

  it('of a node answer a user only where they are listed', async () => {
    const [node] = await nodes({ behave: (_request, response) => json(response, 200, {}) })
    const started = await start([node])
    for (const path of [...KNOWN, ...TRICKS, ...LISTED]) {
      const methods = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS']
      const unlisted = methods.filter((method) => method !== 'POST' || !LISTED.includes(path))
      await Promise.all(
        unlisted.map(async (method) => {
          const bodied = ['POST', 'PUT', 'PATCH'].includes(method)
          const { status } = await send(started, path, bodied ? CHAT : undefined, { method })
          expect([404, 400], `${method} ${path}`).toContain(status)
        }),
      )
    }
    expect(node.asked).toEqual([])
    const own = node.received.map(({ method, path }) => `${method} ${path}`)
    expect(new Set(own)).toEqual(new Set(['GET /health', 'GET /metrics', 'GET /v1/models']))
    for (const path of LISTED) expect((await send(started, path, CHAT)).status, path).toBe(200)
    expect(node.asked.map(({ path }) => path)).toEqual(LISTED)
  })

  it('ask for a key, all of them', async () => {
    const [node] = await nodes({})
    const started = await start([node])
    const paths = [
      ...LISTED,
      '/v1/models',
      '/api/proxy/nodes',
      '/api/proxy/queue',
      '/api/proxy/usage',
      '/api/proxy/adapters',
      '/api/proxy/metrics',
    ]
    for (const path of paths)
      for (const key of [null, 'wrong'])
        expect((await send(started, path, LISTED.includes(path) ? CHAT : undefined, { key })).status, path).toBe(401)
    expect(node.asked).toEqual([])
  })

  it('of the operator are not for users', async () => {
    const [node] = await nodes({})
    const started = await start([node])
    for (const path of ['/api/proxy/nodes/a/drain', '/api/proxy/nodes/a/undrain', '/api/proxy/adapters'])
      expect((await send(started, path, {})).status, path).toBe(403)
    expect((await send(started, '/api/proxy/metrics')).status).toBe(403)
    expect((await send(started, '/api/proxy/nodes/nobody/drain', {}, { key: 'operator' })).status).toBe(404)
  })

  it('drop a query, whatever it says', async () => {
    const [node] = await nodes({})
    const started = await start([node])
    expect((await send(started, '/v1/chat/completions?api_base=http://x&mode=abort', CHAT)).status).toBe(200)
    expect(node.asked[0].path).toBe('/v1/chat/completions')
  })
})

describe('other hosts', () => {
  const fields = ['api_base', 'base_url', 'api_key', 'api_version', 'headers', 'extra_headers', 'extra_query']
  it.each(fields)('cannot be named in a body by %s', async (field) => {
    const [node] = await nodes({})
    const { hits, url } = await trap()
    const started = await start([node])
    const { status, json: body } = await chat(started, { [field]: url })
    expect([status, body.error.param]).toEqual([400, field])
    expect([hits, node.asked]).toEqual([[], []])
  })

  it('cannot be named by a redirect', async () => {
    const { hits, url } = await trap()
    for (const status of [301, 302, 303, 307, 308]) {
      const [node] = await nodes({
        behave: (_request, response) => void response.writeHead(status, { location: url }).end('{}'),
      })
      const answer = await chat(await start([node]))
      expect([answer.status, answer.json.error.code]).toEqual([502, 'bad_answer'])
      expect(answer.headers.location).toBe(undefined)
    }
    expect(hits).toEqual([])
  })

  const link = 'http://169.254.169.254/latest/meta-data'
  const media: [string, unknown, string][] = [
    ['an image', [{ type: 'image_url', image_url: { url: link } }], 'messages[0].content[0].image_url.url'],
    ['an image in short', [{ type: 'image_url', image_url: link }], 'messages[0].content[0].image_url'],
    ['a sound', [{ type: 'audio_url', audio_url: { url: link } }], 'messages[0].content[0].audio_url.url'],
    [
      'a film',
      [
        { type: 'text', text: 'x' },
        { type: 'video_url', video_url: { url: link } },
      ],
      'messages[0].content[1].video_url.url',
    ],
    [
      'a file of the node',
      [{ type: 'image_url', image_url: { url: 'file:///etc/passwd' } }],
      'messages[0].content[0].image_url.url',
    ],
    ['a path of the node', [{ type: 'image', url: '/etc/passwd' }], 'messages[0].content[0].url'],
    ['an odd scheme', [{ type: 'image_url', image_url: { url: ' HTTP://x' } }], 'messages[0].content[0].image_url.url'],
    [
      'one deeper down',
      [{ type: 'tool_result', content: [{ type: 'image_url', image_url: link }] }],
      'messages[0].content[0].content[0].image_url',
    ],
    ['embeddings', [{ type: 'image_embeds', image_embeds: 'AAAA' }], 'messages[0].content[0].image_embeds'],
  ]
  it.each(media)('cannot be named in a prompt by %s', async (_what, content, param) => {
    const [node] = await nodes({})
    const { status, json: body } = await chat(await start([node]), { messages: [{ role: 'user', content }] })
    expect([status, body.error.code, body.error.param]).toEqual([400, 'refused_field', param])
    expect(node.asked).toEqual([])
  })

  it('may be named where the config lists them, and media may come along as data', async () => {
    const [node] = await nodes({})
    const started = await start([node], { limits: { media_hosts: ['images.example'] } })
    const image = (url: string) => ({
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
    })
    for (const url of ['data:image/png;base64,AAAA', 'https://images.example/a.png'])
      expect((await chat(started, image(url))).status, url).toBe(200)
    for (const url of [
      'https://images.example@evil/a',
      'https://images.example.evil/a',
      'https://u:p@images.example/a',
      'https://images.example:1/a',
    ])
      expect((await chat(started, image(url))).status, url).toBe(400)
  })

  it('are no mistake in what a tool declares', async () => {
    const [node] = await nodes({})
    const parameters = { type: 'object', properties: { image_url: { type: 'string' }, url: { type: 'string' } } }
    const tools = [{ type: 'function', function: { name: 'f', parameters } }]
    expect((await chat(await start([node]), { tools })).status).toBe(200)
  })

  it.each([
    ...['http://169.254.169.254/', 'http://[fe80::1]/', 'http://[::ffff:169.254.169.254]/', 'http://0.0.0.0:8000'],
    ...[
      'http://[fd00:ec2::254]/',
      'http://168.63.129.16',
      'ftp://10.0.0.1',
      'file:///etc/passwd',
      'http://2852039166/',
    ],
    ...[
      'http://user:pass@10.0.0.1',
      'http://10.0.0.1/?x=1',
      'http://10.0.0.1/#x',
      'not a url',
      'http://0xa9.0xfe.0xa9.0xfe/',
    ],
  ])('are refused in the config too: %s', (url) => {
    expect(addressProblem(url)).toMatch(/\.$/)
    expect(nodeSchema.safeParse({ name: 'a', url }).success).toBe(false)
  })

  it.each(['http://10.0.0.1:8000', 'https://node.example/v/', 'http://[fd12::1]:8000', 'http://localhost:1'])(
    'may be nodes: %s',
    (url) => {
      expect(addressProblem(url)).toBe(null)
    },
  )

  it('that a name resolves to are judged as addresses', () => {
    expect(['169.254.1.1', '::ffff:a9fe:102', 'fe80::1', '::', 'x'].map(isRefused)).toEqual([
      true,
      true,
      true,
      true,
      true,
    ])
    expect(['127.0.0.1', '10.1.2.3', '::1', '2001:db8::1'].map(isRefused)).toEqual([false, false, false, false])
  })

  it('get neither the key of the caller nor its cookies', async () => {
    const [node] = await nodes({})
    const headers = {
      cookie: 'session=secret',
      'x-api-key': 'secret',
      'proxy-authorization': 'secret',
      'x-forwarded-for': '6.6.6.6',
      'x-slurm-user-name': 'root',
    }
    await chat(await start([node]), {}, { headers })
    expect(Object.keys(node.asked[0].headers).sort()).toEqual([
      'accept',
      'connection',
      'content-length',
      'content-type',
      'host',
      'x-request-id',
    ])
  })
})

describe('a body', () => {
  it('may have exactly as many bytes as the limit, and not one more', async () => {
    const [node] = await nodes({})
    const started = await start([node])
    const limit = started.proxy.config.limits.body_bytes
    const of = (bytes: number) => {
      const empty = JSON.stringify({ ...CHAT, x: '' })
      return JSON.stringify({ ...CHAT, x: 'a'.repeat(bytes - empty.length) })
    }
    expect(limit).toBe(1_048_576)
    expect((await send(started, '/v1/chat/completions', undefined, { raw: of(limit) })).status).toBe(200)
    const over = await send(started, '/v1/chat/completions', undefined, { raw: of(limit + 1) })
    expect([over.status, over.json.error.code]).toEqual([413, 'too_large'])
    expect(node.asked.map(({ body }) => body.length)).toEqual([limit])
  })

  it('of unknown length is counted as it comes', async () => {
    const [node] = await nodes({})
    const started = await start([node], { limits: { body_bytes: 1000 } })
    const answer = await raw(started, ['Transfer-Encoding: chunked'], `5dc\r\n${'a'.repeat(1500)}\r\n0\r\n\r\n`)
    expect(answer).toMatch(/^HTTP\/1\.1 413 /)
    expect(node.asked).toEqual([])
  })

  const wrong: [string, string, string][] = [
    ['half an object', '{"model":"base"', 'invalid_json'],
    ['a list', '[1]', 'invalid_json'],
    ['nothing', '', 'invalid_json'],
    ['two models', '{"model":"base","model":"other"}', 'duplicate_field'],
    ['two models, one in disguise', '{"model":"base","mod\\u0065l":"other"}', 'duplicate_field'],
    ['two of another field', '{"model":"base","n":1,"n":1000}', 'duplicate_field'],
    ['no model', '{"messages":[]}', 'invalid_model'],
    ['a model that is no name', '{"model":{"a":1}}', 'invalid_model'],
    ['too much depth', `{"model":"base","x":${'['.repeat(64)}${']'.repeat(64)}}`, 'too_deep'],
    ['far too much depth', `{"model":"base","x":${'['.repeat(200_000)}`, 'too_deep'],
  ]
  it.each(wrong)('with %s is refused', async (_what, body, code) => {
    const [node] = await nodes({})
    const answer = await send(await start([node]), '/v1/chat/completions', undefined, { raw: body })
    expect([answer.status, answer.json.error.code]).toEqual([400, code])
    expect(node.asked).toEqual([])
  })

  const capped: [string, unknown][] = [
    ...(['n', 'best_of'] as const).flatMap((field): [string, unknown][] => [
      [field, 129],
      [field, 0],
      [field, '5'],
      [field, 1.5],
    ]),
    ...(['max_tokens', 'max_completion_tokens', 'min_tokens'] as const).flatMap((field): [string, unknown][] => [
      [field, 32_769],
      [field, -1],
      [field, '9999999'],
      [field, 1e30],
    ]),
    ['top_logprobs', 21],
    ['prompt_logprobs', 21],
    ['prompt_logprobs', -1],
    ['logprobs', 21],
    ['logprobs', -1],
    ['tools', times(129, () => ({}))],
    ['prompt_embeds', 'AAAA'],
    ['chat_template', '{{ 1 }}'],
    ['kv_transfer_params', {}],
    ['logits_processors', []],
  ]
  it.each(capped)('with %s = %j is refused by name', async (field, value) => {
    const [node] = await nodes({})
    const { status, json: body } = await chat(await start([node]), { [field]: value })
    expect([status, body.error.param, body.error.type]).toEqual([400, field, 'invalid_request_error'])
    expect(node.asked).toEqual([])
  })

  it('may ask for as much as the limits say', async () => {
    const [node] = await nodes({})
    const started = await start([node])
    const most = {
      n: 128,
      max_tokens: 32_768,
      max_completion_tokens: null,
      top_logprobs: 20,
      prompt_logprobs: 20,
      logprobs: true,
      chat_template_kwargs: { enable_thinking: false },
    }
    expect((await chat(started, most)).status).toBe(200)
    const hidden = await chat(started, { chat_template_kwargs: { chat_template: '{{ 1 }}' } })
    expect(hidden.json.error.param).toBe('chat_template_kwargs.chat_template')
    const many = await send(started, '/v1/completions', { model: 'base', prompt: times(100, () => 'x'), n: 100 })
    expect([many.status, many.json.error.param]).toEqual([400, 'prompt'])
    expect((await send(started, '/v1/completions', { model: 'base', prompt: times(5000, (i) => i) })).status).toBe(200)
  })

  it('comes as JSON and as nothing else', async () => {
    const [node] = await nodes({})
    const started = await start([node])
    const others: Record<string, string>[] = [
      { 'content-type': 'text/plain' },
      { 'content-type': 'multipart/form-data' },
      { 'content-encoding': 'gzip' },
    ]
    for (const headers of others) expect((await chat(started, {}, { headers })).status).toBe(415)
    const charset = { 'content-type': 'application/json; charset=utf-8' }
    expect((await chat(started, {}, { headers: charset })).status).toBe(200)
  })
})

describe('a connection', () => {
  it('that sends its body drop by drop is closed after the deadline', async () => {
    const [node] = await nodes({})
    const started = await start([node], { deadlines: { body_seconds: 0.3 } })
    const socket = connect(Number(new URL(started.url).port), '127.0.0.1')
    stopLater(async () => void socket.destroy())
    socket.on('error', () => {})
    socket.write(
      'POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer user\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{',
    )
    const drops = setInterval(() => socket.write(' '), 30)
    const text = await new Promise<string>((resolve) => {
      let all = ''
      socket.on('data', (piece) => {
        all += piece
      })
      socket.on('close', () => resolve(all))
    })
    clearInterval(drops)
    expect(text).toMatch(/^HTTP\/1\.1 408 /)
    expect(node.asked).toEqual([])
    expect(started.proxy.fleet.node('a')!.inFlight).toBe(0)
  })

  it('without a key does not get its body read', async () => {
    const [node] = await nodes({})
    const started = await start([node])
    const answer = await raw(started, ['Content-Length: 1000000', 'Authorization: Bearer nobody'], '')
    expect(answer).toMatch(/^HTTP\/1\.1 401 /)
  })

  it('cannot smuggle a second request: two lengths, or a length and chunks', async () => {
    const [node] = await nodes({})
    const started = await start([node])
    for (const headers of [
      ['Content-Length: 5', 'Content-Length: 6'],
      ['Content-Length: 5', 'Transfer-Encoding: chunked'],
    ])
      expect(await raw(started, headers, '0\r\n\r\nGET /pause HTTP/1.1\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 /)
    expect(node.asked).toEqual([])
  })

  it('cannot put a line into what is sent on', async () => {
    const [node] = await nodes({})
    const started = await start([node], { aliases: { 'a\r\nX-Evil: 1': 'base' } })
    const odd = { traceparent: '00-abc\u00ff', 'x-request-id': 'a\tb', 'x-session-id': 'a b\u00ff' }
    expect((await chat(started, { model: 'a\r\nX-Evil: 1' }, { headers: odd })).status).toBe(200)
    expect(Object.keys(node.asked[0].headers)).not.toContain('x-evil')
    expect(node.asked[0].headers.traceparent).toBe(undefined)
    expect(node.asked[0].headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
  })
})

describe('a node', () => {
  it('that answers without end to a question of ours is given up', async () => {
    const [node] = await nodes({})
    const started = await start([node], { health: { every_seconds: 60 } })
    node.script.models = ['base', ...times(100_000, (i) => `${i}-${'x'.repeat(60)}`)]
    await started.proxy.fleet
      .watchOf(started.proxy.fleet.node('a')!)!
      .readModels()
      .then(
        () => expect.fail('more than 4 MiB were taken'),
        (error: Error) => expect(error.message).toContain('more than'),
      )
    expect((await chat(started)).status).toBe(200)
  })

  it('cannot put a page into an answer', async () => {
    const [node] = await nodes({
      behave: (_request, response) =>
        void response.writeHead(400, { 'content-type': 'text/html' }).end('<script>1</script>'),
    })
    const { status, headers, text } = await chat(await start([node]))
    expect([status, headers['content-type'], text]).toEqual([400, 'text/plain; charset=utf-8', '<script>1</script>'])
    expect(headers['x-content-type-options']).toBe('nosniff')
  })

  it('that still has an adapter which nobody owns gives it to nobody', async () => {
    const [node] = await nodes({ models: ['base', 'gone.adapter.v1.01234567'] })
    const started = await start([node])
    expect((await chat(started, { model: 'gone.adapter.v1.01234567' })).status).toBe(404)
    expect((await send(started, '/v1/models')).json.data.map(({ id }: { id: string }) => id)).toEqual(['base'])
  })

  it('whose key is not set is not asked, and says so', async () => {
    const [node] = await nodes({})
    delete process.env.TEST_NO_SUCH_KEY
    const started = await start([node], {}, { key_env: 'TEST_NO_SUCH_KEY' })
    await until(() => started.proxy.fleet.node('a')!.state.state === 'down')
    expect(started.proxy.fleet.node('a')!.state.reason).toBe(
      'The variable TEST_NO_SUCH_KEY, which holds its key, is not set.',
    )
    expect(node.received).toEqual([])
  })
})

/** What comes back for a request line and headers written by hand. */
function raw(started: Started, headers: string[], body: string): Promise<string> {
  const socket = connect(Number(new URL(started.url).port), '127.0.0.1')
  stopLater(async () => void socket.destroy())
  const given = headers.some((header) => header.startsWith('Authorization')) ? [] : ['Authorization: Bearer user']
  socket.on('error', () => {})
  socket.write(
    [
      'POST /v1/chat/completions HTTP/1.1',
      'Host: 127.0.0.1',
      'Content-Type: application/json',
      ...given,
      ...headers,
      '',
      body,
    ].join('\r\n'),
  )
  return new Promise((resolve) => {
    socket.once('data', (piece) => resolve(String(piece)))
    socket.once('close', () => resolve(''))
  })
}
