// Which variants of its kernels a policy runs: those that were chosen before, or those that a trial finds the faster. The
// trial runs the dispatches of sampling and learning themselves, on buffers of their own.

import { Pipelines } from '../../gpu/kernel.ts'
import { packRule, SLOT_WORDS } from '../../gpu/kernels/draw.ts'
import { GpuMemory } from '../../gpu/memory.ts'
import type { Dispatch } from '../../gpu/plan.ts'
import { type Candidate, choicesOf, runTrial, type TrialLine } from '../../gpu/trial.ts'
import { type Variant, type VariantChoices, Variants } from '../../gpu/variants.ts'
import { RandomStream } from '../../random.ts'
import type { Engine } from './engine.ts'
import { Learning } from './learning/learning.ts'
import { SamplingPlans } from './samplingPlans.ts'
import { padTo } from './shape.ts'

/**
 * 'trial': the faster of each, measured here, on a software adapter plain; 'plain'; one kind: wherever the device offers it;
 * a record: what was chosen before.
 */
export type VariantRequest = 'trial' | Variant | VariantChoices

export interface ChosenVariants {
  /** What was taken, to be kept with the run. */
  choices: VariantChoices
  /** One line per kernel that has a variant which this device offers; empty where nothing was tried. */
  lines: TrialLine[]
  /** What the user should know. */
  notes: string[]
  /** That choosing took. */
  milliseconds: number
}

const TOKENS = 1024
const ROW = 128
const ROWS = 64
const POSITIONS = 256

/** A sum in another order differs a little; reading numbers otherwise does not. */
function toleranceOf(variant: Candidate['variant']): number {
  return variant === 'f16' ? 0 : 5e-5
}

export async function chooseVariants(
  engine: Engine,
  request: VariantRequest,
  sizes: { slots: number; tokensPerPass: number },
): Promise<ChosenVariants> {
  const { offered } = engine.variants
  const began = performance.now()
  const nothing = { choices: {}, lines: [], notes: [], milliseconds: 0 }
  const earlier = typeof request === 'object' ? request : null
  const notes = earlier ? missing(earlier, engine.variants) : []
  if (request === 'plain' || (request === 'trial' && engine.limits.software)) return nothing
  if ((offered.lanes === 0 && !offered.f16) || (earlier && Object.keys(earlier).length === 0))
    return { ...nothing, notes }

  let scene: Scene | null = null
  try {
    scene = await openScene(engine, sizes)
    const candidates = scene.candidates((key, variant) => {
      if (earlier) return earlier[key] === variant
      return request === 'trial' || request === variant
    })
    const lines = await runTrial(Pipelines.of(engine.device), candidates, {
      warmUp: scene.warmUp(),
      timed: request === 'trial',
    })
    for (const { key, variant, difference, note } of lines) {
      const wrong = difference !== null && difference > toleranceOf(variant)
      if (wrong || (earlier && note)) notes.push(`The ${variant} variant of ${key} is left out: ${note}.`)
    }
    return { choices: choicesOf(lines), lines, notes, milliseconds: performance.now() - began }
  } catch (error) {
    // No run ends because of what would only make it faster.
    const why = error instanceof Error ? error.message.split('\n')[0] : String(error)
    return { ...nothing, notes: [...notes, `Tried no variants of kernels, all of them run plain: ${why}`] }
  } finally {
    scene?.dispose()
  }
}

async function openScene(engine: Engine, sizes: { slots: number; tokensPerPass: number }): Promise<Scene> {
  const { device } = engine
  const memory = new GpuMemory(device)
  device.pushErrorScope('out-of-memory')
  let scene: Scene | null = null
  let failure: unknown = null
  try {
    scene = new Scene(engine, memory, sizes)
  } catch (error) {
    failure = error
  }
  const full = await device.popErrorScope()
  if (scene && !full) return scene
  memory.freeAll()
  throw full ? new Error(`the GPU's memory is too full for a trial (${full.message.split('\n')[0]}).`) : failure
}

/** Choices of another device. */
function missing(earlier: VariantChoices, { offered }: Variants): string[] {
  const lost = Object.entries(earlier).filter(
    ([, variant]) => (variant === 'subgroups' && offered.lanes === 0) || (variant === 'f16' && !offered.f16),
  )
  if (lost.length === 0) return []
  const names = lost.map(([key, variant]) => `${key} (${variant})`).join(', ')
  return [
    `This device does not offer what some kernels ran with before: ${names}. They run plain now, so that sampled tokens may differ.`,
  ]
}

/** A policy of at most two layers, with rows in its cache and tokens in a pass: every kernel that a run dispatches. */
class Scene {
  readonly #engine: Engine
  readonly #sampling: SamplingPlans
  readonly #learning: Learning
  readonly #rows: number
  readonly #tokens: number

