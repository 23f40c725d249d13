// What the engine's bench measures, the way the anchors do: decoding 127 tokens from position 32, and one update of rows of
// 160 tokens, with LoRA r = 16 on q, k, v, o, unmerged.

import type { Device } from '../../workers/gpu/device.ts'
import type { WeightFormat } from '../../workers/gpu/kernels/weightFormat.ts'
import { GpuMemory } from '../../workers/gpu/memory.ts'
import type { TrialLine } from '../../workers/gpu/trial.ts'
import type { Variant } from '../../workers/gpu/variants.ts'
import { formatsOf, loadFrozenWeights } from '../../workers/policy/compiled/frozen.ts'
import { createCompiledPolicy } from '../../workers/policy/compiled/index.ts'
import { shapeOf } from '../../workers/policy/compiled/shape.ts'
import { createPlainPolicy } from '../../workers/policy/plain/index.ts'
import type { Completion, OptimizerStep, Policy, Row } from '../../workers/policy/policy.ts'
import { noiseKey, RandomStream } from '../../workers/random.ts'
import { PLAIN_SAMPLING } from './plainSampling.ts'
import { randomModel, SHAPES } from './shapes.ts'

export interface Work {
  policy: 'compiled' | 'plain'
  model: string
  format: WeightFormat
  decode: number[]
  /** Rows of the update; 0 for none. */
  rows: number
  recompute?: 'none' | 'elementwise' | 'layer'
  /** Of kernels. */
  variants?: 'trial' | Variant
  /** GPU time by kernel, of one repetition more. */
  profile?: boolean
  /** Only decoding, by these decoders. */
  decoder?: 'batched' | 'whole' | 'both'
  /** Only the loading of the weights. */
  load?: boolean
}

export interface Measured {
  policy: string
  model: string
  format: string
  what: string
  tokensPerSecond: number
  milliseconds: number
  gpuBytes: number
  owners?: Record<string, number>
  kernels?: { name: string; dispatches: number; milliseconds: number }[]
}

/** What a start-up trial found. */
export interface Tried {
  model: string
  format: string
  /** Of the whole trial. */
  milliseconds: number
  lines: TrialLine[]
  notes: string[]
}

const PROMPT = 32
export const SAMPLED = 128
export const LORA = { r: 16, alpha: 32, targetModules: ['q_proj', 'k_proj', 'v_proj', 'o_proj'] }
const ADAMW: OptimizerStep = {
  type: 'adamw',
  learningRate: 1e-4,
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0,
  maxGradientNorm: 1,
}

/** How long the frozen weights of a shape take from bytes in memory, stored as BF16, to packed words on the device. */
export async function measureLoad(
  device: Device,
  { model, format }: Pick<Work, 'model' | 'format'>,
  tell: (line: Measured) => void,
): Promise<void> {
  const source = randomModel(model, 'BF16')
  const shape = shapeOf(source.card)
  const times: number[] = []
  let gpuBytes = 0
  for (let repetition = 0; repetition < 3; repetition++) {
    const memory = new GpuMemory(device.gpu!)
    const began = performance.now()
    await loadFrozenWeights(memory, source, shape, formatsOf(format))
    await device.gpu!.queue.onSubmittedWorkDone()
    times.push(performance.now() - began)
    gpuBytes = memory.bytes
    memory.freeAll()
  }
  const milliseconds = median(times)
  tell({
    policy: 'compiled',
    model,
    format,
    what: `load of ${Math.round(source.parameters / 1e6)} M weights`,
    // Of this line: weights a second.
    tokensPerSecond: source.parameters / (milliseconds / 1000),
    milliseconds,
    gpuBytes,
  })
}

interface Instrumented extends Policy {
  engine?: { memory: { byOwner(): Record<string, number> } }
}

