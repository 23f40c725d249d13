// The completer on the compiled policy says what it says on the plain one, with requests of several rules taking turns.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import type { Engine } from '../../configs/memory.ts'
import { createCompleter } from '../../workers/completions/completer.ts'
import type { CompletionEvent, CompletionRequest } from '../../workers/completions/protocol.ts'
import type { Backend } from '../../workers/gpu/device.ts'
import { openNodeDevice } from '../../workers/gpu/node.ts'
import { createAnsweringPolicy } from '../../workers/host/answeringPolicy.ts'
import type { Read } from '../../workers/policy/weights.ts'
import { perturbedAdapter } from './adapter.ts'

// Kernels are compiled in software where there is no GPU.
vi.setConfig({ testTimeout: 180_000 })

const RULE = { temperature: 1, topP: 1, topK: -1, minP: 0, repetitionPenalty: 1, ignoreEnd: true }

const files: Read = async (path, range) => {
  const bytes = new Uint8Array(await readFile(join(ROOT, 'models/lab-nano', path)))
  return range ? bytes.subarray(range.start, range.end) : bytes
}

/** Tokens and named alternatives of every request, by request and answer. */
async function answersOn(backend: Backend, engine: Engine) {
  const device = await openNodeDevice(backend)
  const completer = createCompleter({
    modelFiles: async () => files,
    openDevice: async () => device,
    createPolicy: (model, on, lora) => createAnsweringPolicy(model, on, lora, engine),
  })
  await completer.open({ key: 'nano', model: 'lab-nano', adapter: null })
  await completer.open({ key: 'tuned', model: 'lab-nano', adapter: await perturbedAdapter() })
  const prompt = await completer.renderChat('nano', [{ role: 'user', content: 'Reverse. abcdef' }])
  const heard: Record<string, { ids: number[]; named: { token: number; logp: number }[][] }> = {}
  let open = 0
  const ended = new Promise<void>((resolve, reject) => {
    void completer.subscribe((events: CompletionEvent[]) => {
      for (const event of events) {
        if (event.kind === 'failed') reject(new Error(event.sentence))
        else if (event.kind === 'part') {
          heard[`${event.id} ${event.index}`] ??= { ids: [], named: [] }
          const one = heard[`${event.id} ${event.index}`]
          one.ids.push(...event.tokens.map(({ token }) => token))
          one.named.push(...event.tokens.map(({ alternatives }) => alternatives))
        } else if (--open === 0) resolve()
      }
    })
  })
  const requests: Partial<CompletionRequest>[] = [
    { n: 2 },
    { rule: { ...RULE, temperature: 0.7 }, alternatives: 4, eager: true },
    { key: 'tuned', alternatives: 2, maxTokens: 9 },
  ]
  open = 4
  for (const [id, changes] of requests.entries()) {
    const common = { key: 'nano', prompt, n: 1, seed: 5, maxTokens: 20, rule: RULE, stop: [], keepStop: false }
    await completer.complete({ ...common, alternatives: 0, eager: false, ...changes, id })
  }
  await ended
  const scores = await completer.score('nano', [...prompt, ...heard['0 0'].ids])
  return { heard, scores: scores.map(({ logp }) => logp) }
}

it('answers alike on both engines', async () => {
  const plain = await answersOn('wasm', 'plain')
  const compiled = await answersOn('webgpu', 'compiled')
  expect(Object.keys(compiled.heard).sort()).toEqual(['0 0', '0 1', '1 0', '2 0'])
  for (const [answer, { ids, named }] of Object.entries(plain.heard)) {
    const other = compiled.heard[answer]
    expect(other.ids).toEqual(ids)
    named.forEach((list, t) => {
      expect(other.named[t].map(({ token }) => token)).toEqual(list.map(({ token }) => token))
      list.forEach(({ logp }, i) => {
        expect(Math.abs(other.named[t][i].logp - logp)).toBeLessThan(1e-4)
      })
    })
  }
  expect(plain.heard['1 0'].named[0]).toHaveLength(4)
  plain.scores.forEach((logp, t) => {
    expect(Math.abs(compiled.scores[t] - logp)).toBeLessThan(1e-4)
  })
})
