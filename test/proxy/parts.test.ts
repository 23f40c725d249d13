// The proxy's parts, each alone.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nodeOfSession, Prefixes } from '../../server/proxy/affinity.ts'
import { readBody, withModel } from '../../server/proxy/body.ts'
import { Breaker } from '../../server/proxy/breaker.ts'
import { RetryBudget } from '../../server/proxy/budget.ts'
import { DEFAULTS } from '../../server/proxy/config.ts'
import { parseLoad } from '../../server/proxy/load.ts'
import { EventWatch, tokensOf } from '../../server/proxy/stream.ts'
import { toCsv, Usage, UsageInMemory } from '../../server/proxy/usage.ts'

describe('a breaker', () => {
  const made = () => {
    const clock = { ms: 0 }
    return { clock, breaker: new Breaker(DEFAULTS.breaker, () => clock.ms) }
  }
  const fail = (breaker: Breaker, times = 1) => {
    for (let i = 0; i < times; i++) breaker.failed(breaker.begin(), 'it failed')
  }

  it('opens after five failures in a row, a success between them starts anew', () => {
    const { breaker } = made()
    fail(breaker, 4)
    breaker.succeeded(breaker.begin())
    fail(breaker, 4)
    expect(breaker.state).toBe('closed')
    fail(breaker)
    expect([breaker.state, breaker.until]).toEqual(['open', 10_000])
  })

  it('opens when more than half of at least twenty in thirty seconds failed', () => {
    const { breaker, clock } = made()
    const mixed = (count: number) => {
      for (let i = 0; i < count; i++) {
        fail(breaker)
        breaker.succeeded(breaker.begin())
      }
    }
    mixed(10)
    expect(breaker.state).toBe('closed')
    fail(breaker)
    expect(breaker.reason).toBe('11 of 21 answers in 30 s failed: it failed')
    const later = made()
    for (let i = 0; i < 19; i++) later.breaker[i % 2 ? 'succeeded' : 'failed'](later.breaker.begin(), 'x')
    later.clock.ms = 31_000
    fail(later.breaker, 2)
    expect(later.breaker.state).toBe('closed')
    expect(clock.ms).toBe(0)
  })

  it('stays open 10, 20, 40, 60, 60 s, and 10 again once it was closed', () => {
    const { breaker, clock } = made()
    fail(breaker, 5)
    for (const seconds of [10, 20, 40, 60, 60]) {
      expect(breaker.until! - clock.ms).toBe(seconds * 1000)
      clock.ms = breaker.until! - 1
      expect(breaker.admits()).toBe('no')
      clock.ms++
      expect(breaker.admits()).toBe('probe')
      fail(breaker)
    }
    clock.ms = breaker.until!
    breaker.admits()
    breaker.succeeded(breaker.begin())
    expect(breaker.state).toBe('closed')
    fail(breaker, 5)
    expect(breaker.until! - clock.ms).toBe(10_000)
  })

  it('lets one probe through, and takes it back when that says nothing', () => {
    const { breaker } = made()
    breaker.open('test')
    breaker.halfOpen()
    expect(breaker.admits()).toBe('probe')
    const probe = breaker.begin()
    expect(breaker.admits()).toBe('no')
    breaker.abandoned(probe)
    expect(breaker.admits()).toBe('probe')
  })

  it('is not closed by a success that began before it opened, nor opened by such a failure', () => {
    const { breaker } = made()
    const [early, late] = [breaker.begin(), breaker.begin()]
    fail(breaker, 5)
    breaker.succeeded(early)
    expect(breaker.state).toBe('open')
    breaker.halfOpen()
    breaker.failed(late, 'old')
    expect(breaker.state).toBe('half-open')
  })
})

