// A small real policy that keeps the whole contract of workers/policy/policy.ts in plain JavaScript: the next token's
// logits are a row of a table, chosen by the token before it. Sampling by noise keys, exact gradients, AdamW. It makes
// the tests of the trainer fast; the networks are tested elsewhere.
//
//   logits = base[previous] + delta[previous]      base fixed (the reference), delta trained, both [V, V]

import type {
  AdapterChoice,
  Completion,
  LogProbs,
  NamedTensor,
  OptimizerStep,
  Pass,
  Policy,
  PolicyMemory,
  PolicyState,
  Row,
  Sampler,
  SamplingOptions,
  Snapshot,
  TurnRequest,
} from '../../workers/policy/policy.ts'
import { drawToken } from '../../workers/policy/sampling.ts'
import { RandomStream, uniform } from '../../workers/random.ts'

interface TableSnapshot extends Snapshot {
  readonly delta: Float32Array
}

interface TablePass extends Pass {
  readonly id: number
  rows: Row[]
}

export interface TableOptions {
  vocabulary: number
  seed: number
  /** Called before every log-probability: lets a test spoil one. */
  spoil?: (row: Row, token: number, version: number) => number | undefined
  /** Whether it can answer while it learns; it can. */
  concurrent?: boolean
}

export class TablePolicy implements Policy {
  readonly trainable = 'adapters' as const
  readonly concurrent: boolean
  readonly parameters: number
  readonly trainableParameters: number
  version = 0

  #size: number
  #base: Float32Array
  #delta: Float32Array
  #gradient: Float32Array
  #first: Float32Array
  #second: Float32Array
  #optimizerSteps = 0
  #spoil: TableOptions['spoil']
  #openPass: number | null = null
  #passes = 0
  #disposed = false
  /** Open samplers, passes and snapshots; 0 when nothing leaks. */
  alive = 0

  constructor({ vocabulary, seed, spoil, concurrent = true }: TableOptions) {
    this.concurrent = concurrent
    const random = new RandomStream(seed).fork('table')
    this.#size = vocabulary
    this.#base = Float32Array.from({ length: vocabulary * vocabulary }, () => random.normal())
    this.#delta = new Float32Array(vocabulary * vocabulary)
    this.#gradient = new Float32Array(vocabulary * vocabulary)
    this.#first = new Float32Array(vocabulary * vocabulary)
    this.#second = new Float32Array(vocabulary * vocabulary)
    this.#spoil = spoil
    this.parameters = vocabulary * vocabulary
    this.trainableParameters = vocabulary * vocabulary
  }

