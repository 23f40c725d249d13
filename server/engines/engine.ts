// What stands between a run and whatever computes it: a process on this machine, a batch system, a cluster. An engine
// knows jobs, one per attempt of a run; it never knows the database. The server asks and asks again: every method may be
// repeated, and every answer is true at the moment at which it is given.

import type { RunConfig } from '../../configs/schema.ts'
import type { GivenEvent } from '../store/events/eventFile.ts'

/** `unknown` while the engine cannot be reached: never an end. The last five are ends. */
export type JobState =
  | 'queued'
  | 'starting'
  | 'running'
  | 'unknown'
  | 'succeeded'
  | 'failed'
  | 'cancelled'
  | 'timed_out'
  | 'node_lost'

export const FINAL_STATES: readonly JobState[] = ['succeeded', 'failed', 'cancelled', 'timed_out', 'node_lost']

export function isFinal(state: string): boolean {
  return (FINAL_STATES as readonly string[]).includes(state)
}

/** One attempt of a run. */
export interface JobSpec {
  run: string
  /** 1 for the first. */
  attempt: number
  name: string
  project: string
  config: RunConfig
  /** Variables for the run alone: handed over so that no row, log, event or answer holds them. */
  secrets: Record<string, string>
}

export interface Job {
  engineId: string
  state: JobState
  /** A sentence: what it waits for, or how it ended. */
  reason: string | null
  exitCode: number | null
  /** 0 for the next to start; null where the engine does not say. */
  queuePosition: number | null
  nodes: string[]
  /** Milliseconds since the epoch. */
  startedAt: number | null
  endedAt: number | null
  /** The engine's own answer, as JSON. */
  raw: unknown
  /** The engine has begun the job anew, and its secrets are spent: it waits for them (`renewSecrets`). */
  wantsSecrets?: boolean
}

/** One time for which a job had its GPUs: a batch system may begin a job anew. */
export interface JobStart {
  startedAt: number
  /** null while it goes on. */
  endedAt: number | null
  nodes: string[]
  /** On all nodes together. */
  gpus: number
}

/** What runs of this engine can give and be asked for; the page hides the rest. */
export interface EngineCapabilities {
  /** Cancel lets the run save first. */
  gracefulCancel: boolean
  resume: boolean
  /** Rollouts with their texts; and with log-probabilities per token. */
  rollouts: boolean
  tokens: boolean
  logs: string[]
  checkpoints: boolean
  adapter: boolean
  /** The run can be measured before it is submitted. */
  measure: boolean
}

/** How a page shows a target before a run is sent there. */
export interface EngineCard {
  title: string
  /** What leaves the browser, and where it goes. */
  privacy: string
  /** Whether jobs are taken at the moment; a sentence where not. */
  problem: string | null
  maxRuns: number | null
  /** Sentences about how busy it is and what it costs. */
  details?: string[]
  running: number
  queued: number
}

/** A file that a job has left and that outlives it. */
export interface JobFile {
  kind: 'adapter' | 'checkpoint' | 'config'
  step: number
  /** A file name without folders. */
  name: string
  /** On this machine. */
  path: string
}

export interface Measurement {
  backend: string
  adapter: string
  /** While answers are sampled. */
  tokensPerSecond: number
  /** Tokens of a step by the time of the whole step. */
  stepTokensPerSecond: number
}

export type LogPart = { bytes: Uint8Array; nextOffset: number; eof: boolean }

export interface Engine {
  /** What a submit calls it. */
  readonly target: string
  readonly capabilities: EngineCapabilities
  /** Takes what a job was given in secret out of its log and events before they are written down. */
  readonly redacts?: boolean
  card(): Promise<EngineCard>
  /** Sentences for what keeps this config from running here; empty when nothing does. */
  refusals(config: RunConfig): string[]
  /** Sentences for what will be different here from a run in the tab. */
  notes(config: RunConfig): string[]
  /** Begins a job; the same key again is the same job, also after a crash of either side. */
  submit(spec: JobSpec, key: string): Promise<{ engineId: string }>
  /** null where the engine has never heard of it. */
  get(engineId: string): Promise<Job | null>
  /** When a job had GPUs, as far as the engine has seen. Only for engines that share them out. */
  starts?(engineId: string): Promise<JobStart[]>
  /** The operator's price of a GPU for an hour; undefined where none is named. */
  readonly pricePerGpuHour?: number
  /** Every job that the engine remembers, for adopting those whose submit was cut off. */
  list(): Promise<(Job & { key: string })[]>
  /** Asks for an end; the job's state tells when it has come. `graceful` lets it save. */
  cancel(engineId: string, how: 'graceful' | 'now'): Promise<void>
  /** Hands a job's secrets over again. Only for engines whose jobs may want them. */
  renewSecrets?(engineId: string, secrets: Record<string, string>): Promise<void>
  /** Bytes of a log from `offset`; `eof` once there will be no more. */
  readLog(engineId: string, stream: string, offset: number, most: number): Promise<LogPart>
  /**
   * The events after a cursor, null for the first, and the cursor behind them. Never the same event twice along a chain
   * of cursors; after the job's end, an empty answer means that all has been read.
   */
  readEvents(engineId: string, cursor: string | null): Promise<{ events: GivenEvent[]; cursor: string | null }>
  /** What the run has left so far, of all its attempts. */
  files(run: string): Promise<JobFile[]>
  /** Bytes that the engine keeps of a run on this machine. */
  size(run: string): Promise<number>
  /** Forgets an ended job; its run's files stay. */
  forget(engineId: string): Promise<void>
  /** Forgets a run with all its files. */
  remove(run: string): Promise<void>
  /** Called when something about a job may have changed, so that nobody has to wait for the next look. */
  onChange(listener: (engineId: string) => void): () => void
  /** A short run of its own. Missing where `capabilities.measure` is false. */
  measure?(model: string, signal: AbortSignal): Promise<Measurement>
  /** Lets go. Jobs end or go on as the engine is set up to do. */
  close(): Promise<void>
}
