// What only a GPU can show of the compiled policy, on lab-tiny: tokens that do not depend on how they were batched, the same
// log-probability when sampled and when learned, agreement with the plain policy over fifty updates, memory that stays, and
// what smaller formats of the frozen weights cost.

import type { Device } from '../../workers/gpu/device.ts'
import type { WeightFormat } from '../../workers/gpu/kernels/weightFormat.ts'
import { offeredBy } from '../../workers/gpu/variants.ts'
import { createCompiledPolicy } from '../../workers/policy/compiled/index.ts'
import type { VariantRequest } from '../../workers/policy/compiled/variants.ts'
import type { Decoder } from '../../workers/policy/compiled/whole.ts'
import { type Model, openModel } from '../../workers/policy/load.ts'
import { createPlainPolicy } from '../../workers/policy/plain/index.ts'
import type { Completion, OptimizerStep, Policy, Row } from '../../workers/policy/policy.ts'
import { noiseKey, RandomStream } from '../../workers/random.ts'
import { PLAIN_SAMPLING } from './plainSampling.ts'

const LORA = {
  r: 16,
  alpha: 32,
  targetModules: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
}
const ADAMW: OptimizerStep = {
  type: 'adamw',
  learningRate: 1e-3,
  beta1: 0.9,
  beta2: 0.95,
  epsilon: 1e-8,
  weightDecay: 0,
  maxGradientNorm: 1,
}
const WORDS = ['brin', 'mu', 'gu', 'di', 'rer', 'lo', 'stan', 'ek', 'vir', 'pol', 'tam', 'ri']

export interface Verified {
  what: string
  [name: string]: unknown
}

export interface Verification {
  verify: true
  variants: VariantRequest
}

/** Of one run: what the first policy chose holds for all that follow. */
type Chosen = Device & { variants: VariantRequest; decoder?: Decoder }

export async function verify(found: Device, variants: VariantRequest, tell: (line: Verified) => void): Promise<void> {
  const model = await openModel(fetched, 'lab-tiny')
  const first = await compiled(model, { ...found, variants }, 64)
  const device: Chosen = { ...found, variants: first.variants.choices }
  first.dispose()
  tell({ what: 'variants of kernels', ...first.variants.choices, notes: first.variants.notes })
  await packing(model, device, tell)
  const lanes = Math.min(8, Math.max(1, offeredBy(found.gpu!).lanes))
  const decoder: Decoder = { kind: 'whole', rows: 2, threads: 256, lanes, pipelined: true }
  await packing(model, { ...device, decoder }, (line) => tell({ ...line, what: `${line.what}, decoding whole blocks` }))
  await parity(model, device, tell)
  await flatMemory(model, device, tell)
  await formats(model, device, tell)
}

async function fetched(path: string, range?: { start: number; end: number }): Promise<Uint8Array> {
  const answer = await fetch(new URL(`../models/lab-tiny/${path}`, self.location.href))
  if (!answer.ok) throw new Error(`Read ${path}: ${answer.status}.`)
  const bytes = new Uint8Array(await answer.arrayBuffer())
  return range ? bytes.subarray(range.start, range.end) : bytes
}

function compiled(model: Model, device: Chosen, slots: number, baseFormat: WeightFormat = 'f32') {
  const { variants, decoder } = device
  const common = { model, device, lora: LORA, seed: 3, slots, baseFormat }
  return createCompiledPolicy({ ...common, tokensPerPass: 8192, variants, decoder })
}

async function perturb(policy: Policy, deviation: number): Promise<void> {
  const random = new RandomStream(17)
  const state = await policy.state()
  await policy.restore({ ...state, trainable: state.trainable.map((value) => value + deviation * random.normal()) })
}

function prompts(model: Model, count: number): Int32Array[] {
  const random = new RandomStream(29)
  return Array.from({ length: count }, () => {
    const words = Array.from({ length: 2 + random.integer(4) }, () => WORDS[random.integer(WORDS.length)])
    const content = `Reverse the text character-by-character. ${words.join(' ')}`
    return Int32Array.from(model.template.renderPrompt([{ role: 'user', content }]))
  })
}

async function sample(policy: Policy, model: Model, asked: Int32Array[], maxTokens: number): Promise<Completion[]> {
  const sampler = policy.sampler({
    ...PLAIN_SAMPLING,
    decode: model.tokenizer.decode,
    maxLength: model.card.maxLength,
  })
  const turns = asked.map((ids, sequence) => ({ sequence, ids, noise: noiseKey(5, 'train', sequence, 0), maxTokens }))
  const done = await sampler.complete(turns)
  sampler.dispose()
  return done
}

function rowsOf(asked: Int32Array[], completions: Completion[]): Row[] {
  return completions.map(({ ids }, i) => ({
    ids: Int32Array.from([...asked[i], ...ids]),
    targets: Int32Array.from(ids, (_, t) => asked[i].length + t),
    temperature: 1,
  }))
}

