// The policy in ordinary tfjs ops and its tape: right on every backend, the oracle of every test, and the way home where
// there is no WebGPU. It is not fast.

import type { Device } from '../../gpu/device.ts'
import {
  backpropagate,
  disposeTape,
  record,
  type Tape,
  type Tensor,
  type Tensor2D,
  tf,
  tfjsMemory,
  trimPool,
} from '../../gpu/tfjs.ts'
import { RandomStream } from '../../random.ts'
import {
  adapterLayout,
  expectFits,
  flatten,
  fullLayout,
  initialAdapter,
  initialWeights,
  type Layout,
  type LoraOptions,
  unflatten,
} from '../adapter.ts'
import type { Model } from '../load.ts'
import type {
  AdapterChoice,
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
import { bucketed, pad, powerOfTwo } from './batching.ts'
import { causalMask, headName, rotaryTable, wholeForward } from './network.ts'
import { halfTurn, oneHotRows, targetLogprob } from './operations.ts'
import { applyOptimizer, gradientNorm, type OptimizerState } from './optimizer.ts'
import { adapted, cutLeaves, type Frozen, type Leaf, loadFrozen, type Parameters, trained } from './parameters.ts'
import { createSampler } from './sampler.ts'

export interface PlainOptions {
  model: Model
  device: Device
  trainable: 'adapters' | 'all'
  lora?: LoraOptions
  seed: number
  /** Start from fresh random weights instead of the checkpoint's; with `all` only. */
  fromScratch?: boolean
  /** Sequences that decode together. */
  slots?: number
  /** Rows that are computed together when nothing is kept for backward. */
  rowsPerPass?: number
}

export async function createPlainPolicy(options: PlainOptions): Promise<Policy> {
  const { model, trainable } = options
  const { card } = model
  const random = new RandomStream(options.seed).fork('policy')
  if (trainable === 'all') {
    const layout = fullLayout(card)
    const flat = options.fromScratch
      ? initialWeights(card, layout, random)
      : flatten(
          layout,
          await Promise.all(
            layout.slots.map(async ({ name }) => ({ name, shape: [], data: await model.weight(name) })),
          ),
        )
    return new PlainPolicy(options, layout, flat, null)
  }
  const layout = adapterLayout(card, options.lora!)
  return new PlainPolicy(options, layout, initialAdapter(layout, random), await loadFrozen(model))
}

class PlainSnapshot implements Snapshot {
  constructor(
    readonly version: number,
    readonly flat: Tensor,
  ) {}

  async read(): Promise<Float32Array> {
    return ((await this.flat.data()) as Float32Array).slice()
  }

  dispose(): void {
    this.flat.dispose()
  }
}

interface PlainPass extends Pass {
  tape: Tape
  output: Tensor
  place: Int32Array
  disposed: boolean
}

class PlainPolicy implements Policy {
  /** tfjs's scopes are one stack: two computations that wait in turns would take one another's tensors. */
  readonly concurrent = false
  readonly trainable: 'adapters' | 'all'
  readonly parameters: number
  readonly trainableParameters: number
  #version = 0
  #state: OptimizerState
  #gradient: Tensor | null = null
  #leaves: Leaf[] | null = null
  #pass: PlainPass | null = null
  #tables = new Map<number, { cos: Tensor; sin: Tensor; mask: Tensor2D }>()
  readonly #turn: Tensor2D
  #peakBytes = 0
  /** Of the pass before: each shape fills the pool with buffers of its own. */
  #shape = ''

  constructor(
    readonly options: PlainOptions,
    readonly layout: Layout,
    flat: Float32Array,
    readonly frozen: Frozen | null,
  ) {
    this.trainable = options.trainable
    this.parameters = options.model.parameters
    this.trainableParameters = layout.size
    this.#state = {
      flat: tf.keep(tf.tensor1d(flat)),
      first: tf.keep(tf.zeros([layout.size])),
      second: tf.keep(tf.zeros([layout.size])),
      steps: 0,
    }
    this.#turn = tf.keep(halfTurn(options.model.card.headWidth))
  }

  get version(): number {
    return this.#version
  }

  sampler(options: SamplingOptions): Sampler {
    const choice = options.adapter
    const cut = choice === 'live' ? null : this.#parametersFor(choice)
    return createSampler(
      {
        parameters: () => cut?.parameters ?? this.#live(),
        version: () => (typeof choice === 'object' ? choice.version : this.#version),
        slots: this.options.slots ?? 128,
        rowsPerPass: this.options.rowsPerPass ?? 8,
        onPhaseEnd: () => this.#endPhase(),
      },
      options,
      () => {
        cut?.dispose()
        this.#endPhase()
      },
    )
  }

  async logprobs(
    rows: Row[],
    { adapter, keep = false }: { adapter: AdapterChoice; keep?: boolean },
  ): Promise<LogProbs> {
    if (keep) {
      if (this.#pass)
        throw new Error(
          'Computed no log-probabilities: the pass before is still open; use it in backward or dispose it first.',
        )
      if (adapter !== 'live')
        throw new Error(
          'Computed no log-probabilities: only the live adapters can be trained, so keep asks for adapter "live".',
        )
      return this.#pass_(rows, this.#live(), true)
    }
    const { parameters, dispose } = this.#parametersFor(adapter)
    const perPass = this.options.rowsPerPass ?? 8
    const parts: LogProbs[] = []
    try {
      for (let at = 0; at < rows.length; at += perPass)
        parts.push(await this.#pass_(rows.slice(at, at + perPass), parameters, false))
    } finally {
      dispose()
    }
    return joinScores(parts)
  }

  async #pass_(rows: Row[], parameters: Parameters, keep: boolean): Promise<LogProbs> {
    const { card } = this.options.model
    const longest = Math.max(...rows.map(({ ids }) => ids.length))
    if (longest > card.maxLength)
      throw new Error(`Computed no log-probabilities: a row has ${longest} tokens, the model takes ${card.maxLength}.`)
    const T = bucketed(longest, card.maxLength)
    const B = powerOfTwo(rows.length)
    const D = card.width
    const V = card.vocabulary
    const shape = `${B} × ${T}`
    if (shape !== this.#shape) this.#endPhase()
    this.#shape = shape
    // The head is computed from the bucket of the first target on: nobody asks about the prompt.
    const first = Math.min(...rows.map(({ targets }) => (targets.length ? targets[0] - 1 : T - 1)))
    const from = Math.floor(first / 32) * 32
    const window = T - from
    const { targets, inverseTemperature, place } = layTargets(rows, B, T, from)
    const table = this.#table(T)

    const forward = () => {
      const ids = pad(
        rows.map((row) => row.ids),
        T,
        B,
      )
      const hidden = wholeForward(parameters, {
        ids,
        B,
        T,
        positions: { ...table, turn: this.#turn },
        mask: table.mask,
      })
      const seen = tf.reshape(tf.slice(tf.reshape(hidden, [B, T, D]), [0, from, 0], [B, window, D]), [
        B * window,
        D,
      ]) as Tensor2D
      const name = headName(card)
      return targetLogprob(
        seen,
        parameters.weight(name) as Tensor2D,
        parameters.transposed(name),
        oneHotRows(targets, V),
        tf.tensor2d(inverseTemperature, [B * window, 1]),
      )
    }
    const recorded = keep ? record(forward) : { result: tf.tidy(forward), tape: null }
    const { logp, entropy } = recorded.result
    const [allLogp, allEntropy] = await Promise.all([logp.data(), entropy.data()])
    entropy.dispose()
    this.#notePeak()
    const result: LogProbs = {
      logp: Float32Array.from(place, (index) => allLogp[index]),
      entropy: Float32Array.from(place, (index) => allEntropy[index]),
    }
    if (!recorded.tape) {
      logp.dispose()
      return result
    }
    const pass: PlainPass = {
      tokens: place.length,
      tape: recorded.tape,
      output: tf.keep(logp),
      place,
      disposed: false,
      dispose: () => this.#close(pass),
    }
    this.#pass = pass
    return { ...result, pass }
  }

  #close(pass: PlainPass): void {
    if (pass.disposed) return
    pass.disposed = true
    disposeTape(pass.tape)
    pass.output.dispose()
    if (this.#pass === pass) this.#pass = null
  }

  async backward(pass: Pass, slopes: Float32Array): Promise<void> {
    const open = this.#pass
    if (!open || pass !== open) throw new Error('Computed no gradient: this pass was already used or disposed.')
    if (slopes.length !== open.place.length) {
      throw new Error(
        `Computed no gradient: expected ${open.place.length} slopes, one per target token, got ${slopes.length}.`,
      )
    }
    const seedValues = new Float32Array(open.output.size)
    open.place.forEach((index, i) => {
      seedValues[index] = slopes[i]
    })
    const seed = tf.tensor1d(seedValues)
    const leaves = this.#cut().map(({ tensor }) => tensor)
    const gradients = backpropagate(open.tape, open.output, seed, leaves)
    seed.dispose()
    open.tape.nodes = []
    this.#notePeak()
    const before = this.#gradient
    this.#gradient = tf.keep(
      tf.tidy(() => {
        const flat = tf.concat(gradients.map((gradient, i) => tf.reshape(gradient ?? tf.zerosLike(leaves[i]), [-1])))
        return before ? tf.add(before, flat) : flat
      }),
    )
    before?.dispose()
    tf.dispose(gradients.filter((gradient) => gradient !== null))
    this.#close(open)
  }

  async update(step: OptimizerStep): Promise<{ gradientNorm: number }> {
    if (!this.#gradient) throw new Error('Updated nothing: there is no gradient; call backward first.')
    if (step.type === 'muon')
      throw new Error('Updated nothing: the plain policy has AdamW and SGD; set optimizer.type to "adamw".')
    const norm = await gradientNorm(this.#gradient)
    if (!Number.isFinite(norm)) return { gradientNorm: norm }
    // As torch's clip_grad_norm_: the small constant keeps a zero gradient from dividing by zero.
    const clip = step.maxGradientNorm === null ? 1 : Math.min(1, step.maxGradientNorm / (norm + 1e-6))
    this.#state = applyOptimizer(this.#state, this.#gradient, clip, step)
    this.clearGradient()
    this.#dropLeaves()
    this.#endPhase()
    this.#version++
    return { gradientNorm: norm }
  }

  async gradient(): Promise<Float32Array> {
    return this.#gradient ? ((await this.#gradient.data()) as Float32Array).slice() : new Float32Array(this.layout.size)
  }

  clearGradient(): void {
    this.#gradient?.dispose()
    this.#gradient = null
  }

  snapshot(of?: { trainable: Float32Array; version: number }): Snapshot {
    if (!of) return new PlainSnapshot(this.#version, tf.keep(tf.clone(this.#state.flat)))
    expectFits(this.layout, of.trainable)
    return new PlainSnapshot(of.version, tf.keep(tf.tensor1d(of.trainable)))
  }

  async state(): Promise<PolicyState> {
    const [trainable, firstMoment, secondMoment] = await Promise.all([
      this.#state.flat.data(),
      this.#state.first.data(),
      this.#state.second.data(),
    ])
    return {
      trainable: (trainable as Float32Array).slice(),
      firstMoment: (firstMoment as Float32Array).slice(),
      secondMoment: (secondMoment as Float32Array).slice(),
      optimizerSteps: this.#state.steps,
      version: this.#version,
    }
  }

  async restore(state: PolicyState): Promise<void> {
    expectFits(this.layout, state.trainable)
    tf.dispose([this.#state.flat, this.#state.first, this.#state.second])
    this.#state = {
      flat: tf.keep(tf.tensor1d(state.trainable)),
      first: tf.keep(tf.tensor1d(state.firstMoment)),
      second: tf.keep(tf.tensor1d(state.secondMoment)),
      steps: state.optimizerSteps,
    }
    this.clearGradient()
    this.#dropLeaves()
    this.#version = state.version
  }

  async tensors() {
    return unflatten(this.layout, (await this.#state.flat.data()) as Float32Array)
  }

  memory(): PolicyMemory {
    this.#notePeak()
    const { bytes, tensors, buffers } = tfjsMemory()
    return { gpuBytes: bytes, gpuPeakBytes: this.#peakBytes, tensors, buffers }
  }

  dispose(): void {
    this.#pass?.dispose()
    this.clearGradient()
    this.#dropLeaves()
    for (const { cos, sin, mask } of this.#tables.values()) tf.dispose([cos, sin, mask])
    this.#tables.clear()
    tf.dispose([this.#state.flat, this.#state.first, this.#state.second, this.#turn])
    if (this.frozen) tf.dispose([...this.frozen.weights.values(), ...this.frozen.transposes.values()])
    trimPool()
  }

  #cut(): Leaf[] {
    this.#leaves ??= keepLeaves(cutLeaves(this.#state.flat, this.layout))
    return this.#leaves
  }

  #dropLeaves(): void {
    tf.dispose((this.#leaves ?? []).map(({ tensor }) => tensor))
    this.#leaves = null
  }

  #live(): Parameters {
    const { model, lora } = this.options
    return this.frozen ? adapted(model.card, this.frozen, this.#cut(), lora!) : trained(model.card, this.#cut())
  }

  #parametersFor(choice: AdapterChoice): { parameters: Parameters; dispose: () => void } {
    const { model, lora } = this.options
    if (choice === 'live') return { parameters: this.#live(), dispose: () => {} }
    if (!this.frozen)
      throw new Error('This policy trains all its weights: there is no reference and there are no adapter snapshots.')
    if (choice === 'none') return { parameters: adapted(model.card, this.frozen, [], lora!), dispose: () => {} }
    const leaves = keepLeaves(cutLeaves((choice as PlainSnapshot).flat, this.layout))
    return {
      parameters: adapted(model.card, this.frozen, leaves, lora!),
      dispose: () => tf.dispose(leaves.map(({ tensor }) => tensor)),
    }
  }

  #table(T: number) {
    let table = this.#tables.get(T)
    if (!table) {
      const { card } = this.options.model
      const { cos, sin } = rotaryTable(
        card,
        Array.from({ length: T }, (_, t) => t),
      )
      const shape = [1, T, 1, card.headWidth]
      table = { cos: tf.keep(tf.tensor(cos, shape)), sin: tf.keep(tf.tensor(sin, shape)), mask: tf.keep(causalMask(T)) }
      this.#tables.set(T, table)
    }
    return table
  }

  // Sampling and learning use buffers of different sizes: what one leaves in the pool is dead weight to the other.
  #endPhase(): void {
    this.#notePeak()
    trimPool()
  }

  #notePeak(): void {
    this.#peakBytes = Math.max(this.#peakBytes, tfjsMemory().bytes)
  }
}

function keepLeaves(leaves: Leaf[]): Leaf[] {
  for (const { tensor } of leaves) tf.keep(tensor)
  return leaves
}

/** Targets and temperatures over the window [B, T − from]; `place` says where each row's targets stand in it. */
function layTargets(rows: Row[], B: number, T: number, from: number) {
  const window = T - from
  const targets = new Int32Array(B * window)
  const inverseTemperature = new Float32Array(B * window).fill(1)
  const place: number[] = []
  rows.forEach((row, b) => {
    inverseTemperature.fill(row.temperature > 0 ? 1 / row.temperature : 1, b * window, (b + 1) * window)
    for (const t of row.targets) {
      if (t < 1 || t >= row.ids.length)
        throw new Error(
          `Computed no log-probabilities: row ${b} has a target at ${t}, outside 1 … ${row.ids.length - 1}.`,
        )
      const index = b * window + (t - 1 - from)
      targets[index] = row.ids[t]
      place.push(index)
    }
  })
  return { targets, inverseTemperature, place: Int32Array.from(place) }
}
