// Where runs are kept: what a trainer writes while it runs, and what a page or a command line reads afterwards. Two
// implementations, browser.ts and node.ts; neither knows how a step works.
//
// The rule behind both: events and samples of a step are durable before the save that covers them, and a save becomes
// the newest one in a single last write. So a crash at any moment leaves a save together with everything it covers, and
// a resumed run cuts what lies past it.

import type { RunConfig } from '../../configs/schema.ts'
import type { Split } from '../../environments/messages.ts'
import type { ExportedFile, RunEvent, SaveDescription } from '../protocol.ts'
import type { SaveRecord } from './record.ts'

export type RunState = 'loading' | 'paused' | 'running' | 'finished' | 'stopped' | 'failed'

/** One line in a list of runs. */
export interface RunSummary {
  run: string
  name: string
  config: RunConfig
  state: RunState
  reason: string | null
  /** How often it was started. */
  attempt: number
  /** Steps done when this was last written. */
  step: number
  /** Milliseconds since the epoch. */
  created: number
  updated: number
  /** No event with a counter above this one has left the trainer. */
  seqCeiling: number
}

export interface RunFiles {
  /** On disk or in the browser's storage. */
  bytes: number
  /** Steps of the kept checkpoints, increasing. */
  checkpoints: number[]
  /** The newest automatic save; null when there is none. */
  savedStep: number | null
}

export type SamplesEvent = Extract<RunEvent, { kind: 'samples' }>

/** Events worth keeping: the rest only tells what is going on at the moment. */
export function isKept(event: RunEvent): boolean {
  return !['fetch', 'phase', 'progress', 'memory', 'kernels', 'saved'].includes(event.kind)
}

export interface RunLibrary {
  /** Newest first. */
  list(): Promise<RunSummary[]>
  files(run: string): Promise<RunFiles>
  /** The kept events in order; samples come without their groups. */
  events(run: string): Promise<RunEvent[]>
  samples(run: string, step: number, split: Split): Promise<SamplesEvent | null>
  /** The files of a kept checkpoint: its save and its adapter. */
  checkpoint(run: string, step: number): Promise<ExportedFile[]>
  /** What the run gave away at its end: the adapter as PEFT files. Empty before that. */
  adapter(run: string): Promise<ExportedFile[]>
  remove(run: string): Promise<void>
  /** Bytes; null where the device does not say. */
  usage(): Promise<{ usedBytes: number | null; quotaBytes: number | null }>
  /** Whether another tab, worker or process writes it now. */
  isWritten(run: string): Promise<boolean>
  /** Opens a run for writing, making it if needed. Throws a sentence when another tab or process writes it. */
  open(run: string): Promise<RunWriter>
}

/** A library whose checkpoints can be looked at and deleted one by one, and which takes a save that was downloaded. */
export interface CheckpointLibrary extends RunLibrary {
  /** The newest save, by the step null, and the kept ones, with the bytes that each takes. */
  saves(run: string): Promise<{ step: number | null; bytes: number }[]>
  removeCheckpoint(run: string, step: number): Promise<void>
  /**
   * Makes a downloaded save the newest of its run, which need not be here any more; gives back the run's name.
   * @throws a sentence when it is no save, or when the run has gone further
   */
  takeSave(bytes: Uint8Array): Promise<string>
}

export interface KeptCheckpoint {
  /** What lies beside the save: the adapter. */
  files: ExportedFile[]
  /** Of all checkpoints the last `keepLast` stay, and those at multiples of `keepEvery`; null for the first: all do. */
  keepLast: number | null
  keepEvery: number | null
}

/** The checkpoints that have to go, of those at `steps` in increasing order. */
export function surplusCheckpoints(steps: number[], { keepLast, keepEvery }: KeptCheckpoint): number[] {
  if (keepLast === null) return []
  return steps.slice(0, -keepLast).filter((step) => keepEvery === null || step % keepEvery !== 0)
}

export interface RunWriter {
  readonly run: string
  /** null for a run that has not begun. */
  summary(): Promise<RunSummary | null>
  describe(summary: RunSummary): Promise<void>
  append(events: RunEvent[]): Promise<void>
  /**
   * Makes this save the newest one. With `kept` it also stays as a checkpoint, beside its files. Throws `StorageFull` when there is no room; the save before it is then untouched.
   */
  save(record: SaveRecord, kept: KeptCheckpoint | null): Promise<SaveDescription>
  /** The newest save that is whole, or null. `notes` has a sentence for each one that had to be passed over. */
  newestSave(): Promise<{ record: SaveRecord | null; notes: string[] }>
  /** Forgets events and samples whose counter is above `seq`. */
  cut(seq: number): Promise<void>
  /** The adapter at the end of a run, for the user to take away. */
  putAdapter(files: ExportedFile[]): Promise<void>
  /** Lets others write. */
  close(): Promise<void>
}

/** There is no room left for a write; what was written before is whole. */
export class StorageFull extends Error {
  override name = 'StorageFull'
}
