import { MessageChannel, Worker } from 'node:worker_threads'
import { wrap } from 'comlink'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { EnvironmentPort } from '../../workers/protocol.ts'
import { EnvironmentGuard, type EnvironmentLink } from '../../workers/trainer/environmentGuard.ts'
import { kinds, Lab, labConfig, trainingTokens } from './lab.ts'
import { LettersPort } from './letters.ts'

const REQUEST = { environments: [{ id: 'letters', name: 'letters', args: {}, ratio: 1 }], seed: 0 }

/** Letters in this thread that can be made to die, and a count of how often they were started. */
function mortal(port: () => EnvironmentPort = () => new LettersPort()) {
  const sides: { die: (sentence: string) => void; closed: boolean }[] = []
  const connect = async (): Promise<EnvironmentLink> => {
    const side = { die: (_: string) => {}, closed: false }
    sides.push(side)
    const gone = new Promise<string>((resolve) => {
      side.die = resolve
    })
    const close = () => {
      side.closed = true
    }
    return { port: port(), gone, close }
  }
  return { sides, connect }
}

function rolloutsOf(handles: string[]) {
  return handles.map((handle) => ({ handle, split: 'train' as const, position: 0 }))
}

describe('the guard around an environment side', () => {
  it('answers for the rollouts of a side that died, and sends new ones to a fresh side', async () => {
    const losses: string[] = []
    const { sides, connect } = mortal()
    const guard = new EnvironmentGuard(connect, (sentence) => losses.push(sentence))
    await guard.open(REQUEST)
    await guard.setup(rolloutsOf(['train/0/0', 'train/0/1']), 1000)
    sides[0].die('It died.')
    await null
    const message = { role: 'assistant' as const, content: 'a' }
    await guard.setup(rolloutsOf(['train/0/2']), 1000)
    const replies = await guard.respond(
      ['train/0/0', 'train/0/2'].map((handle) => ({ handle, message, truncated: false })),
      1000,
    )
    expect(replies.map(({ handle, error }) => [handle, error])).toEqual([
      ['train/0/0', 'It died.'],
      ['train/0/2', null],
    ])
    const [scores] = await guard.score([{ handles: ['train/0/0', 'train/0/2', 'train/0/1'] }], 1000)
    expect(scores.map(({ reward, error }) => [reward, error])).toEqual([
      [null, 'It died.'],
      [1, null],
      [null, 'It died.'],
    ])
    expect(losses).toEqual(['It died.'])
    expect(sides.map(({ closed }) => closed)).toEqual([true, false])
  })

  it('tells of a call that the side did not survive', async () => {
    const { sides, connect } = mortal(() => {
      const port = new LettersPort()
      port.respond = () => new Promise(() => {})
      return port
    })
    const guard = new EnvironmentGuard(connect, () => {})
    await guard.open(REQUEST)
    await guard.setup(rolloutsOf(['train/0/0']), 1000)
    const reply = guard.respond(
      [{ handle: 'train/0/0', message: { role: 'assistant', content: 'a' }, truncated: false }],
      1000,
    )
    sides[0].die('It died in the middle.')
    expect(await reply).toEqual([
      { handle: 'train/0/0', done: true, stop: 'has_error', messages: [], error: 'It died in the middle.' },
    ])
  })

  it('gives up on a side that dies every time', async () => {
    const { sides, connect } = mortal(() => {
      const port = new LettersPort()
      port.draw = () => {
        sides.at(-1)?.die('It died again.')
        return new Promise(() => {})
      }
      return port
    })
    const guard = new EnvironmentGuard(connect, () => {})
    await guard.open(REQUEST)
    await expect(guard.draw('train', [0], 1000)).rejects.toThrow(/lost 3 times in a row: It died again/)
    expect(sides).toHaveLength(3)
  })

  it('passes on what a living side says', async () => {
    const { connect } = mortal(() => {
      const port = new LettersPort()
      port.draw = async () => {
        throw new Error('There is no such split.')
      }
      return port
    })
    const guard = new EnvironmentGuard(connect, () => {})
    await guard.open(REQUEST)
    await expect(guard.draw('train', [0], 1000)).rejects.toThrow('There is no such split.')
  })
})

