// What a run takes of a GPU's memory, worked out from its config and the model's numbers before anything is fetched; and,
// where that is too much, the change that would make it fit. Pure: no device and no file is asked.

import {
  type Architecture,
  PROJECTIONS,
  parameterCount,
  projectionNumbers,
  projectionShapes,
} from '../models/architecture.ts'
import { models } from '../models/index.ts'
import { parsePath, setAt, type Table } from './path.ts'
import type { RunConfig } from './schema.ts'

export type { Architecture } from '../models/architecture.ts'
export { knownModel, models } from '../models/index.ts'

/** Which implementation computes: it decides what is kept, and how often. */
export type Engine = 'plain' | 'compiled'

/**
 * What a run on this device computes with: WGSL plans on a GPU, where adapters alone are trained; ordinary tfjs ops on
 * every other backend, and on a processor that plays a GPU.
 */
export function engineOf(
  config: { browser: Pick<RunConfig['browser'], 'engine'>; lora: Pick<RunConfig['lora'], 'enabled'> },
  { backend, software }: { backend: string; software: boolean },
): Engine {
  const { engine } = config.browser
  if (engine !== 'auto') return engine
  const able = backend === 'webgpu' && !software && config.lora.enabled
  return able ? 'compiled' : 'plain'
}

export type BaseDtype = 'f32' | 'f16' | 'int8' | 'int4'

export interface MemoryEstimate {
  /** Bytes. */
  weights: number
  /** Keys and values of the sequences that decode together. */
  cache: number
  /** What a pass keeps and works in. */
  activations: number
  /** Trained numbers, their gradient and two moments. */
  optimizer: number
  total: number
  /** The largest buffer that must lie in one piece. */
  largestBuffer: number
  baseDtype: BaseDtype
  /** Sequences that decode together, the longest of them, and the tokens of a pass. */
  slots: number
  length: number
  passTokens: number
}

export interface MemoryLimits {
  /** null where nobody knows. */
  totalBytes: number | null
  largestBufferBytes: number | null
}

export interface Misfit {
  /** What is too large, and what would help. */
  sentence: string
  /** Knobs that would make it fit; null where only another model would. */
  change: Record<string, unknown> | null
}

/** What a prompt is taken to need where only the longest sequence is known. */
const PROMPT_TOKENS = 256
const DEFAULT_SLOTS = 128
const F32 = 4
/** A scale of four bytes for each block of 32 numbers. */
const SCALE = 4 / 32
const BYTES: Record<BaseDtype, number> = { f32: 4, f16: 2, int8: 1 + SCALE, int4: 0.5 + SCALE }
const BASE_DTYPES: readonly BaseDtype[] = ['f32', 'f16', 'int8', 'int4']
/** A policy that is read from the L2 cache of a small GPU is best left as it is. */
const SMALL_PARAMETERS = 50e6

export function estimateMemory(config: RunConfig, a: Architecture, engine: Engine): MemoryEstimate {
  return estimateWith(baseDtypeOf(config, a, engine), config, a, engine)
}

function estimateWith(baseDtype: BaseDtype, config: RunConfig, a: Architecture, engine: Engine): MemoryEstimate {
  const length = Math.min(config.seq_len, a.maxLength, PROMPT_TOKENS + config.sampling.max_tokens)
  const slots = Math.min(config.browser.slots ?? DEFAULT_SLOTS, config.type === 'rl' ? config.batch_size : 1)
  // A row is never cut in two.
  const passTokens = engine === 'compiled' ? Math.max(length, tokenBudget(config, a)) : config.micro_batch_size * length
  const rollouts = config.type === 'rl' ? cacheBytes(a, slots, length, engine) : 0
  const parts = {
    weights: weightBytes(a, config.lora.enabled ? baseDtype : 'f32', config.lora.enabled, engine),
    cache: rollouts,
    activations:
      engine === 'compiled'
        ? compiledActivations(config, a, slots, passTokens)
        : plainActivations(config, a, length, passTokens),
    optimizer: optimizerBytes(config, a, engine),
  }
  const embedding = a.vocabulary * a.width * embeddingBytes(baseDtype)
  const layerCache = slots * length * a.kvHeads * a.headWidth * F32
  const widest = passTokens * 2 * a.ffnWidth * F32
  const logits = engine === 'plain' ? passTokens * a.vocabulary * F32 : slots * a.vocabulary * F32
  return {
    ...parts,
    total: parts.weights + parts.cache + parts.activations + parts.optimizer,
    largestBuffer: Math.max(embedding, layerCache, widest, logits),
    baseDtype,
    slots,
    length,
    passTokens,
  }
}

