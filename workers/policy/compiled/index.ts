// The policy as replayed WGSL: frozen weights packed as asked for, adapters unmerged, all trainable numbers in one flat
// vector, the same weights and adapters read by sampling and by learning.

import type { WeightFormat } from '../../gpu/kernels/weightFormat.ts'
import { readFloats } from '../../gpu/readback.ts'
import { Variants } from '../../gpu/variants.ts'
import { RandomStream } from '../../random.ts'
import { adapterLayout, expectFits, initialAdapter, type Layout, type LoraOptions, unflatten } from '../adapter.ts'
import type { Model } from '../load.ts'
import type {
  AdapterChoice,
  KernelTimer,
  LogProbs,
  OptimizerStep,
  Pass,
  Policy,
  PolicyMemory,
  PolicyState,
  Row,
  Sampler,
  SamplingOptions,
  Snapshot,
} from '../policy.ts'
import { joinScores } from '../scores.ts'
import { Adapters } from './adapters.ts'
import { chooseDecoder } from './decoderTrial.ts'
import { type Engine, openEngine } from './engine.ts'
import { formatsOf, loadFrozenWeights } from './frozen.ts'
import type { Recompute } from './learning/activations.ts'
import { Learning } from './learning/learning.ts'
import { Optimizer } from './learning/optimizer.ts'
import { cutRows, type Packed } from './learning/packing.ts'
import { createSampler } from './sampler.ts'
import { SamplingPlans } from './samplingPlans.ts'
import { padTo, shapeOf } from './shape.ts'
import { planStaging } from './staging.ts'
import { type ChosenVariants, chooseVariants, type VariantRequest } from './variants.ts'
import { BATCHED, type Decoder, openWhole, type WholeDecoder } from './whole.ts'

export interface CompiledOptions {
  model: Model
  device: { gpu: GPUDevice | null; software: boolean }
  trainable?: 'adapters' | 'all'
  lora: LoraOptions
  seed: number
  /** Sequences that decode together. */
  slots?: number
  baseFormat?: WeightFormat
  recompute?: Recompute
  /** 'trial': the faster one, measured here. Batched by default. */
  decoder?: Decoder | 'trial'
  /** Tokens of one pass, at most; rows are never split. */
  tokensPerPass: number
  /** Of kernels; a short trial by default. */
  variants?: VariantRequest
}

const SLOTS = 128

export interface MadePolicy extends Policy {
  readonly variants: ChosenVariants
  /** Samplers that are open when it is set begin anew. @throws a sentence where it is not for this model or device */
  decoder: Decoder
}

/** @throws a sentence when the device or the request is not for this policy */
export async function createCompiledPolicy(options: CompiledOptions): Promise<MadePolicy> {
  const { model, device, lora, seed } = options
  if (!device.gpu) throw new Error('Made no compiled policy: it needs WebGPU. Set browser.engine to "plain".')
  if (options.trainable === 'all') {
    throw new Error(
      'Made no compiled policy: it trains adapters alone. Turn lora.enabled on, or take the plain policy.',
    )
  }
  const base = openEngine(device.gpu, device.software)
  const shape = shapeOf(model.card)
  const layout = adapterLayout(model.card, lora)
  const staging = planStaging(shape, layout, lora)
  const weights = await loadFrozenWeights(base.memory, model, shape, formatsOf(options.baseFormat ?? 'f32'))
  const adapters = new Adapters(base.memory, base.pipelines, staging, layout.size)
  const zeros = new Float32Array(layout.size)
  adapters.write(initialAdapter(layout, new RandomStream(seed).fork('policy')), zeros, zeros)
  const engine: Engine = { ...base, shape, weights, staging, staged: adapters.learning.buffer }
  const { slots = SLOTS, tokensPerPass } = options
  const chosen = await chooseVariants(engine, options.variants ?? 'trial', { slots, tokensPerPass })
  engine.variants = new Variants(engine.variants.offered, chosen.choices)
  const policy = new CompiledPolicy(options, engine, adapters, layout, chosen)
  if (options.decoder === 'trial') await chooseDecoder(policy, engine, slots)
  else policy.decoder = options.decoder ?? BATCHED
  return policy
}

