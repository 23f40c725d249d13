// The thread that answers prompts, on lab-nano: tokens that depend on nothing but prompt, rule and seed; text as it becomes
// certain; leaving.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import type { CompletionRequest, SampledToken } from '../../workers/completions/protocol.ts'
import { openNodeDevice } from '../../workers/gpu/node.ts'
import { type OpenPrompter, openPrompter, type Prompter } from '../../workers/host.node.ts'
import { openModel } from '../../workers/policy/load.ts'
import { createPlainPolicy } from '../../workers/policy/plain/index.ts'
import type { Read } from '../../workers/policy/weights.ts'
import { noiseKey } from '../../workers/random.ts'
import { LORA, samplingOptions } from '../policy/policies.ts'
import { perturbedAdapter } from './adapter.ts'

let thread: OpenPrompter
let prompter: Prompter
let prompt: number[]
beforeAll(async () => {
  thread = await openPrompter({ root: ROOT, backend: 'wasm' })
  prompter = thread.prompter
  await prompter.open({ key: 'nano', model: 'lab-nano', adapter: null })
  prompt = await prompter.renderChat('nano', [
    { role: 'system', content: 'Reverse.' },
    { role: 'user', content: 'abcdef' },
  ])
})
afterAll(() => thread.close())

const RULE = { temperature: 1, topP: 1, topK: -1, minP: 0, repetitionPenalty: 1, ignoreEnd: false }

function request(changes: Partial<CompletionRequest> = {}): Omit<CompletionRequest, 'id'> {
  return {
    key: 'nano',
    prompt,
    n: 1,
    seed: 7,
    maxTokens: 40,
    rule: RULE,
    stop: [],
    keepStop: false,
    alternatives: 0,
    eager: false,
    ...changes,
  }
}

interface Heard {
  text: string
  tokens: SampledToken[]
  reason: string
  stop: string | null
  parts: number
}

async function hear(changes: Partial<CompletionRequest> = {}, signal?: AbortSignal): Promise<Heard[]> {
  const heard: Heard[] = Array.from({ length: changes.n ?? 1 }, () => ({
    text: '',
    tokens: [],
    reason: '',
    stop: null,
    parts: 0,
  }))
  for await (const event of prompter.complete(request(changes), signal)) {
    const one = heard[event.index]
    if (event.kind === 'part') {
      one.text += event.text
      one.tokens.push(...event.tokens)
      one.parts++
    } else Object.assign(one, { reason: event.reason, stop: event.stop })
  }
  return heard
}
const ids = (heard: Heard) => heard.tokens.map(({ token }) => token)

describe('the tokens of an answer', () => {
  it('depend on prompt, rule and seed, not on neighbours or on how soon they are told', async () => {
    const alone = await hear()
    const [eager, many, beside] = await Promise.all([hear({ eager: true }), hear({ n: 5 }), hear({ seed: 8 })])
    expect(ids(eager[0])).toEqual(ids(alone[0]))
    expect(ids(many[0])).toEqual(ids(alone[0]))
    expect(ids(beside[0])).not.toEqual(ids(alone[0]))
    expect(new Set(many.map((one) => ids(one).join())).size).toBeGreaterThan(1)
  })

  it('are those of the sampler that trains', async () => {
    const device = await openNodeDevice('wasm')
    const read: Read = async (path, range) => {
      const bytes = new Uint8Array(await readFile(join(ROOT, 'models/lab-nano', path)))
      return range ? bytes.subarray(range.start, range.end) : bytes
    }
    const model = await openModel(read, 'lab-nano')
    const policy = await createPlainPolicy({ model, device, trainable: 'adapters', lora: LORA, seed: 0 })
    const sampler = policy.sampler(samplingOptions(model, { adapter: 'none' }))
    const [whole] = await sampler.complete([
      { sequence: 0, ids: Int32Array.from(prompt), noise: noiseKey(7, 'eval', 0, 0), maxTokens: 40 },
    ])
    const [heard] = await hear({ eager: true })
    expect(ids(heard)).toEqual([...whole.ids])
    heard.tokens.forEach(({ logp }, t) => {
      expect(Math.abs(logp - whole.logp[t])).toBeLessThan(1e-4)
    })
    sampler.dispose()
    policy.dispose()
    device.dispose()
  })

  it('come in several parts where they are read as they come', async () => {
    const [heard] = await hear({ eager: true, rule: { ...RULE, ignoreEnd: true } })
    expect(heard.tokens).toHaveLength(40)
    expect(heard.parts).toBeGreaterThan(2)
    expect(heard.reason).toBe('length')
  })

  it('bring alternatives that sum to at most one, the greedy token first', async () => {
    const [heard] = await hear({ alternatives: 5, rule: { ...RULE, temperature: 0 } })
    for (const { token, logp, alternatives } of heard.tokens) {
      expect(alternatives).toHaveLength(5)
      expect([alternatives[0].token, alternatives[0].logp]).toEqual([token, logp])
      const mass = alternatives.reduce((sum, one) => sum + Math.exp(one.logp), 0)
      expect(mass).toBeLessThanOrEqual(1 + 1e-6)
    }
  })

  it('score the same when they are read back', async () => {
    const [heard] = await hear()
    const scores = await prompter.score('nano', [...prompt, ...ids(heard)])
    const own = scores.slice(prompt.length - 1)
    expect(own.map(({ token }) => token)).toEqual(ids(heard))
    own.forEach(({ logp }, t) => {
      expect(Math.abs(logp - heard.tokens[t].logp)).toBeLessThan(1e-4)
    })
  })
})

