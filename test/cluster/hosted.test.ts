// The client of Hosted Training against a scripted server with the shapes that the client `prime` 0.9.0 reads. No such
// platform has been asked.

import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { compile } from '../../server/compile/compile.ts'
import { hostedPayload } from '../../server/compile/payload.ts'
import { HostedClient } from '../../server/engines/hosted/client.ts'

interface Asked {
  method: string
  path: string
  authorization: string
  body: unknown
}

let server: Server
let asked: Asked[]
let answer: { status: number; body: unknown } | 'cut'
let client: HostedClient

const RUN = {
  ...{ id: 'run_1', name: 'n', userId: 'u', status: 'QUEUED', runsAhead: 3, queueReason: 'The cluster is busy.' },
  ...{ createdAt: '2026-11-20T10:00:00Z', updatedAt: '2026-11-20T10:00:00Z', startedAt: null, completedAt: null },
}

beforeEach(async () => {
  asked = []
  answer = { status: 200, body: { run: RUN } }
  server = createServer(async (request, response) => {
    const text = await bodyOf(request)
    const { method = '', url = '', headers } = request
    asked.push({ method, path: url, authorization: headers.authorization ?? '', body: text ? JSON.parse(text) : null })
    if (answer === 'cut') response.destroy()
    else response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  client = new HostedClient({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1`,
    key: 'k',
    team: 't',
  })
})
afterEach(() => new Promise((resolve) => server.close(resolve)))

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

const payload = () => {
  const text = 'model = "Qwen/Qwen3-4B-Instruct-2507"\nmax_steps = 20\n[[env]]\nid = "reverse-text"\n'
  return hostedPayload(compile(text, 'hosted').text ?? '')
}

describe('Hosted Training', () => {
  test('is sent what its own client sends', async () => {
    const run = await client.submit(payload(), { WANDB_API_KEY: 's' })
    expect(run).toMatchObject({ id: 'run_1', state: 'queued', runsAhead: 3, reason: 'The cluster is busy.' })
    expect(asked).toMatchObject([
      {
        ...{ method: 'POST', path: '/api/v1/rft/runs', authorization: 'Bearer k' },
        body: {
          ...{ model: { name: 'Qwen/Qwen3-4B-Instruct-2507' }, environments: [{ id: 'primeintellect/reverse-text' }] },
          ...{ max_steps: 20, rollouts_per_example: 8, batch_size: 128, team_id: 't' },
          secrets: [{ key: 'WANDB_API_KEY', value: 's' }],
        },
      },
    ])
  })

  test('tells how a run stands', async () => {
    answer = {
      status: 200,
      body: { run: { ...RUN, status: 'FAILED', errorMessage: 'out of memory', completedAt: '2026-11-20T11:00:00Z' } },
    }
    expect(await client.run('run_1')).toMatchObject({
      state: 'failed',
      reason: 'out of memory',
      endedAt: Date.parse('2026-11-20T11:00:00Z'),
    })
    await client.stop('a/b')
    expect(asked[1]).toMatchObject({ method: 'PUT', path: '/api/v1/rft/runs/a%2Fb/stop' })
    answer = { status: 200, body: { logs: 'one\ntwo\n' } }
    expect(await client.logs('run_1', 2)).toBe('one\ntwo\n')
    answer = { status: 200, body: { metrics: [{ step: 3, 'reward/mean': 0.5 }, 'x'] } }
    expect(await client.metrics('run_1', 3)).toEqual([{ step: 3, 'reward/mean': 0.5 }])
    expect(asked[3].path).toBe('/api/v1/rft/runs/run_1/metrics?min_step=3&limit=500')
  })

  test('refuses with its own words, and a wrong key is said', async () => {
    answer = { status: 422, body: { detail: [{ loc: ['body', 'batch_size'], msg: 'must be positive' }] } }
    expect(await client.preview(payload())).toEqual(['Hosted Training refused: body.batch_size: must be positive'])
    answer = { status: 401, body: {} }
    await expect(client.run('x')).rejects.toThrow('does not take the key')
  })

  test('a submit whose answer never came is doubtful, and is not repeated', async () => {
    answer = 'cut'
    await expect(client.submit(payload(), {})).rejects.toMatchObject({ kind: 'doubtful' })
    expect(asked).toHaveLength(1)
    answer = { status: 503, body: {} }
    await expect(client.run('x')).rejects.toMatchObject({ kind: 'unreachable' })
  })

  test('keys and secrets go over TLS, or to this machine', () => {
    expect(() => new HostedClient({ url: 'http://api.example/api/v1', key: 'k' })).toThrow('must begin with https://')
    expect(() => new HostedClient({ url: 'https://api.example/api/v1', key: 'k' })).not.toThrow()
  })
})
