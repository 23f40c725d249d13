// Many at once, and many in a row: counts of errors and of what is left behind. bench/proxy measures the times.

import { describe, expect, it } from 'vitest'
import { answerBriefly, type Behaviour, chunkOf, cutAfter, fail, json, LAST_CHUNKS } from './scriptedNode.ts'
import { type Answered, chat, nodes, type Started, send, start, times, until } from './started.ts'

const whole = ({ status, broken, text }: Answered) => status === 200 && !broken && text.endsWith('data: [DONE]\n\n')

function leftBehind({ proxy }: Started) {
  const { fleet } = proxy
  return {
    open: proxy.open,
    waiting: fleet.queue.size,
    inFlight: fleet.nodes.map((node) => node.inFlight),
    attempts: fleet.nodes.map((node) => node.attempts.size),
  }
}

describe('a thousand streams at once', () => {
  it('come through whole, without errors and within 400 MB', async () => {
    const behave: Behaviour = async (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (let i = 0; i < 5; i++) {
        response.write(chunkOf(`word ${i}`))
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      response.end(LAST_CHUNKS)
    }
    const behind = await nodes({ behave }, { behave }, { behave })
    const started = await start(behind, {}, { max_in_flight: 400 })
    const before = process.memoryUsage().rss
    const answers = await Promise.all(times(1000, () => chat(started, { stream: true })))
    // Clients, proxy and nodes are all in this process.
    expect(process.memoryUsage().rss - before).toBeLessThan(400 * 1024 * 1024)
    expect(answers.filter((answer) => !whole(answer))).toEqual([])
    const { usage } = (await send(started, '/api/proxy/usage')).json
    expect([usage[0].requests, usage[0].failed]).toEqual([1000, 0])
    expect(leftBehind(started)).toMatchObject({ open: 0, waiting: 0, inFlight: [0, 0, 0], attempts: [0, 0, 0] })
  })

  it('and no more than its places are ever on a node, however many come', async () => {
    let most = 0
    let now = 0
    const behave: Behaviour = async (request, response) => {
      most = Math.max(most, ++now)
      await new Promise((resolve) => setTimeout(resolve, 2))
      now--
      await answerBriefly(request, response)
    }
    const [node] = await nodes({ behave })
    const started = await start([node], {}, { max_in_flight: 10 })
    const answers = await Promise.all(times(200, () => chat(started)))
    expect(answers.filter(({ status }) => status !== 200)).toEqual([])
    expect(most).toBeLessThanOrEqual(10)
    expect(most).toBeGreaterThan(1)
  })
})

it('after thousands of answers, errors, cuts, cancellations and refusals nothing is left behind', async () => {
  let turn = 0
  const ways: Behaviour[] = [
    answerBriefly,
    fail(400),
    answerBriefly,
    fail(500),
    cutAfter(1),
    answerBriefly,
    (_request, response) => void response.socket!.destroy(),
    (_request, response) => json(response, 404, { error: { message: 'no such model' } }),
    answerBriefly,
  ]
  const behave: Behaviour = (request, response) => ways[turn++ % ways.length](request, response)
  const behind = await nodes({ behave }, { behave }, { behave })
  // Breakers that stay closed, so that every way is gone again and again.
  const started = await start(behind, { breaker: { consecutive: 1e6, least: 1e6 }, health: { every_seconds: 0.2 } })
  const counts = new Map<number, number>()
  for (let round = 0; round < 20; round++) {
    const answers = await Promise.all(
      times(50, (i) => {
        if (i % 10 === 9) return leave(started)
        if (i % 10 === 8) return chat(started, { n: 1000 })
        return chat(started, { stream: i % 2 === 0 })
      }),
    )
    for (const answer of answers) if (answer) counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1)
  }
  expect(counts.get(200)).toBeGreaterThan(500)
  expect([...counts.values()].reduce((a, b) => a + b, 0)).toBe(20 * 45)
  await until(() => started.proxy.open === 0)
  expect(leftBehind(started)).toEqual({ open: 0, waiting: 0, inFlight: [0, 0, 0], attempts: [0, 0, 0] })
  // Health checks come and go; of users' requests nothing is under way in the connections either.
  for (const { pool } of started.proxy.fleet.nodes) await until(() => pool.stats.running + pool.stats.pending === 0)
  // And every node is still reached.
  for (const node of behind) node.script.behave = answerBriefly
  const last = await Promise.all(times(30, () => chat(started)))
  expect(new Set(last.map(({ headers }) => headers['x-rollout-lab-node']))).toEqual(new Set(['a', 'b', 'c']))
})

/** Asks, and goes away before the answer can be whole. */
async function leave(started: Started): Promise<null> {
  const controller = new AbortController()
  const asked = fetch(`${started.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: 'Bearer user', 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'base', messages: [], stream: true }),
    signal: controller.signal,
  })
  setTimeout(() => controller.abort(), 1)
  await asked.then((answer) => answer.body?.cancel()).catch(() => {})
  return null
}