/** How the compiled engine holds frozen weights where nobody asks for less. */
export function usualDtype(a: Architecture): BaseDtype {
  return parameterCount(a) < SMALL_PARAMETERS ? 'f32' : 'f16'
}

/**
 * How frozen weights are held where the config leaves it open: small ones as they are, others in half of that, and in less
 * where browser.memory_gb asks for it.
 */
export function baseDtypeOf(config: RunConfig, a: Architecture, engine: Engine): BaseDtype {
  if (engine === 'plain' || !config.lora.enabled) return 'f32'
  const { base_dtype, memory_gb } = config.browser
  if (base_dtype !== 'auto') return base_dtype
  const [first, ...smaller] = BASE_DTYPES.slice(BASE_DTYPES.indexOf(usualDtype(a)))
  const fits = (dtype: BaseDtype) => estimateWith(dtype, config, a, engine).total <= (memory_gb ?? Infinity) * 1e9
  return [first, ...smaller].find(fits) ?? first
}

/**
 * Why this run does not fit, and the least change that would make it; null where it fits, or where nothing is known of
 * the device.
 */
export function misfit(config: RunConfig, a: Architecture, limits: MemoryLimits, engine: Engine): Misfit | null {
  const now = estimateMemory(config, a, engine)
  const what = excess(now, limits)
  if (what === null) return null
  const change = smallestChange(config, a, limits, engine)
  if (change !== null) {
    const after = estimateMemory(changed(config, change), a, engine)
    return { sentence: `${config.model} ${what}. With ${settings(change)} it takes ${gigabytes(after.total)}.`, change }
  }
  for (const model of [...models].reverse()) {
    if (parameterCount(model.architecture) >= parameterCount(a)) continue
    const fits = excess(estimateMemory(config, model.architecture, engine), limits) === null
    const knobs = fits ? {} : smallestChange(config, model.architecture, limits, engine)
    if (!knobs) continue
    const smaller = { model: model.id, ...knobs }
    return { sentence: `${config.model} ${what}. A smaller model would fit: ${settings(smaller)}.`, change: smaller }
  }
  return { sentence: `${config.model} ${what}. Nothing that this lab knows is small enough.`, change: null }
}

function settings(change: Record<string, unknown>): string {
  return listed(Object.entries(change).map(([path, value]) => `${path} = ${JSON.stringify(value)}`))
}

function excess({ total, largestBuffer, ...parts }: MemoryEstimate, limits: MemoryLimits): string | null {
  if (limits.totalBytes !== null && total > limits.totalBytes) {
    const { weights, cache, activations, optimizer } = parts
    return (
      `needs about ${gigabytes(total)} here, and ${gigabytes(limits.totalBytes)} may be used ` +
      `(weights ${gigabytes(weights)}, cache ${gigabytes(cache)}, activations ${gigabytes(activations)}, optimizer ${gigabytes(optimizer)})`
    )
  }
  if (limits.largestBufferBytes !== null && largestBuffer > limits.largestBufferBytes)
    return `needs a buffer of ${gigabytes(largestBuffer)}, and the largest of this device is ${gigabytes(limits.largestBufferBytes)}`
  return null
}