describe('an answer', () => {
  it('ends before a stop text, wherever chunks are cut', async () => {
    const [free] = await hear({ rule: { ...RULE, temperature: 0 } })
    const stop = free.text.slice(5, 8)
    const cut = free.text.slice(0, free.text.indexOf(stop))
    for (const eager of [true, false]) {
      const [heard] = await hear({ rule: { ...RULE, temperature: 0 }, stop: [stop], eager })
      expect(heard).toMatchObject({ text: cut, reason: 'stop', stop })
    }
  })

  it('that is given up leaves the batch, and the next one is answered', async () => {
    const abort = new AbortController()
    const slow = hear({ n: 30, maxTokens: 200, rule: { ...RULE, ignoreEnd: true }, eager: true }, abort.signal)
    await expect.poll(async () => (await prompter.load()).running).toBe(30)
    abort.abort()
    await slow
    await expect.poll(async () => prompter.load()).toEqual({ running: 0, waiting: 0 })
    expect((await hear())[0].tokens.length).toBeGreaterThan(0)
  })

  it('to a token that the model does not have is refused', async () => {
    await expect(hear({ prompt: [1, 264] })).rejects.toThrow('Token 264 at position 1 is not one of')
  })
})

describe('models', () => {
  it('make room for each other and come back', async () => {
    const before = ids((await hear())[0])
    for (let i = 0; i < 6; i++) await prompter.open({ key: `copy-${i}`, model: 'lab-nano', adapter: null })
    expect(ids((await hear())[0])).toEqual(before)
  })

  it('that are not there are told in a sentence', async () => {
    await expect(prompter.open({ key: 'none', model: 'no-such-model', adapter: null })).rejects.toThrow(
      'There is no model no-such-model',
    )
  })

  it('speak otherwise under an adapter, and as before without it', async () => {
    const files = await perturbedAdapter()
    await prompter.open({ key: 'tuned', model: 'lab-nano', adapter: files })
    const [base, tuned] = await Promise.all([hear(), hear({ key: 'tuned' })])
    expect(ids(tuned[0])).not.toEqual(ids(base[0]))
    expect(ids((await hear())[0])).toEqual(ids(base[0]))
  })

  it('refuse an adapter that is not whole', async () => {
    const [weights, config] = await perturbedAdapter()
    await expect(prompter.open({ key: 'half', model: 'lab-nano', adapter: [config] })).rejects.toThrow(
      'adapter_model.safetensors',
    )
    const rslora = { ...JSON.parse(new TextDecoder().decode(config.bytes)), use_rslora: true }
    const files = [weights, { ...config, bytes: new TextEncoder().encode(JSON.stringify(rslora)) }]
    await expect(prompter.open({ key: 'half', model: 'lab-nano', adapter: files })).rejects.toThrow('use_rslora')
  })
})