  sampler(options: SamplingOptions): Sampler {
    this.#check()
    this.alive++
    const { vocabulary, logits } = { vocabulary: this.#size, logits: this.#logits.bind(this) }
    const sequences = new Map<number, number[]>()
    const version = () => (typeof options.adapter === 'object' ? options.adapter.version : this.version)
    return {
      complete: async (turns, control) => {
        const completions: Completion[] = []
        for (const turn of turns) {
          control?.signal?.throwIfAborted()
          completions.push(sample(turn, sequences, options, version(), (previous) => logits(previous, options.adapter)))
          control?.onProgress?.(
            completions.reduce((sum, { ids }) => sum + ids.length, 0),
            turns.length - completions.length,
          )
          await null
        }
        return completions.map((completion) => {
          for (const id of completion.ids) if (id >= vocabulary) throw new Error('internal: sampled beyond the table')
          return completion
        })
      },
      dispose: () => {
        this.alive--
      },
    }
  }

  async logprobs(rows: Row[], { adapter, keep }: { adapter: AdapterChoice; keep?: boolean }): Promise<LogProbs> {
    this.#check()
    const logp: number[] = []
    const entropy: number[] = []
    for (const row of rows) {
      for (const t of row.targets) {
        const p = softmax(this.#logits(row.ids[t - 1], adapter), row.temperature)
        const spoiled = adapter === 'live' ? this.#spoil?.(row, t, this.version) : undefined
        logp.push(spoiled ?? Math.log(p[row.ids[t]]))
        entropy.push(-p.reduce((sum, x) => sum + (x > 0 ? x * Math.log(x) : 0), 0))
      }
    }
    const result = { logp: Float32Array.from(logp), entropy: Float32Array.from(entropy) }
    if (!keep) return result
    if (this.#openPass !== null) throw new Error('internal: a pass is still alive')
    const id = ++this.#passes
    this.#openPass = id
    this.alive++
    const pass: TablePass = { id, rows, tokens: logp.length, dispose: () => this.#close(id) }
    return { ...result, pass }
  }

  // ∂log π(a)/∂logits = (onehot(a) − p) / T
  async backward(pass: Pass, slopes: Float32Array): Promise<void> {
    const { id, rows, tokens } = pass as TablePass
    if (this.#openPass !== id) throw new Error('internal: this pass was used or disposed')
    if (slopes.length !== tokens) throw new Error(`internal: ${slopes.length} slopes for ${tokens} tokens`)
    let next = 0
    for (const { ids, targets, temperature } of rows) {
      for (const t of targets) {
        const previous = ids[t - 1]
        const p = softmax(this.#logits(previous, 'live'), temperature)
        const slope = slopes[next++] / temperature
        for (let v = 0; v < this.#size; v++) {
          this.#gradient[previous * this.#size + v] += slope * ((v === ids[t] ? 1 : 0) - p[v])
        }
      }
    }
    this.#close(id)
  }

  async update(step: OptimizerStep): Promise<{ gradientNorm: number }> {
    const gradientNorm = Math.sqrt(this.#gradient.reduce((sum, g) => sum + g * g, 0))
    if (!Number.isFinite(gradientNorm)) {
      this.clearGradient()
      return { gradientNorm }
    }
    const { learningRate: lr, beta1, beta2, epsilon, weightDecay, maxGradientNorm } = step
    const scale = maxGradientNorm === null ? 1 : Math.min(1, maxGradientNorm / (gradientNorm + 1e-6))
    this.#optimizerSteps++
    for (let i = 0; i < this.#delta.length; i++) {
      const g = this.#gradient[i] * scale
      this.#first[i] = beta1 * this.#first[i] + (1 - beta1) * g
      this.#second[i] = beta2 * this.#second[i] + (1 - beta2) * g * g
      const m = this.#first[i] / (1 - beta1 ** this.#optimizerSteps)
      const v = this.#second[i] / (1 - beta2 ** this.#optimizerSteps)
      this.#delta[i] -= lr * (m / (Math.sqrt(v) + epsilon) + weightDecay * this.#delta[i])
    }
    this.clearGradient()
    this.version++
    return { gradientNorm }
  }

  async gradient(): Promise<Float32Array> {
    return this.#gradient.slice()
  }

  clearGradient(): void {
    this.#gradient.fill(0)
  }

  snapshot(of = { trainable: this.#delta, version: this.version }): TableSnapshot {
    this.alive++
    const delta = of.trainable.slice()
    return { version: of.version, delta, read: async () => delta, dispose: () => void this.alive-- }
  }

  async state(): Promise<PolicyState> {
    return {
      trainable: this.#delta.slice(),
      firstMoment: this.#first.slice(),
      secondMoment: this.#second.slice(),
      optimizerSteps: this.#optimizerSteps,
      version: this.version,
    }
  }

  async restore(state: PolicyState): Promise<void> {
    this.#delta.set(state.trainable)
    this.#first.set(state.firstMoment)
    this.#second.set(state.secondMoment)
    this.#optimizerSteps = state.optimizerSteps
    this.version = state.version
  }

  async tensors(): Promise<NamedTensor[]> {
    return [{ name: 'delta', shape: [this.#size, this.#size], data: this.#delta.slice() }]
  }

  memory(): PolicyMemory {
    return {
      gpuBytes: 20 * this.#delta.length,
      gpuPeakBytes: 20 * this.#delta.length,
      tensors: 5,
      buffers: 5 + this.alive,
    }
  }

  dispose(): void {
    this.#disposed = true
  }

  #logits(previous: number, adapter: AdapterChoice): Float64Array {
    const delta = adapter === 'live' ? this.#delta : adapter === 'none' ? null : (adapter as TableSnapshot).delta
    const row = previous * this.#size
    return Float64Array.from({ length: this.#size }, (_, v) => this.#base[row + v] + (delta ? delta[row + v] : 0))
  }

  #close(id: number): void {
    if (this.#openPass !== id) return
    this.#openPass = null
    this.alive--
  }

  #check(): void {
    if (this.#disposed) throw new Error('internal: the policy was disposed')
  }
}

function sample(
  { sequence, ids, noise, maxTokens }: TurnRequest,
  sequences: Map<number, number[]>,
  options: SamplingOptions,
  version: number,
  logits: (previous: number) => Float64Array,
): Completion {
  const all = [...(sequences.get(sequence) ?? []), ...ids]
  sequences.set(sequence, all)
  const sampled: number[] = []
  const logp: number[] = []
  const entropy: number[] = []
  let stop: Completion['stop'] | null = null
  while (stop === null) {
    const draw = drawToken(logits(all[all.length - 1]), uniform(noise, all.length), options, all)
    all.push(draw.token)
    sampled.push(draw.token)
    logp.push(draw.logp)
    entropy.push(draw.entropy)
    const text = options.stopStrings.length > 0 ? options.decode(sampled) : ''
    if (options.stopTokens.includes(draw.token)) stop = 'token'
    else if (options.stopStrings.some((string) => text.includes(string))) stop = 'string'
    else if (sampled.length >= maxTokens) stop = 'max_tokens'
    else if (all.length >= options.maxLength) stop = 'max_length'
  }
  return {
    sequence,
    ids: Int32Array.from(sampled),
    logp: Float32Array.from(logp),
    entropy: Float32Array.from(entropy),
    versions: new Int32Array(sampled.length).fill(version),
    stop,
  }
}

function softmax(logits: Float64Array, temperature: number): Float64Array {
  const scaled = logits.map((logit) => logit / temperature)
  const max = Math.max(...scaled)
  const weights = scaled.map((logit) => Math.exp(logit - max))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return weights.map((weight) => weight / total)
}