/** Of all that would make it fit, what costs the least: time before precision. */
function smallestChange(
  config: RunConfig,
  a: Architecture,
  limits: MemoryLimits,
  engine: Engine,
): Record<string, unknown> | null {
  let best: { change: Record<string, unknown>; cost: number } | null = null
  for (const dtype of smallerDtypes(config, a, engine)) {
    for (const recompute of recomputations(config, engine)) {
      for (const rows of engine === 'plain' ? halvings('micro_batch_size', config.micro_batch_size, 1) : [AS_IT_IS]) {
        for (const budget of budgets(config, a, engine)) {
          for (const slots of halvings('browser.slots', estimateMemory(config, a, engine).slots, 8)) {
            const steps = [dtype, recompute, rows, budget, slots]
            const cost = steps.reduce((sum, step) => sum + step.cost, 0)
            if (best && cost >= best.cost) continue
            const change = Object.assign({}, ...steps.map((step) => step.change))
            if (excess(estimateMemory(changed(config, change), a, engine), limits) === null) best = { change, cost }
          }
        }
      }
    }
  }
  return best?.change ?? null
}

interface Step {
  change: Record<string, unknown>
  cost: number
}

const AS_IT_IS: Step = { change: {}, cost: 0 }

function halvings(path: string, value: number, least: number): Step[] {
  const steps = [AS_IT_IS]
  for (let half = value / 2, cost = 1; half >= least; half /= 2, cost++)
    steps.push({ change: { [path]: Math.floor(half) }, cost })
  return steps
}

function budgets(config: RunConfig, a: Architecture, engine: Engine): Step[] {
  if (engine === 'plain') return [AS_IT_IS]
  return halvings('browser.token_budget', tokenBudget(config, a), FEWEST_TOKENS)
}

function recomputations({ browser }: RunConfig, engine: Engine): Step[] {
  if (engine === 'plain' || browser.recompute === 'layer') return [AS_IT_IS]
  return [AS_IT_IS, { change: { 'browser.recompute': 'layer' }, cost: 2 }]
}

/** Half of f32 loses next to nothing of what is stored in sixteen bits; the others cost quality. */
const DTYPE_COST = { f16: 1, int8: 6, int4: 9 } as const

function smallerDtypes(config: RunConfig, a: Architecture, engine: Engine): Step[] {
  if (engine === 'plain' || !config.lora.enabled) return [AS_IT_IS]
  const held = BYTES[baseDtypeOf(config, a, engine)]
  const smaller = (['f16', 'int8', 'int4'] as const).filter((dtype) => BYTES[dtype] < held)
  return [AS_IT_IS, ...smaller.map((dtype) => ({ change: { 'browser.base_dtype': dtype }, cost: DTYPE_COST[dtype] }))]
}

function changed(config: RunConfig, change: Record<string, unknown>): RunConfig {
  const copy = structuredClone(config) as RunConfig & Table
  for (const [path, value] of Object.entries(change)) setAt(copy, parsePath(path)!, value)
  return copy
}

/** Embedding and head stay at int8 where the rest is int4. */
function embeddingBytes(dtype: BaseDtype): number {
  return BYTES[dtype === 'int4' ? 'int8' : dtype]
}

function weightBytes(a: Architecture, dtype: BaseDtype, frozen: boolean, engine: Engine): number {
  // Trained weights are the optimizer's.
  if (!frozen) return 0
  const embeddings = a.vocabulary * a.width * (a.tiedHead ? 1 : 2)
  const matrices = a.layers * projectionNumbers(a)
  // The plain policy holds every matrix in both orientations.
  if (engine === 'plain') return (embeddings + matrices) * 2 * F32
  return embeddings * embeddingBytes(dtype) + matrices * BYTES[dtype]
}

function cacheBytes(a: Architecture, slots: number, length: number, engine: Engine): number {
  const bytes = slots * length * a.layers * 2 * a.kvHeads * a.headWidth * F32
  // The plain policy makes a layer's cache anew with each token, and draws from logits of its own.
  const anew = engine === 'plain' ? 2 / a.layers : 0
  return bytes * (1 + anew) + slots * a.vocabulary * F32
}