export async function measure(
  device: Device,
  work: Work,
  tell: (line: Measured) => void,
  tellTried: (tried: Tried) => void,
): Promise<void> {
  const model = randomModel(work.model)
  const slots = Math.max(1, ...work.decode)
  const common = { model, device, trainable: 'adapters' as const, lora: LORA, seed: 1, slots }
  const compile = async () => {
    const policy = await createCompiledPolicy({
      ...common,
      baseFormat: work.format,
      recompute: work.recompute,
      variants: work.variants,
      tokensPerPass: Math.max(256, work.rows * (PROMPT + SAMPLED)),
    })
    const { milliseconds, lines, notes } = policy.variants
    tellTried({ model: work.model, format: work.format, milliseconds, lines, notes })
    return policy
  }
  const policy: Instrumented = work.policy === 'plain' ? await createPlainPolicy(common) : await compile()
  const say = (what: string, tokens: number, times: number[], extra: Partial<Measured> = {}) => {
    const milliseconds = median(times)
    const { policy: name, model: shape, format } = work
    const { gpuBytes } = policy.memory()
    const owners = policy.engine?.memory.byOwner()
    tell({
      policy: name,
      model: shape,
      format,
      what,
      tokensPerSecond: tokens / (milliseconds / 1000),
      milliseconds,
      gpuBytes,
      owners,
      ...extra,
    })
  }
  try {
    for (const B of work.decode) {
      const times: number[] = []
      let extra: Partial<Measured> = {}
      await warm(() => decode(policy, work.model, B, 7))
      for (let repetition = 0; repetition < 5; repetition++)
        times.push((await decode(policy, work.model, B, repetition)).time)
      if (work.profile) extra = await timed(policy, () => decode(policy, work.model, B, 9))
      say(`decode B=${B}`, B * (SAMPLED - 1), times, extra)
    }
    if (work.rows > 0) {
      const times: number[] = []
      let extra: Partial<Measured> = {}
      await warm(() => update(policy, work.model, work.rows, 7))
      for (let repetition = 0; repetition < 7; repetition++)
        times.push(await update(policy, work.model, work.rows, repetition))
      if (work.profile) extra = await timed(policy, () => update(policy, work.model, work.rows, 9))
      const shape = `update ${work.rows}×${PROMPT + SAMPLED}${work.recompute ? ` ${work.recompute}` : ''}`
      say(shape, work.rows * (PROMPT + SAMPLED), times, extra)
    }
  } finally {
    policy.dispose()
  }
}

async function timed({ kernelTimer }: Policy, work: () => Promise<unknown>): Promise<Partial<Measured>> {
  if (!kernelTimer) return {}
  kernelTimer.turn(true)
  await work()
  const { kernels } = await kernelTimer.times()
  kernelTimer.turn(false)
  return { kernels }
}

/** A card that has idled runs at a fraction of its clock for the first few hundred milliseconds. */
export async function warm(work: () => Promise<unknown>): Promise<void> {
  const began = performance.now()
  while (performance.now() - began < 800) await work()
}

// The prompt and its first token are one turn, the 127 that are timed another.
export async function decode(
  policy: Policy,
  shape: string,
  B: number,
  repetition: number,
): Promise<{ time: number; done: Completion[] }> {
  const { vocabulary } = SHAPES[shape]
  const sampler = policy.sampler({
    ...PLAIN_SAMPLING,
    decode: () => '',
    maxLength: PROMPT + SAMPLED + 1,
  })
  const random = new RandomStream(repetition)
  const noise = (sequence: number) => noiseKey(repetition, 'train', sequence, 0)
  const ids = () => Int32Array.from({ length: PROMPT }, () => random.integer(vocabulary))
  await sampler.complete(
    Array.from({ length: B }, (_, sequence) => ({ sequence, ids: ids(), noise: noise(sequence), maxTokens: 1 })),
  )
  const began = performance.now()
  const done = await sampler.complete(
    Array.from({ length: B }, (_, sequence) => ({
      sequence,
      ids: new Int32Array(0),
      noise: noise(sequence),
      maxTokens: SAMPLED - 1,
    })),
  )
  const time = performance.now() - began
  for (const { ids, logp } of done) {
    if (ids.length !== SAMPLED - 1 || !logp.every(Number.isFinite))
      throw new Error('The bench sampled no finite tokens.')
  }
  sampler.dispose()
  return { time, done }
}

async function update(policy: Policy, shape: string, count: number, repetition: number): Promise<number> {
  const { vocabulary } = SHAPES[shape]
  const random = new RandomStream(100 + repetition)
  const length = PROMPT + SAMPLED
  const rows: Row[] = Array.from({ length: count }, () => ({
    ids: Int32Array.from({ length }, () => random.integer(vocabulary)),
    targets: Int32Array.from({ length: length - 1 }, (_, i) => i + 1),
    temperature: 1,
  }))
  const began = performance.now()
  const { pass, logp } = await policy.logprobs(rows, { adapter: 'live', keep: true })
  await policy.backward(
    pass!,
    logp.map((_, i) => ((i % 7) - 3) / logp.length),
  )
  const { gradientNorm } = await policy.update(ADAMW)
  const time = performance.now() - began
  if (!(gradientNorm > 0)) throw new Error(`The bench's gradient has the norm ${gradientNorm}.`)
  return time
}

export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]
}
