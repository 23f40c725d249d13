// All that crosses a thread or a wire: what may be asked of a trainer, what may be asked of the environment side, and
// the events of a run. Charts, samples and diagnosis are drawn from events alone, wherever the run takes place.

import type { RunConfig } from '../configs/schema.ts'
import type { Message, Split, ToolDefinition } from '../environments/messages.ts'

// ── The trainer ──────────────────────────────────────────────────────────────────────────────────────────────────

export interface StartRequest {
  run: string
  config: RunConfig
  /** Continue from the newest save of this run, if there is one. */
  resume?: boolean
  /** Put before every event's `source`; the page says `tab`, the command line `node`. */
  source?: string
}

/** One run, in a worker, in Node or on a cluster. Every method settles at the next step boundary at the latest. */
export interface Trainer {
  /** Loads the model and the environment, restores the newest save if asked, and waits, paused. */
  start(request: StartRequest): Promise<RunDescription>
  /** Runs until the last step, a pause or a stop. Resolves at once; the events tell the rest. */
  play(): Promise<void>
  pause(): Promise<void>
  /** Runs one step and pauses again. */
  step(): Promise<void>
  /** Saves, ends the run and frees the device. */
  stop(): Promise<void>
  /** Saves at the next step boundary and resolves when the save is durable. */
  save(): Promise<SaveDescription>
  /** The adapter as PEFT files, for download. */
  exportAdapter(): Promise<ExportedFile[]>
  /** The whole state as one file, for download where no save can be stored. Absent where the run is not in reach. */
  exportSave?(): Promise<ExportedFile[]>
  /** Begins or ends to time the kernels of the GPU, from the next step boundary on: see the event `kernels`. */
  timeKernels?(on: boolean): Promise<void>
  subscribe(listener: (event: RunEvent) => void): Promise<void>
}

export interface ExportedFile {
  name: string
  bytes: Uint8Array
}

export interface RunDescription {
  run: string
  attempt: number
  /** Steps already done: 0 for a fresh run. */
  step: number
  maxSteps: number
  model: ModelDescription
  device: DeviceDescription
  capabilities: Capabilities
  notes: string[]
}

export interface ModelDescription {
  name: string
  parameters: number
  trainableParameters: number
  layers: number
  width: number
  vocabulary: number
  hash: string
}

export interface DeviceDescription {
  /** Which implementation computes; `cuda` on a cluster alone. */
  backend: 'webgpu' | 'webgl' | 'wasm' | 'cpu' | 'cuda'
  adapter: string
  /** True where WebGPU runs on the CPU (SwiftShader, llvmpipe). */
  software: boolean
  features: string[]
  selfTest: { passed: boolean; sentence: string }
  /** Bytes, null where the device does not say. */
  memoryLimitBytes: number | null
}

/** What a run can give and do; the page hides the rest. */
export interface Capabilities {
  pause: boolean
  step: boolean
  save: boolean
  exportAdapter: boolean
  tokens: boolean
  /** Kernels can be timed; absent: they cannot. */
  kernels?: boolean
}

/** One kernel's part of the time on the GPU. */
export interface KernelTime {
  name: string
  dispatches: number
  milliseconds: number
}

export interface SaveDescription {
  step: number
  bytes: number
  kept: boolean
}

// ── Events ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** The four phases of a step, in order. */
export type Phase = 'ask' | 'answer' | 'judge' | 'learn'

interface EventBase {
  run: string
  attempt: number
  /**
   * Increases with every event of the run, across attempts: by one, except after a crash, when the counters that may
   * have been seen already are passed over.
   */
  seq: number
  /** Wall clock, milliseconds since the epoch. */
  time: number
  source: string
}

/** What the reader can do about it, and so what a page should show: make room, or give a token. */
export type Remedy = 'storage' | 'token'

export type RunEvent = EventBase & RunEventBody

