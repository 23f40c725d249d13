// Rows about runs. Ids are ULIDs, times milliseconds since the epoch, `…_json` JSON as text, flags 0 or 1.

/** One run, whatever happened to its attempts. */
export interface RunRow {
  id: string
  project: string
  /** Who submitted it: the id of a key, or `browser` for a page of this server. */
  owner: string
  name: string
  target: string
  config_json: string
  labels_json: string
  /** Names of the project's secret sets, given to its attempts. */
  secrets_json: string
  state: string
  reason: string | null
  attempt: number
  step: number
  max_steps: number
  /** null, `graceful` or `now`: what was asked for, until the engine says that it is done. */
  cancel: string | null
  cloned_from: string | null
  created_at: number
  updated_at: number
  started_at: number | null
  ended_at: number | null
  /** Set before the files go, so that a crash in between is made good at the next start. */
  deleted_at: number | null
  /** Events, samples, and what its engine keeps of it on this machine. */
  bytes: number
}

/** One go at a run by one engine. */
export interface AttemptRow {
  id: string
  run_id: string
  number: number
  engine: string
  /** What the engine calls it; null until the engine has answered. */
  engine_id: string | null
  state: string
  reason: string | null
  exit_code: number | null
  /** The engine's own last answer. */
  raw_json: string | null
  /** The step from which it went on; null until it has told. */
  from_step: number | null
  created_at: number
  started_at: number | null
  ended_at: number | null
}

/** One submit by its `Idempotency-Key`, for as long as it is remembered. */
export interface IdempotencyRow {
  caller: string
  key: string
  /** SHA-256 of the request. */
  digest: string
  run_id: string
  created_at: number
}

/** Where in a run's event file an event begins: a row now and then, enough to find the others. */
export interface EventMarkRow {
  run_id: string
  seq: number
  byte_offset: number
}

/** A `started`, `step` or `evaluation` event in the event file, or the groups of a `samples` event in the samples file. */
export interface StepIndexRow {
  run_id: string
  seq: number
  attempt: number
  step: number
  /** `started`, `step`, `evaluation`, `samples/train` or `samples/eval`. */
  kind: string
  byte_offset: number
  byte_length: number
  /** Rollouts, for samples. */
  items: number
  /** 1 when a later attempt went on from a step before this one. */
  superseded: number
}

/** How far the index knows a run's event file. */
export interface EventFileRow {
  run_id: string
  seq: number
  indexed_bytes: number
  samples_bytes: number
}

export interface ArtifactRow {
  id: string
  run_id: string
  attempt: number
  /** `adapter`, `checkpoint` or `config`. */
  kind: string
  step: number
  /** A file name, without folders. */
  name: string
  bytes: number
  sha256: string
  /** Where the artifact store keeps it. */
  place: string
  created_at: number
}

/** What was measured of a model on a target, newest last. */
export interface MeasurementRow {
  id: string
  target: string
  model: string
  backend: string
  adapter: string
  /** While answers are sampled. */
  tokens_per_second: number
  /** Tokens of a step by the time of the whole step. */
  step_tokens_per_second: number
  /** The run that it was measured on; null for a measurement of its own. */
  run_id: string | null
  created_at: number
}

export interface RunTables {
  run: RunRow
  attempt: AttemptRow
  idempotency: IdempotencyRow
  event_file: EventFileRow
  event_mark: EventMarkRow
  step_index: StepIndexRow
  artifact: ArtifactRow
  measurement: MeasurementRow
}