describe('a thread of its own', () => {
  let lab: Lab
  const workers: Worker[] = []
  beforeEach(async () => {
    lab = await Lab.open()
  })
  afterEach(async () => {
    await lab.close()
    await Promise.all(workers.map((worker) => worker.terminate()))
  })

  // Letters in a worker thread, in plain JavaScript; `onCall` runs before each call and may hang or kill the thread.
  async function thread(onCall: string): Promise<EnvironmentLink> {
    const code = `
      const { parentPort, workerData } = require('node:worker_threads')
      const rollouts = new Map()
      let calls = 0
      const methods = {
        open: () => [{ id: 'letters', name: 'letters', title: '', summary: '', trainSize: null, evalSize: null, maxTurns: 1 }],
        draw: (split, positions) => positions.map((position) => ({ position, exampleId: position, environment: 'letters',
          prompt: [{ role: 'user', content: 'cd' }], answer: '' })),
        setup: (list) => list.map(({ handle }) => ({ handle, prompt: [{ role: 'user', content: 'cd' }], error: null })),
        respond: (list) => list.map(({ handle, message }) => {
          rollouts.set(handle, message.content)
          return { handle, done: true, stop: 'said', messages: [], error: null }
        }),
        score: (groups) => groups.map(({ handles }) => handles.map((handle) => ({ handle,
          reward: [...rollouts.get(handle)].filter((c) => c === 'a').length / 6, metrics: {}, error: null }))),
        release: () => {},
      }
      parentPort.once('message', async (port) => {
        const { expose } = await import(workerData)
        expose(Object.fromEntries(Object.entries(methods).map(([name, method]) => [name, (...args) => {
          calls++
          ${onCall}
          return method(...args)
        }])), port)
      })`
    const comlink = new URL('../../node_modules/comlink/dist/esm/comlink.mjs', import.meta.url).href
    const worker = new Worker(code, { eval: true, workerData: comlink })
    worker.on('error', () => {})
    workers.push(worker)
    const { port1, port2 } = new MessageChannel()
    worker.postMessage(port1, [port1])
    const port = port2 as unknown as MessagePort
    return {
      port: wrap<EnvironmentPort>(port),
      gone: new Promise((resolve) => port.addEventListener('close', () => resolve('The thread ended unexpectedly.'))),
      close: () => {
        worker.terminate()
        port.close()
      },
    }
  }

  it('that is killed in the middle of a step costs its open rollouts and nothing else', async () => {
    let started = 0
    const connect = () => thread(++started === 1 ? "if (name === 'respond') process.exit(1)" : '')
    const events = await lab.run(labConfig({ max_steps: 3 }), { connect })
    const [first, second] = kinds(events, 'samples')
    for (const { rollouts } of first.groups) {
      expect(rollouts.map(({ error }) => error)).toEqual(Array(4).fill('The thread ended unexpectedly.'))
    }
    expect(second.groups.flatMap(({ rollouts }) => rollouts.filter(({ error }) => error))).toEqual([])
    expect(kinds(events, 'step').map(({ learned }) => learned)).toEqual([false, true, true])
    expect(started).toBe(2)
  })

  it('that hangs for good is ended and replaced', async () => {
    let started = 0
    const connect = () => thread(++started === 1 ? "if (name === 'score') for (;;);" : '')
    const config = labConfig({ max_steps: 2, browser: { environment_deadline_ms: 200 } })
    const events = await lab.run(config, { connect })
    expect(kinds(events, 'samples')[0].groups[0].rollouts[0].error).toMatch(
      /did not answer within 200 ms and was restarted/,
    )
    expect(kinds(events, 'step').map(({ learned }) => learned)).toEqual([false, true])
    expect(kinds(events, 'note').some(({ level, sentence }) => level === 'warning' && /restarted/.test(sentence))).toBe(
      true,
    )
  }, 20_000)

  it('gives the same tokens in every life', async () => {
    const there = trainingTokens(
      await lab.run(labConfig({ max_steps: 2 }), { run: 'there', connect: () => thread('') }),
    )
    const again = trainingTokens(
      await lab.run(labConfig({ max_steps: 2 }), { run: 'again', connect: () => thread('') }),
    )
    expect(there).toHaveLength(32)
    expect(again).toEqual(there)
  })
})