describe('a body', () => {
  const key = fc.oneof(fc.string(), fc.constantFrom('model', 'messages', '__proto__', 'a\\', '"', '\u2028'))
  const value = fc.jsonValue({ maxDepth: 6 })
  const spaces = fc.constantFrom('', ' ', '\n', '\t ', '\r\n')

  it('has its model replaced and every other byte kept, whatever stands around it', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(key, value), { maxLength: 8 }),
        fc.nat(),
        fc.string(),
        spaces,
        (pairs, at, name, s) => {
          const seen = new Set(['model'])
          const others = pairs.filter(([key]) => !seen.has(key) && seen.add(key))
          const text = others.map(
            ([key, value]) => `${s}${JSON.stringify(key)}${s}:${s}${JSON.stringify(value, null, s ? 1 : 0)}`,
          )
          const where = at % (text.length + 1)
          const of = (model: string) =>
            `${s}{${[...text.slice(0, where), `${s}"model":${model}`, ...text.slice(where)].join(`${s},`)}${s}}${s}`
          const body = readBody(Buffer.from(of('"old"')), { depth: 64 })
          expect(withModel(body, name).toString()).toBe(of(JSON.stringify(name)))
          expect([...body.fields.keys()].sort()).toEqual(['model', ...others.map(([key]) => key)].sort())
        },
      ),
    )
  })

  it('never breaks the reader: any bytes are read or refused', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array(),
          fc.string().map((text) => Buffer.from(`{"model":"a"${text}`)),
        ),
        (bytes) => {
          try {
            readBody(Buffer.from(bytes), { depth: 64 })
          } catch (error) {
            expect((error as { status: number }).status).toBe(400)
          }
        },
      ),
    )
  })
})

describe('a stream', () => {
  const events = [
    'data: {"a":1}\n\n',
    ': note\n\n',
    'event: x\ndata: é\r\n\r\n',
    'data: {"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n',
    'data: [DONE]\n\n',
  ]

  it('passes whole events only, and all bytes in the end, however it is cut', () => {
    const bytes = Buffer.from(events.join(''))
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 12 }), (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), bytes.length]
        const watch = new EventWatch()
        const passed = at.slice(1).map((end, i) => watch.push(bytes.subarray(at[i], end)))
        let text = ''
        for (const piece of passed) {
          text += piece ?? ''
          expect(text === '' || /\n\r?\n$/.test(text)).toBe(true)
        }
        expect(text).toBe(bytes.toString())
        expect([watch.done, watch.words, watch.tokens]).toEqual([true, 4, { prompt: 3, completion: 2 }])
      }),
    )
  })

  it('without a blank line at its end is whole when it says [DONE], and cut when it does not', () => {
    const watch = new EventWatch()
    watch.push(Buffer.from('data: 1\n\ndata: [DONE]\n'))
    expect([watch.done, String(watch.rest()), watch.done]).toEqual([false, 'data: [DONE]\n', true])
    const half = new EventWatch()
    half.push(Buffer.from('data: 1\n\ndata: {"cho'))
    expect([half.rest(), half.done]).toEqual([null, false])
  })

  it('is not fooled by a text that speaks of usage or of [DONE]', () => {
    const text = 'data: [DONE]\n\n"usage":{"prompt_tokens":9}'
    const event = `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`
    const watch = new EventWatch()
    watch.push(Buffer.from(event))
    expect([watch.done, watch.tokens]).toEqual([false, null])
    expect(
      tokensOf(
        Buffer.from(JSON.stringify({ a: text, usage: { prompt_tokens: 1, completion_tokens: 2, d: { x: 1 } } })),
      ),
    ).toEqual({ prompt: 1, completion: 2 })
    expect(tokensOf(Buffer.from('{"usage":null}'))).toBe(null)
    expect(tokensOf(Buffer.from('{"usage":{"prompt_tokens":-5,"completion_tokens":"9"}}'))).toEqual({
      prompt: 0,
      completion: 0,
    })
  })
})

