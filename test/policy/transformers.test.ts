// Random small checkpoints against the logits that transformers and peft computed from them (fixtures/make_fixtures.py).

import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { byteTokenizerConfig, byteTokenizerJson } from '../../models/byteLevel.ts'
import type { Device } from '../../workers/gpu/device.ts'
import { openNodeDevice } from '../../workers/gpu/node.ts'
import { type Model, openModel } from '../../workers/policy/load.ts'
import type { Row } from '../../workers/policy/policy.ts'
import type { Read } from '../../workers/policy/weights.ts'
import { FIXTURE_LORA, fixtureAdapter } from './exportedAdapter.ts'
import { POLICIES } from './implementations.ts'

const FIXTURES = new URL('./fixtures/', import.meta.url)

interface Fixture {
  ids: number[][]
  logits: number[][][]
}

const json = (value: object) => new TextEncoder().encode(JSON.stringify(value))
const tokenizerFiles: Record<string, Uint8Array> = {
  'tokenizer.json': json(byteTokenizerJson()),
  'tokenizer_config.json': json(byteTokenizerConfig(128)),
}

/** A checkpoint of the fixtures; it has no tokenizer of its own. */
function checkpoint(name: string): Promise<Model> {
  const read: Read = async (path, range) => {
    const bytes = tokenizerFiles[path] ?? new Uint8Array(await readFile(new URL(`${name}/${path}`, FIXTURES)))
    return range ? bytes.subarray(range.start, range.end) : bytes
  }
  return openModel(read, name)
}

async function fixture(name: string): Promise<Fixture> {
  return JSON.parse(await readFile(new URL(`${name}/logits.json`, FIXTURES), 'utf8')) as Fixture
}

/** log softmax over the whole vocabulary, [rows][T][V]. */
function logSoftmax(logits: number[][][]): number[][][] {
  return logits.map((rows) =>
    rows.map((row) => {
      const max = Math.max(...row)
      const total = Math.log(row.reduce((sum, value) => sum + Math.exp(value - max), 0)) + max
      return row.map((value) => value - total)
    }),
  )
}

/**
 * The policy answers for chosen tokens. Asked about each token of the vocabulary after each prefix, it gives every
 * log-probability; logits are equal up to a constant per position, and so are these.
 */
function everyToken(ids: number[], vocabulary: number): Row[] {
  return Array.from({ length: vocabulary }, (_, token) => ({
    ids: Int32Array.from([...ids, token]),
    targets: Int32Array.from([ids.length]),
    temperature: 1,
  }))
}

// Kernels are compiled in software where there is no GPU.
vi.setConfig({ testTimeout: 180_000 })

let device: Device
beforeAll(async () => {
  device = await openNodeDevice('wasm')
})
afterAll(() => device.dispose())

describe.each(POLICIES)('the $name policy', ({ create }) => {
  it.each(['qwen3-tied', 'qwen3-untied', 'qwen2-tied', 'llama-untied', 'llama3-scaled-tied'])(
    'computes what transformers computes for %s',
    async (name) => {
      const model = await checkpoint(name)
      const policy = await create({ model, device })
      const { ids, logits } = await fixture(name)
      const expected = logSoftmax(logits)
      // Every next token of both sequences, from every prefix.
      const rows = ids.map((row) => ({
        ids: Int32Array.from(row),
        targets: Int32Array.from(row.slice(1), (_, i) => i + 1),
        temperature: 1,
      }))
      const { logp, entropy } = await policy.logprobs(rows, { adapter: 'none' })
      let at = 0
      for (const [r, row] of ids.entries()) {
        for (let t = 1; t < row.length; t++) {
          expect(Math.abs(logp[at] - expected[r][t - 1][row[t]])).toBeLessThan(1e-3)
          expect(Math.abs(entropy[at] + expected[r][t - 1].reduce((sum, l) => sum + l * Math.exp(l), 0))).toBeLessThan(
            1e-3,
          )
          at++
        }
      }
      // The whole vocabulary after the first sequence.
      const last = await policy.logprobs(everyToken(ids[0], model.card.vocabulary), { adapter: 'none' })
      for (const [token, value] of last.logp.entries())
        expect(Math.abs(value - expected[0].at(-1)![token])).toBeLessThan(1e-3)
      policy.dispose()
    },
  )

  it('computes with its adapter what peft computes with the exported one', async () => {
    const model = await checkpoint('qwen3-tied')
    const { flat, files } = fixtureAdapter(model.card)
    for (const { name, bytes } of files) {
      // What peft read is what the exporter writes now.
      expect(Buffer.compare(await readFile(new URL(`adapter/${name}`, FIXTURES)), bytes)).toBe(0)
    }
    const policy = await create({ model, device, lora: FIXTURE_LORA })
    await policy.restore({ ...(await policy.state()), trainable: flat })
    const { ids, logits } = await fixture('adapter')
    const expected = logSoftmax(logits)
    const { logp } = await policy.logprobs(everyToken(ids[1], model.card.vocabulary), { adapter: 'live' })
    for (const [token, value] of logp.entries()) expect(Math.abs(value - expected[1].at(-1)![token])).toBeLessThan(1e-3)
    policy.dispose()
  })
})
