// What the run API answers with. The page and the command line import these types.

import type { Note, Problem } from '../../configs/load.ts'
import type { RunConfig } from '../../configs/schema.ts'
import type { GroupRecord, Metrics } from '../../workers/protocol.ts'
import type { EngineCapabilities, EngineCard, JobStart, JobState } from '../engines/engine.ts'
import type { AttemptRow, RunRow } from '../store/tables/runs.ts'

export type RunStatus = JobState

/** Also sent as the SSE event `status` whenever it changes. */
export interface RunView {
  id: string
  name: string
  project: string
  owner: string
  target: string
  labels: string[]
  state: RunStatus
  /** A sentence: what it waits for, or how it ended. */
  reason: string | null
  /** An end was asked for. */
  cancelling: boolean
  attempt: number
  step: number
  maxSteps: number
  model: string
  environments: string[]
  clonedFrom: string | null
  /** Milliseconds since the epoch. */
  createdAt: number
  updatedAt: number
  startedAt: number | null
  endedAt: number | null
  bytes: number
}

export interface AttemptView {
  number: number
  engine: string
  engineId: string | null
  state: RunStatus
  reason: string | null
  exitCode: number | null
  /** The step from which it went on. */
  fromStep: number | null
  createdAt: number
  startedAt: number | null
  endedAt: number | null
  /** When it had GPUs, begun anew or not; null where its engine shares none out. */
  starts: JobStart[] | null
}

export interface RunDetails extends RunView {
  config: RunConfig
  attempts: AttemptView[]
  /** What the run can give and be asked for; the page hides the rest. */
  capabilities: EngineCapabilities
  /** 0 for the next to start; null where it does not wait or the engine does not say. */
  queuePosition: number | null
  /** The operator's price of a GPU for an hour, in no currency that we know; null where none is named. */
  pricePerGpuHour: number | null
  /** The server's clock, for what is reckoned until now. */
  at: number
}

export interface MeasurementView {
  model: string
  backend: string
  adapter: string
  tokensPerSecond: number
  stepTokensPerSecond: number
  /** The run that it was measured on; null for a measurement of its own. */
  run: string | null
  at: number
}

export interface TargetView {
  target: string
  card: EngineCard
  capabilities: EngineCapabilities
  /** The newest of each model. */
  measurements: MeasurementView[]
}

export interface Preview {
  target: string
  /** The config as it would run; null where it does not load. */
  config: RunConfig | null
  problems: Problem[]
  notes: Note[]
  /** Why the target would not take it. */
  refusals: string[]
  /** What will be different there. */
  differences: string[]
  size: {
    steps: number
    rolloutsPerStep: number
    /** Prompts and answers, when every rollout is as long as it may be; evaluations not counted. */
    mostTokens: number
  } | null
  /** From runs that were measured here, never guessed: null where there are none of this model. */
  time: { mostSeconds: number; measurement: MeasurementView } | null
}

export interface MetricsPage {
  rows: MetricsRow[]
  /** Ask again from this counter; null at the end. */
  next: number | null
}

export interface MetricsRow {
  seq: number
  attempt: number
  kind: 'step' | 'evaluation'
  step: number
  time: number
  metrics: Metrics
  environment?: string
  seconds?: unknown
}

export interface RolloutsPage {
  step: number
  split: 'train' | 'eval'
  attempt: number
  groups: GroupRecord[]
  /** Groups of the step in all. */
  total: number
  /** Group to ask for next; null at the end. */
  next: number | null
}

export interface ArtifactView {
  id: string
  kind: string
  step: number
  name: string
  bytes: number
  sha256: string
  attempt: number
  createdAt: number
}

export function viewOf(row: RunRow): RunView {
  const config = JSON.parse(row.config_json) as RunConfig
  return {
    id: row.id,
    name: row.name,
    project: row.project,
    owner: row.owner,
    target: row.target,
    labels: JSON.parse(row.labels_json),
    state: row.state as RunStatus,
    reason: row.reason,
    cancelling: row.cancel !== null,
    attempt: row.attempt,
    step: row.step,
    maxSteps: row.max_steps,
    model: config.model,
    environments: config.env.map(({ id, name }) => name ?? id),
    clonedFrom: row.cloned_from,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    bytes: row.bytes,
  }
}

export function attemptView(row: AttemptRow, starts: JobStart[] | null): AttemptView {
  return {
    number: row.number,
    engine: row.engine,
    engineId: row.engine_id,
    state: row.state as RunStatus,
    reason: row.reason,
    exitCode: row.exit_code,
    fromStep: row.from_step,
    createdAt: row.created_at,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    starts,
  }
}