it('the load of a node is read from vLLM’s metrics, of all its engines', () => {
  const text = [
    '# HELP vllm:num_requests_running Number of requests in model execution batches.',
    '# TYPE vllm:num_requests_running gauge',
    'vllm:num_requests_running{engine="0",model_name="q"} 3.0',
    'vllm:num_requests_running{engine="1",model_name="q"} 4.0',
    'vllm:num_requests_waiting{engine="0",model_name="a b"} 2.0',
    'vllm:kv_cache_usage_perc{engine="0"} 0.25',
    'vllm:kv_cache_usage_perc{engine="1"} 0.5',
    'vllm:num_requests_running_total NaN',
    'process_start_time_seconds 1.7e+09',
  ].join('\n')
  expect(parseLoad(text)).toEqual({ running: 7, waiting: 2, kvCache: 0.5, startedAt: 1.7e9 })
  expect(parseLoad('process_start_time_seconds 5')).toBe(null)
  expect(parseLoad('<html>')).toBe(null)
})

it('sessions are spread over nodes, and prefixes are forgotten with theirs', () => {
  const homes = Array.from({ length: 3000 }, (_, i) => nodeOfSession(`s${i}`, ['a', 'b', 'c'])!)
  for (const name of ['a', 'b', 'c'])
    expect(Math.abs(homes.filter((home) => home === name).length - 1000)).toBeLessThan(120)
  const prefixes = new Prefixes({ piece_bytes: 4, pieces: 3 })
  const pieces = prefixes.piecesOf('m', Buffer.from('aaaabbbbcc'))
  expect(pieces).toHaveLength(2)
  expect(prefixes.piecesOf('other', Buffer.from('aaaabbbbcc'))[0]).not.toBe(pieces[0])
  prefixes.remember(pieces, 'a')
  expect(prefixes.nodeOf(prefixes.piecesOf('m', Buffer.from('aaaaxxxx')))).toBe('a')
  prefixes.remember(prefixes.piecesOf('m', Buffer.from('ccccdddd')), 'b')
  expect(prefixes.nodeOf([pieces[0]])).toBe(undefined)
  prefixes.forget('a')
  expect(prefixes.nodeOf(pieces)).toBe(undefined)
})

it('a retry budget is a tenth of the requests, above its reserve', () => {
  const budget = new RetryBudget({ budget: 0.1, reserve: 2 })
  expect([budget.take(), budget.take(), budget.take()]).toEqual([true, true, false])
  for (let i = 0; i < 11; i++) budget.requested()
  expect([budget.take(), budget.take()]).toEqual([true, false])
})

describe('usage', () => {
  const account = {
    caller: { key: 'k', project: 'p' },
    route: '/v1/completions',
    model: 'm',
    node: 'a',
    attempts: 1,
    outcome: 'answered',
    status: 200,
    tokens: { prompt: 1, completion: 2, estimated: false },
    seconds: 0,
    firstByteSeconds: 0,
  } as const

  it('that could not be written is written the next time, once', async () => {
    const store = new UsageInMemory()
    let broken = true
    const usage = new Usage({
      add: async (rows) => {
        if (broken) throw new Error('disk full')
        await store.add(rows)
      },
      read: (query) => store.read(query),
    })
    usage.count(account)
    await expect(usage.write()).rejects.toThrow('disk full')
    usage.count(account)
    broken = false
    await usage.close()
    const [row, ...rest] = await store.read({ from: '2000-01-01', to: '2999-01-01' })
    expect([row.requests, row.promptTokens, row.completionTokens, rest]).toEqual([2, 2, 4, []])
  })

  it('as a table is no formula and no extra column', () => {
    const row = {
      day: '2026-11-21',
      project: '=1+1',
      key: 'a,b',
      model: 'x"y\nz',
      requests: 1,
      failed: 0,
      promptTokens: 0,
      completionTokens: 0,
      estimated: 0,
    }
    expect(toCsv([row]).split('\r\n')[1]).toBe(`2026-11-21,'=1+1,"a,b","x""y\nz",1,0,0,0,0`)
  })
})
