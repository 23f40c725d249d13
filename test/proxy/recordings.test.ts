// Real servers, as they were recorded (recordings/record.py), behind the proxy: what they sent comes through byte for byte,
// however its pieces fall, and is understood. Which servers and versions there are is in the names of the files.

import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import OpenAI from 'openai'
import { describe, expect, it } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { nodeSchema, proxySchema } from '../../server/proxy/config.ts'
import { type Started, send, start, stopLater, until } from './started.ts'

interface Recording {
  server: string
  version: string | null
  model: string
  recorded: string
  exchanges: Record<
    string,
    {
      request: { method: string; path: string; body: string | null }
      response: { status: number; headers: [string, string][]; pieces: { base64: string }[]; broken: string | null }
    }
  >
}

const FOLDER = join(ROOT, 'test/proxy/recordings/fixtures')
const recordings: Recording[] = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.json'))
  .map((name) => JSON.parse(readFileSync(join(FOLDER, name), 'utf8')))
for (const wanted of ['transformers', 'vllm'])
  if (!recordings.some(({ server }) => server === wanted))
    process.stdout.write(`skipped: there is no recording of ${wanted} (test/proxy/recordings/record.py makes one)\n`)

const piecesOf = (exchange: Recording['exchanges'][string]) =>
  exchange.response.pieces.map(({ base64 }) => Buffer.from(base64, 'base64'))
const textOf = (exchange: Recording['exchanges'][string]) => Buffer.concat(piecesOf(exchange)).toString('utf8')

/** Clients write the same JSON with other spaces. */
const same = (a: string | null, b: string | null) =>
  a === b || (a !== null && b !== null && isDeepStrictEqual(JSON.parse(a), JSON.parse(b)))

/** The recorded server again: the same answer to the same request, piece by piece. */
async function replay({ exchanges }: Recording): Promise<string> {
  const server: Server = createServer(async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const body = Buffer.concat(parts).toString() || null
    const found = Object.values(exchanges).find(
      ({ request: { method, path, body: recorded } }) =>
        method === request.method && path === request.url && same(recorded, body),
    )
    if (!found) return void response.writeHead(404).end()
    const { status, headers, broken } = found.response
    const kept = headers.filter(([name]) => !/^(transfer-encoding|connection|keep-alive|date)$/i.test(name))
    response.writeHead(status, Object.fromEntries(kept))
    for (const piece of piecesOf(found)) {
      response.write(piece)
      await new Promise((resolve) => setImmediate(resolve))
    }
    if (broken) response.socket!.destroy()
    else response.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stopLater(async () => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function behindProxy(recording: Recording): Promise<Started> {
  const started = await start([])
  const url = await replay(recording)
  started.proxy.configure(proxySchema.parse({}), [
    nodeSchema.parse({ name: 'recorded', url, models: [recording.model] }),
  ])
  await until(() => started.proxy.fleet.node('recorded')!.health === 'up')
  return started
}

describe.each(recordings)('$server $version', (recording) => {
  const { exchanges } = recording
  const asked = Object.entries(exchanges).filter(
    ([, { request }]) => request.path.startsWith('/v1/c') || request.path === '/tokenize',
  )

  it('is found well, and serves its model', async () => {
    const started = await behindProxy(recording)
    const { data } = (await send(started, '/v1/models')).json
    expect(data.map(({ id }: { id: string }) => id)).toContain(recording.model)
  })

  it.each(
    asked.filter(([name, { response }]) => name !== 'unknown model' && !response.broken && response.status < 500),
  )('«%s» comes through as it was sent', async (_name, exchange) => {
    const started = await behindProxy(recording)
    const { request, response } = exchange
    // A route that the server does not have is a 404 of FastAPI's, which is passed on too.
    const answer = await send(started, request.path, undefined, { raw: request.body! })
    expect([answer.status, answer.text]).toEqual([response.status, textOf(exchange)])
  })

  it('is understood: streams are whole, tokens are counted', async () => {
    const started = await behindProxy(recording)
    const streamed = exchanges['chat streamed with usage']
    await send(started, streamed.request.path, undefined, { raw: streamed.request.body! })
    const [row] = (await send(started, '/api/proxy/usage')).json.usage
    expect([row.requests, row.failed, row.estimated]).toEqual([1, 0, 0])
    expect(row.promptTokens).toBeGreaterThan(0)
    expect(row.completionTokens).toBeGreaterThan(0)
  })

  it.runIf(exchanges.cut?.response.broken)('that dies in the middle of a stream is told of', async () => {
    const started = await behindProxy(recording)
    const { request } = exchanges.cut
    const answer = await send(started, request.path, undefined, { raw: request.body! })
    const events = answer.text.split('\n\n').filter(Boolean)
    expect(JSON.parse(events.at(-1)!.slice(6)).error.code).toBe('stream_cut')
  })

  it('is read by OpenAI’s client through the proxy', async () => {
    const started = await behindProxy(recording)
    const client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'user', maxRetries: 0 })
    const { body } = exchanges['chat streamed'].request
    const stream = await client.chat.completions.create(JSON.parse(body!) as never)
    let words = ''
    for await (const chunk of stream as unknown as AsyncIterable<OpenAI.ChatCompletionChunk>)
      words += chunk.choices[0]?.delta.content ?? ''
    const whole = JSON.parse(textOf(exchanges.chat)).choices[0].message.content
    expect(words.trim()).toBe(whole.trim())
  })
})
