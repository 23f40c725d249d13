// Which way of decoding a run takes: a short measured trial at its first start, where both are possible. The two are let do
// what a run does, since what sets them apart is what happens between the tokens too.

import { noiseKey, RandomStream } from '../../random.ts'
import type { Policy, SamplingOptions } from '../policy.ts'
import type { Engine } from './engine.ts'
import { STEPS_PER_BLOCK } from './samplingPlans.ts'
import { BATCHED, type Decoder, prepareWhole, wholeRefusal } from './whole.ts'

/** What compiling the kernel may take; a driver that needs longer decodes as before. */
const COMPILE_MILLISECONDS = 1500
/** An idle card runs at a fraction of its clock. */
const WARM_MILLISECONDS = 200
const ROUNDS = 5
const PROMPT = 16
const TOKENS = 48
/** The share of the batched decoder's time below which the other is worth its own kernel. */
const WORTHWHILE = 0.9

/**
 * The tiling that is tried, for so many sequences together: one a workgroup while every one of them has a multiprocessor to
 * itself, where weights are worth asking for ahead; then two, whose neighbours hide the waiting. Measured on an NVIDIA H200
 * (docs/performance.md), which has 132.
 */
export function wholeFor(
  { device, variants, shape }: Pick<Engine, 'device' | 'variants' | 'shape'>,
  slots: number,
): Decoder {
  const vectors = shape.card.headWidth / 4
  let lanes = Math.max(1, Math.min(8, variants.offered.lanes))
  while (vectors % lanes !== 0) lanes /= 2
  const threads = device.limits.maxComputeInvocationsPerWorkgroup >= 512 ? 512 : 256
  return slots > 132
    ? { kind: 'whole', rows: 2, threads, lanes, pipelined: false }
    : { kind: 'whole', rows: 1, threads, lanes, pipelined: true }
}

/**
 * Leaves the policy with the decoder that is the faster here, batched on a processor that plays a GPU. Its samplers must all
 * be closed.
 */
export async function chooseDecoder(
  policy: Policy & { decoder: Decoder },
  engine: Engine,
  slots: number,
): Promise<Decoder> {
  policy.decoder = BATCHED
  const whole = wholeFor(engine, slots)
  if (engine.limits.software || whole.kind === 'batched' || wholeRefusal(engine, whole)) return BATCHED
  const { maxLength } = engine.shape.card
  if (maxLength < PROMPT + TOKENS + 1) return BATCHED
  const compiled = prepareWhole(engine, whole, { slots, steps: STEPS_PER_BLOCK }).then(
    () => true,
    () => false,
  )
  const late = new Promise<boolean>((resolve) => setTimeout(() => resolve(false), COMPILE_MILLISECONDS))
  if (!(await Promise.race([compiled, late]))) return BATCHED
  const batchedTime = await timeOf(policy, engine, slots)
  policy.decoder = whole
  const wholeTime = await timeOf(policy, engine, slots)
  if (!(wholeTime < WORTHWHILE * batchedTime)) policy.decoder = BATCHED
  return policy.decoder
}

/** Milliseconds in which all slots decode TOKENS tokens, the median. */
async function timeOf(policy: Policy, { shape }: Engine, slots: number): Promise<number> {
  const began = performance.now()
  let times: number[] = []
  while (performance.now() - began < WARM_MILLISECONDS) times.push(await once(policy, shape.card.vocabulary, slots))
  times = []
  for (let round = 0; round < ROUNDS; round++) times.push(await once(policy, shape.card.vocabulary, slots))
  return times.sort((a, b) => a - b)[ROUNDS >> 1]
}

async function once(policy: Policy, vocabulary: number, slots: number): Promise<number> {
  const sampler = policy.sampler(options())
  const random = new RandomStream(1)
  const turn = (ids: number, maxTokens: number) =>
    Array.from({ length: slots }, (_, sequence) => ({
      sequence,
      ids: Int32Array.from({ length: ids }, () => random.integer(vocabulary)),
      noise: noiseKey(1, 'eval', sequence, 0),
      maxTokens,
    }))
  // Reading a prompt in is the same for both.
  await sampler.complete(turn(PROMPT, 1))
  const began = performance.now()
  await sampler.complete(turn(0, TOKENS))
  const time = performance.now() - began
  sampler.dispose()
  return time
}

function options(): SamplingOptions {
  return {
    temperature: 1,
    topP: 1,
    topK: 0,
    minP: 0,
    repetitionPenalty: 1,
    stopTokens: [],
    stopStrings: [],
    decode: () => '',
    maxLength: PROMPT + TOKENS + 1,
    adapter: 'live',
  }
}