export function trainedParameters(config: RunConfig, a: Architecture): number {
  if (!config.lora.enabled) return parameterCount(a)
  const shapes = projectionShapes(a)
  const targets = PROJECTIONS.filter((name) => config.lora.target_modules.includes(name))
  return a.layers * targets.reduce((sum, name) => sum + config.lora.r * (shapes[name][0] + shapes[name][1]), 0)
}

function optimizerBytes(config: RunConfig, a: Architecture, engine: Engine): number {
  const bytes = trainedParameters(config, a) * F32
  if (engine === 'plain') return 6 * bytes
  // The numbers and two moments; the numbers as products read them, for sampling and for learning; the gradient in both
  // shapes, and the two tables between the shapes. Asynchronous steps hold two snapshots beside.
  return bytes * (config.max_async_level > 0 ? 11 : 9)
}

/** As compiled/learning/activations.ts lays them out. */
function compiledActivations(config: RunConfig, a: Architecture, slots: number, passTokens: number): number {
  const { width, ffnWidth, heads, kvHeads, headWidth } = a
  const q = heads * headWidth
  const qkv = q + 2 * kvHeads * headWidth
  // The head goes over the vocabulary in chunks; the hidden gradient is one more row of the width.
  const head = 2 * width * F32
  const sampling = Math.max(slots, 512) * (2 * width + qkv + 2 * q + ffnWidth) * F32
  return passTokens * (bytesPerToken(config, a) + head) + sampling
}

/** What a pass keeps and works in for each of its tokens. */
function bytesPerToken(
  config: RunConfig,
  { width, ffnWidth, heads, kvHeads, headWidth, layers }: Architecture,
): number {
  const q = heads * headWidth
  const qkv = q + 2 * kvHeads * headWidth
  const qk = q + kvHeads * headWidth
  const own = {
    none: 4 * width + qkv + qk + q + 3 * ffnWidth + heads + 2,
    elementwise: 2 * width + qkv + q + 2 * ffnWidth + heads + 2,
    layer: width,
  }
  const recompute = config.browser.recompute === 'auto' ? 'elementwise' : config.browser.recompute
  const once = own.none - own[recompute] + 2 * width + 3 * ffnWidth + qk + qkv
  const adapters = config.lora.enabled ? 7 * config.lora.r * (recompute === 'layer' ? 1 : layers) : 0
  return (own[recompute] * layers + once + width + adapters) * F32
}

/** What the activations of one pass of the compiled engine may take where nothing else is said. */
const PASS_BYTES = 1.5 * 2 ** 30
const FEWEST_TOKENS = 512
const MOST_TOKENS = 16384

/** Tokens of one pass of the compiled engine. */
export function tokenBudget(config: RunConfig, a: Architecture): number {
  const fitting = Math.floor(PASS_BYTES / bytesPerToken(config, a))
  return config.browser.token_budget ?? Math.max(FEWEST_TOKENS, Math.min(MOST_TOKENS, fitting))
}

/** What tfjs's tape holds: each op's output, attention's weights, the vocabulary of every position; and their gradients. */
function plainActivations(config: RunConfig, a: Architecture, length: number, passTokens: number): number {
  const { width, ffnWidth, heads, kvHeads, headWidth, layers, vocabulary } = a
  const rows = 2 ** Math.ceil(Math.log2(config.micro_batch_size))
  const tokens = (passTokens / config.micro_batch_size) * rows
  const layer = 6 * width + 4 * heads * headWidth + 4 * kvHeads * headWidth + 4 * ffnWidth + heads * length
  return 2 * tokens * (layer * layers + 4 * vocabulary) * F32
}

function gigabytes(bytes: number): string {
  return bytes < 1e8 ? `${Math.max(1, Math.round(bytes / 1e6))} MB` : `${(bytes / 1e9).toFixed(1)} GB`
}

function listed(parts: string[]): string {
  return parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`
}