async function packing(model: Model, device: Chosen, tell: (line: Verified) => void): Promise<void> {
  const asked = prompts(model, 1600)
  const found: Completion[][] = []
  for (const slots of [64, 1, 256]) {
    const policy = await compiled(model, device, slots)
    await perturb(policy, 0.02)
    found.push(await sample(policy, model, asked, 64))
    if (slots === 64) {
      const { logp } = await policy.logprobs(rowsOf(asked, found[0]), { adapter: 'live' })
      const mu = found[0].flatMap((completion) => [...completion.logp])
      const errors = mu.map((value, i) => Math.abs(value - logp[i]))
      const mean = errors.reduce((sum, error) => sum + error, 0) / errors.length
      tell({
        what: 'log π sampled and learned',
        tokens: mu.length,
        worst: errors.reduce((a, b) => Math.max(a, b), 0),
        mean,
      })
    }
    policy.dispose()
  }
  const [at64, ...others] = found
  const tokens = at64.reduce((sum, { ids }) => sum + ids.length, 0)
  for (const [i, slots] of [1, 256].entries()) {
    let differing = 0
    let bits = 0
    at64.forEach((completion, s) => {
      completion.ids.forEach((id, t) => {
        if (id !== others[i][s].ids[t]) differing++
        if (completion.logp[t] !== others[i][s].logp[t]) bits++
      })
    })
    tell({ what: `tokens at B=64 and B=${slots}`, tokens, differing, logProbabilitiesWithOtherBits: bits })
  }
}

async function parity(model: Model, device: Chosen, tell: (line: Verified) => void): Promise<void> {
  const asked = prompts(model, 16)
  const ours = await compiled(model, device, 16)
  const plain = await createPlainPolicy({ model, device, trainable: 'adapters', lora: LORA, seed: 3, slots: 16 })
  const rows = rowsOf(asked, await sample(ours, model, asked, 48))
  let worst = 0
  let worstLogp = 0
  let agreeing = 0
  let last: [number, number] = [0, 0]
  const tokens = rows.reduce((sum, { targets }) => sum + targets.length, 0)
  for (let step = 0; step < 50; step++) {
    const losses: number[] = []
    const logps: Float32Array[] = []
    for (const policy of [ours, plain]) {
      const { pass, logp } = await policy.logprobs(rows, { adapter: 'live', keep: true })
      losses.push(-logp.reduce((sum, value) => sum + value, 0) / tokens)
      logps.push(logp)
      await policy.backward(
        pass!,
        logp.map(() => -1 / tokens),
      )
      await policy.update(ADAMW)
    }
    worst = Math.max(worst, Math.abs(losses[0] - losses[1]))
    if (step === 0) {
      worstLogp = logps[0].reduce((most, value, i) => Math.max(most, Math.abs(value - logps[1][i])), 0)
      agreeing = logps[0].filter((value, i) => Math.abs(value - logps[1][i]) < 1e-4).length / tokens
    }
    last = [losses[0], losses[1]]
  }
  tell({ what: 'log π against plain, forced', tokens, worst: worstLogp, within1e4: agreeing })
  tell({
    what: 'loss over 50 updates against plain',
    worstDifference: worst,
    lastCompiled: last[0],
    lastPlain: last[1],
  })
  ours.dispose()
  plain.dispose()
}

async function flatMemory(model: Model, device: Chosen, tell: (line: Verified) => void): Promise<void> {
  const policy = await compiled(model, device, 32)
  const bytes: number[] = []
  for (let step = 0; step < 200; step++) {
    const asked = prompts(model, 16)
    const rows = rowsOf(asked, await sample(policy, model, asked, 16))
    const { pass, logp } = await policy.logprobs(rows, { adapter: 'live', keep: true })
    await policy.backward(
      pass!,
      logp.map(() => -1e-4),
    )
    await policy.update(ADAMW)
    bytes.push(policy.memory().gpuBytes)
  }
  tell({ what: 'bytes after 3 and after 200 steps', after3: bytes[2], after200: bytes[199] })
  policy.dispose()
}

// The loss of text that the f32 policy wrote, under each format: its difference to f32 is a divergence, and never negative
// but for chance.
async function formats(model: Model, device: Chosen, tell: (line: Verified) => void): Promise<void> {
  const asked = prompts(model, 400)
  const author = await compiled(model, device, 64)
  const rows = rowsOf(asked, await sample(author, model, asked, 48))
  author.dispose()
  const losses: Record<string, number> = {}
  for (const format of ['f32', 'f16', 'int8', 'int4'] as const) {
    const policy = await compiled(model, device, 64, format)
    const { logp } = await policy.logprobs(rows, { adapter: 'none' })
    losses[format] = -logp.reduce((sum, value) => sum + value, 0) / logp.length
    policy.dispose()
  }
  const { f16, int8, int4 } = losses
  tell({ what: 'nats per token by format', ...losses, int8OverF16: int8 - f16, int4OverF16: int4 - f16 })
}
