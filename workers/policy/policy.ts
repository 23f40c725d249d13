// The contract between the algorithm and the network. Every loss here is a function of the log-probabilities of target
// tokens, so its gradient is Σ slopeₜ · ∇log πₜ: the algorithm hands slopes to `backward` and never sees a tensor.
// Padding and packing are the implementation's secret; all trainable numbers lie in one flat vector.

import type { KernelTimes } from '../gpu/profiler.ts'
import type { NoiseKey } from '../random.ts'

/** One sequence of T tokens. */
export interface Row {
  ids: Int32Array
  /** Indices t ≥ 1 into `ids` whose log-probability is wanted; token t is predicted from tokens 0 … t−1. */
  targets: Int32Array
  /** π is softmax(logits / temperature) over the whole vocabulary. */
  temperature: number
}

/** Which adapters a computation uses: those being trained, none (the reference), or a snapshot. */
export type AdapterChoice = 'live' | 'none' | Snapshot

/** All trainable numbers as they were at one version. */
export interface Snapshot {
  readonly version: number
  read(): Promise<Float32Array>
  dispose(): void
}

/** What `backward` needs. Used once or disposed; one is alive at a time. */
export interface Pass {
  readonly tokens: number
  dispose(): void
}

/** Flat over target tokens, rows in order. Entropy and log-probabilities in nats. */
export interface LogProbs {
  logp: Float32Array
  entropy: Float32Array
  pass?: Pass
}

export interface OptimizerStep {
  type: 'adamw' | 'muon' | 'sgd'
  learningRate: number
  beta1: number
  beta2: number
  epsilon: number
  weightDecay: number
  /** Clip the flat gradient to this L2 norm; null leaves it alone. */
  maxGradientNorm: number | null
}

export interface SamplingOptions {
  /** 0 takes the likeliest token; for evaluation only. */
  temperature: number
  topP: number
  /** −1 or 0: off. */
  topK: number
  minP: number
  repetitionPenalty: number
  /** Tokens that end a completion; the last one is kept in it. */
  stopTokens: number[]
  /** Strings that end a completion, and the decoder that finds them. */
  stopStrings: string[]
  decode: (ids: ArrayLike<number>) => string
  /** Longest sequence, prompt included. */
  maxLength: number
  /** With 'live', tokens sampled after an update are those of the new adapters: see `Completion.versions`. */
  adapter: AdapterChoice
  /** So many of the likeliest tokens are named at each position; 0 when absent. */
  alternatives?: number
}

/** One turn of one sequence: the first call brings the whole prompt, a later one only what was appended since. */
export interface TurnRequest {
  sequence: number
  ids: Int32Array
  noise: NoiseKey
  maxTokens: number
  /** Tokens that the sequence may come to by later turns: room that is made at once need not grow. */
  room?: number
}

export interface Completion {
  sequence: number
  ids: Int32Array
  /** log μ of each sampled token under softmax(logits / T), before truncation and penalties. */
  logp: Float32Array
  entropy: Float32Array
  /** Of the policy that sampled each token. */
  versions: Int32Array
  stop: 'token' | 'string' | 'max_tokens' | 'max_length'
  /** Per sampled token, likeliest first, where they were asked for; a policy may leave them out. */
  alternatives?: Alternative[][]
}

/** A token that could have stood here, and its log softmax(logits / T). */
export interface Alternative {
  token: number
  logp: number
}

/** `onProgress`: tokens sampled so far and sequences still open, over the whole call. */
export interface SamplerControl {
  signal?: AbortSignal
  onProgress?: (tokens: number, open: number) => void
}

/** A batch of sequences decoding together, each with its own length and stop. */
export interface Sampler {
  complete(turns: TurnRequest[], control?: SamplerControl): Promise<Completion[]>
  dispose(): void
}

/** Everything that changes while a policy learns. */
export interface PolicyState {
  trainable: Float32Array
  firstMoment: Float32Array
  secondMoment: Float32Array
  optimizerSteps: number
  version: number
}

export interface NamedTensor {
  name: string
  shape: number[]
  data: Float32Array
}

export interface PolicyMemory {
  gpuBytes: number
  gpuPeakBytes: number
  tensors: number
  buffers: number
}

/** GPU time by kernel, of a policy that runs kernels of its own on a device that tells times. */
export interface KernelTimer {
  /** Turned on, it counts from nothing. Timing costs time itself. */
  turn(on: boolean): void
  /** All dispatches since it was turned on; waits for those on their way. */
  times(): Promise<KernelTimes>
}

export interface Policy {
  readonly trainable: 'adapters' | 'all'
  /** Counts updates; every sampled token carries it. */
  readonly version: number
  readonly trainableParameters: number
  readonly parameters: number
  /** Tokens that one pass holds; undefined where rows are counted instead. */
  readonly tokensPerPass?: number
  /** Sequences may be sampled while a pass is open. Where it is false they must wait for one another. */
  readonly concurrent: boolean
  sampler(options: SamplingOptions): Sampler
  /** `keep` holds what `backward` needs until the pass is used or disposed. */
  logprobs(rows: Row[], options: { adapter: AdapterChoice; keep?: boolean }): Promise<LogProbs>
  /** Adds Σ slopeₜ·∇log πₜ to the gradient; `slopes` is ∂loss/∂log π, flat like the pass's log-probabilities. */
  backward(pass: Pass, slopes: Float32Array): Promise<void>
  /**
   * Clips by global norm, applies the optimizer, clears the gradient, counts the version up. A norm that is not finite
   * changes nothing: it is only returned.
   */
  update(step: OptimizerStep): Promise<{ gradientNorm: number }>
  /** The flat gradient so far, unclipped. */
  gradient(): Promise<Float32Array>
  /** Forgets the gradient so far: the update of this step is skipped. */
  clearGradient(): void
  /** Of the live numbers, or of those that an earlier snapshot held. */
  snapshot(of?: { trainable: Float32Array; version: number }): Snapshot
  state(): Promise<PolicyState>
  restore(state: PolicyState): Promise<void>
  /** Adapters under their PEFT names, or, with `trainable: 'all'`, the weights under their Hugging Face names. */
  tensors(): Promise<NamedTensor[]>
  memory(): PolicyMemory
  /** Seconds since the last call in which the GPU computed; null, or not there, where nobody can tell. */
  busySeconds?(): Promise<number | null>
  /** Absent where there is nothing to time. */
  readonly kernelTimer?: KernelTimer
  dispose(): void
}