  constructor(
    engine: Engine,
    readonly memory: GpuMemory,
    { slots, tokensPerPass }: { slots: number; tokensPerPass: number },
  ) {
    const { shape, weights, staging, limits } = engine
    const layers = Math.min(2, shape.card.layers)
    this.#engine = {
      ...engine,
      memory,
      shape: { ...shape, card: { ...shape.card, layers } },
      weights: { ...weights, layers: weights.layers.slice(0, layers) },
      staging: { ...staging, layers: staging.layers.slice(0, layers) },
    }
    this.#rows = Math.min(ROWS, padTo(slots, 16))
    const positions = padTo(Math.min(POSITIONS, shape.card.maxLength), 4)
    this.#sampling = new SamplingPlans(this.#engine, { slots: this.#rows, positions })
    this.#tokens = padTo(Math.min(TOKENS, tokensPerPass), limits.software ? 64 : 256)
    const gradient = memory.storage('optimizer', staging.size * 4)
    this.#learning = new Learning(this.#engine, gradient, this.#tokens, 'elementwise')
    this.#fill()
    this.#openSlots(positions)
  }

  /** Every kernel with a variant that the device offers and `wanted` asks for, and the dispatches that differ by it. */
  candidates(wanted: (key: string, variant: Candidate['variant']) => boolean): Candidate[] {
    const { offered } = this.#engine.variants
    const none = new Variants(offered, {})
    const plain = this.#dispatches(none)
    const result: Candidate[] = []
    for (const [key, variant] of none.asked) {
      if (!wanted(key, variant) || !(variant === 'f16' ? offered.f16 : offered.lanes > 0)) continue
      const others = this.#dispatches(new Variants(offered, { [key]: variant }))
      const differing = plain.flatMap((dispatch, i) => {
        const repeated = plain.findIndex(({ kernel }) => kernel.code === dispatch.kernel.code) < i
        return repeated || dispatch.kernel.code === others[i].kernel.code ? [] : [i]
      })
      result.push({
        key,
        variant,
        plain: differing.map((i) => plain[i]),
        other: differing.map((i) => others[i]),
        tolerance: toleranceOf(variant),
      })
    }
    return result
  }

  /** The largest product of a layer. */
  warmUp(): Dispatch[] {
    return this.#dispatches(new Variants(this.#engine.variants.offered, {}))
      .filter(({ kernel }) => kernel.name === 'learn.gateUp')
      .slice(0, 1)
  }

  dispose(): void {
    this.memory.freeAll()
  }

  #dispatches(variants: Variants): Dispatch[] {
    this.#engine.variants = variants
    return [
      ...this.#sampling.bodyDispatches(this.#rows),
      this.#sampling.drawDispatch(this.#rows, 0),
      ...this.#sampling.prefillDispatches(this.#rows),
      ...this.#learning.dispatches(this.#learning.pack(this.#passRows())),
    ]
  }

  #passRows() {
    const length = Math.min(ROW, this.#tokens)
    return Array.from({ length: Math.floor(this.#tokens / length) }, () => ({
      ids: new Int32Array(length),
      targets: Int32Array.from({ length: length - 1 }, (_, i) => i + 1),
      temperature: 1,
    }))
  }

  /** Numbers of the size of activations everywhere. */
  #fill(): void {
    const { device } = this.#engine
    const random = new RandomStream(1)
    const numbers = Float32Array.from({ length: 1 << 16 }, () => 2 * random.next() - 1)
    const source = this.memory.storage('tables', numbers.byteLength)
    device.queue.writeBuffer(source, 0, numbers)
    const encoder = device.createCommandEncoder()
    for (const buffer of this.memory.owned('activations', 'cache')) {
      for (let at = 0; at < buffer.size; at += source.size)
        encoder.copyBufferToBuffer(source, 0, buffer, at, Math.min(source.size, buffer.size - at))
    }
    device.queue.submit([encoder.finish()])
  }

  /** Every row in a slot of its own, five eighths of the way through its positions. */
  #openSlots(positions: number): void {
    const { queue } = this.#engine.device
    const { slots, rowTable, prefillRows, rule } = this.#sampling
    const length = Math.ceil((positions * 5) / 8)
    const states = new Uint32Array(this.#rows * SLOT_WORDS)
    const places = new Uint32Array(this.#rows * 2)
    for (let row = 0; row < this.#rows; row++) {
      states.set([0, length, 2 ** 31, 1, row, 7], row * SLOT_WORDS)
      places.set([row, length - 1], row * 2)
    }
    queue.writeBuffer(slots, 0, states)
    queue.writeBuffer(rowTable, 0, places)
    queue.writeBuffer(prefillRows, 0, places)
    queue.writeBuffer(rule, 0, packRule({ temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1 }, []))
  }
}