interface CompiledPass extends Pass {
  packed: Packed
}

class CompiledPolicy implements MadePolicy {
  readonly trainable = 'adapters'
  readonly concurrent = true
  readonly parameters: number
  readonly trainableParameters: number
  /** Tokens that one pass holds; rows are packed up to it. */
  readonly tokensPerPass: number
  #version = 0
  #optimizerSteps = 0
  #sampling: SamplingPlans | null = null
  #decoder: Decoder = BATCHED
  #whole: WholeDecoder | null = null
  #learning: Learning | null = null
  #optimizer: Optimizer | null = null
  #pass: CompiledPass | null = null
  #hasGradient = false

  constructor(
    readonly options: CompiledOptions,
    readonly engine: Engine,
    readonly adapters: Adapters,
    readonly layout: Layout,
    readonly variants: ChosenVariants,
  ) {
    this.parameters = options.model.parameters
    this.trainableParameters = layout.size
    this.tokensPerPass = padTo(options.tokensPerPass, engine.limits.software ? 64 : 256)
  }

  get decoder(): Decoder {
    return this.#decoder
  }

  set decoder(decoder: Decoder) {
    this.#sampling?.dispose()
    this.#whole?.dispose()
    this.#sampling = null
    this.#whole = null
    this.#whole = openWhole({ ...this.engine, staged: this.adapters.sampling.buffer }, decoder)
    this.#decoder = decoder
  }