export type RunEventBody =
  | { kind: 'started'; description: RunDescription; config: RunConfig }
  /** A file of the model on its way, before the run begins; bytes of all that is to be brought, null where nobody said. */
  | { kind: 'fetch'; file: string; doneBytes: number; totalBytes: number | null }
  | {
      kind: 'state'
      state: 'loading' | 'paused' | 'running' | 'finished' | 'stopped' | 'failed'
      reason?: string
      about?: Remedy
    }
  /** A phase of step `step` begins; `line` is the marker of the line of step.ts that runs, for the page to light. */
  | { kind: 'phase'; step: number; phase: Phase; line: string; note?: string }
  | { kind: 'progress'; step: number; phase: Phase; done: number; total: number; tokensPerSecond?: number }
  | {
      kind: 'step'
      step: number
      metrics: Metrics
      seconds: Record<Phase | 'total', number>
      learned: boolean
      note?: string
    }
  | { kind: 'samples'; step: number; split: Split; groups: GroupRecord[] }
  | { kind: 'evaluation'; step: number; metrics: Metrics; seconds: number; environment: string }
  | { kind: 'saved'; save: SaveDescription }
  | { kind: 'note'; level: 'info' | 'warning' | 'error'; sentence: string; about?: Remedy }
  | { kind: 'memory'; gpuBytes: number; gpuPeakBytes: number; tensors: number; buffers: number }
  /**
   * GPU time by kernel, longest first, of all that ran after step `since` and up to the end of step `step`, evaluations
   * too; `seconds` is the wall clock of the same. `untimed` dispatches ran without a time.
   */
  | {
      kind: 'kernels'
      on: boolean
      since: number
      step: number
      seconds: number
      kernels: KernelTime[]
      untimed: number
    }

/** Keys are paths from the table in `workers/rl/metrics.ts`. */
export type Metrics = Record<string, number>

/** The G rollouts of one prompt. `reason` says why the group was left out of the batch, null when it was used. */
export interface GroupRecord {
  task: number
  exampleId: number
  environment: string
  prompt: Message[]
  answer: string
  rollouts: RolloutRecord[]
  reason: string | null
}

export interface RolloutRecord {
  attempt: number
  /** Everything after the prompt: the policy's messages and the environment's. */
  messages: Message[]
  reward: number | null
  advantage: number | null
  metrics: Record<string, number>
  stop: string
  error: string | null
  truncated: boolean
  promptTokens: number
  tokens: TokenRecord | null
}

/** Per token after the prompt, in order. Arrays have equal length. */
export interface TokenRecord {
  text: string[]
  /** 1 where the policy sampled the token, 0 where the environment gave it. */
  sampled: number[]
  /** log μ: under the policy that sampled it. */
  logMu: number[]
  /** null where not recorded. */
  entropy: number[] | null
  /** log π when the update was computed, and after it; null where not recorded. */
  logp: number[] | null
  logpAfter: number[] | null
  /** ∂loss/∂log π. */
  slope: number[] | null
}

// ── The environment side ─────────────────────────────────────────────────────────────────────────────────────────

/**
 * What the trainer may ask of the environment side. Messages only; state stays there under a rollout's handle.
 * A rollout whose environment throws, times out or dies comes back with `error` set, never as a zero reward.
 */
export interface EnvironmentPort {
  open(request: OpenRequest): Promise<EnvironmentDescription[]>
  /** The examples at these positions of the split's endless order. A pure function of (config, seed, split, position). */
  draw(split: Split, positions: number[], deadlineMs: number): Promise<DrawnTask[]>
  /** Creates the state of new rollouts and answers with their prompts. */
  setup(rollouts: { handle: string; split: Split; position: number }[], deadlineMs: number): Promise<SetupResult[]>
  /** Hands over the policy's newest message of each rollout; answers with what the environment says next. */
  respond(
    rollouts: { handle: string; message: Message; truncated: boolean }[],
    deadlineMs: number,
  ): Promise<RespondResult[]>
  /** Scores finished rollouts, group by group, and forgets their state. */
  score(groups: { handles: string[] }[], deadlineMs: number): Promise<ScoreResult[][]>
  /** Forgets rollouts that will not be scored. */
  release(handles: string[]): Promise<void>
}

export interface OpenRequest {
  environments: { id: string; name: string; args: Record<string, unknown>; ratio: number }[]
  seed: number
}

export interface EnvironmentDescription {
  id: string
  name: string
  title: string
  summary: string
  /** Number of training examples; null for a generator that never ends. */
  trainSize: number | null
  evalSize: number | null
  maxTurns: number
}

export interface DrawnTask {
  position: number
  exampleId: number
  environment: string
  prompt: Message[]
  answer: string
}

export interface SetupResult {
  handle: string
  prompt: Message[]
  /** Functions that the policy may call; the chat template writes them into the prompt. */
  tools?: ToolDefinition[]
  error: string | null
}

export interface RespondResult {
  handle: string
  /** True when a stop condition fired; `stop` names it. */
  done: boolean
  stop: string | null
  messages: Message[]
  error: string | null
}

export interface ScoreResult {
  handle: string
  /** null when a reward function threw. */
  reward: number | null
  metrics: Record<string, number>
  error: string | null
}