  get #recompute(): Recompute {
    return this.options.recompute ?? 'elementwise'
  }

  get version(): number {
    return this.#version
  }

  sampler(options: SamplingOptions): Sampler {
    const choice = options.adapter
    return createSampler(
      {
        engine: this.engine,
        slots: this.options.slots ?? SLOTS,
        useAdapters: () => this.adapters.sampling.show(choice),
        version: () => (typeof choice === 'object' ? choice.version : this.#version),
        plans: (longest) => this.#samplingPlans(longest),
      },
      options,
      () => {},
    )
  }

  async logprobs(
    rows: Row[],
    { adapter, keep = false }: { adapter: AdapterChoice; keep?: boolean },
  ): Promise<LogProbs> {
    if (this.#pass) {
      throw new Error(
        'Computed no log-probabilities: the pass before is still open; use it in backward or dispose it first.',
      )
    }
    const longest = Math.max(0, ...rows.map(({ ids }) => ids.length))
    const { maxLength } = this.options.model.card
    if (longest > maxLength)
      throw new Error(`Computed no log-probabilities: a row has ${longest} tokens, the model takes ${maxLength}.`)
    if (keep && adapter !== 'live') {
      throw new Error(
        'Computed no log-probabilities: only the live adapters can be trained, so keep asks for adapter "live".',
      )
    }
    const total = rows.reduce((sum, { ids }) => sum + ids.length, 0)
    const learning = this.#learn(keep ? total : Math.min(total, Math.max(longest, this.tokensPerPass)))
    this.adapters.learning.show(adapter)
    if (keep) {
      const packed = learning.pack(rows)
      const scores = await learning.forward(packed, true)
      const pass: CompiledPass = {
        tokens: packed.count,
        packed,
        dispose: () => {
          if (this.#pass === pass) this.#pass = null
        },
      }
      this.#pass = pass
      return { ...scores, pass }
    }
    const parts: LogProbs[] = []
    for (const part of cutRows(rows, learning.capacity)) parts.push(await learning.forward(learning.pack(part), false))
    return joinScores(parts)
  }

  async backward(pass: Pass, slopes: Float32Array): Promise<void> {
    const open = this.#pass
    if (!open || pass !== open) throw new Error('Computed no gradient: this pass was already used or disposed.')
    if (slopes.length !== open.packed.count) {
      throw new Error(
        `Computed no gradient: expected ${open.packed.count} slopes, one per target token, got ${slopes.length}.`,
      )
    }
    this.#learning!.backward(open.packed, slopes)
    this.#hasGradient = true
    this.#pass = null
  }

  async update(step: OptimizerStep): Promise<{ gradientNorm: number }> {
    if (!this.#hasGradient) throw new Error('Updated nothing: there is no gradient; call backward first.')
    if (step.type === 'muon')
      throw new Error('Updated nothing: the compiled policy has AdamW and SGD; set optimizer.type to "adamw".')
    const gradientNorm = await this.#optimizing().update({ ...step, type: step.type }, this.#optimizerSteps + 1)
    if (!Number.isFinite(gradientNorm)) return { gradientNorm }
    this.#optimizerSteps++
    this.#version++
    this.clearGradient()
    this.adapters.changed()
    return { gradientNorm }
  }

  async gradient(): Promise<Float32Array> {
    if (!this.#hasGradient) return new Float32Array(this.layout.size)
    return this.#optimizing().gradient()
  }

  clearGradient(): void {
    if (this.#hasGradient) this.adapters.clearGradient()
    this.#hasGradient = false
  }

  snapshot(of?: { trainable: Float32Array; version: number }): Snapshot {
    if (!of) return this.adapters.snapshot(this.#version)
    expectFits(this.layout, of.trainable)
    return this.adapters.snapshotOf(of.trainable, of.version)
  }

  async state(): Promise<PolicyState> {
    return { ...(await this.adapters.read()), optimizerSteps: this.#optimizerSteps, version: this.#version }
  }

  async restore(state: PolicyState): Promise<void> {
    expectFits(this.layout, state.trainable)
    this.adapters.write(state.trainable, state.firstMoment, state.secondMoment)
    this.clearGradient()
    this.#optimizerSteps = state.optimizerSteps
    this.#version = state.version
  }

  async tensors() {
    return unflatten(this.layout, await readFloats(this.engine.device, this.adapters.flat, this.layout.size))
  }

  memory(): PolicyMemory {
    const { bytes, peakBytes, buffers } = this.engine.memory
    return { gpuBytes: bytes, gpuPeakBytes: peakBytes, tensors: buffers, buffers }
  }

  async busySeconds(): Promise<number | null> {
    return (await this.engine.profiler.clock?.busySeconds()) ?? null
  }

  get kernelTimer(): KernelTimer | undefined {
    const { profiler } = this.engine
    return profiler.offered ? profiler : undefined
  }

  dispose(): void {
    this.engine.memory.freeAll()
    this.engine.profiler.dispose()
  }

  // Lengths are bucketed, so that a longer batch rarely makes everything anew.
  #samplingPlans(longest: number): SamplingPlans {
    const positions = Math.min(padTo(longest, 64), padTo(this.options.model.card.maxLength, 4))
    const known = this.#sampling
    if (known && known.size.positions >= positions) return known
    known?.dispose()
    const size = { slots: this.options.slots ?? SLOTS, positions }
    const whole = this.#whole?.fits(size) ? this.#whole : null
    this.#sampling = new SamplingPlans({ ...this.engine, staged: this.adapters.sampling.buffer }, size, whole)
    return this.#sampling
  }

  #learn(tokens: number): Learning {
    const { software } = this.engine.limits
    const known = this.#learning
    if (known && known.capacity >= padTo(tokens, software ? 64 : 256)) return known
    known?.dispose()
    this.#learning = new Learning(
      this.engine,
      this.adapters.stagedGradient,
      Math.max(this.tokensPerPass, padTo(tokens, 256)),
      this.#recompute,
    )
    return this.#learning
  }

  #optimizing(): Optimizer {
    this.#optimizer ??= new Optimizer(this.engine, this.adapters)
    return this.#optimizer
  }
}
