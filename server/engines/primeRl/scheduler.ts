// What a batch system must be able to do so that full-size runs can go through it. It knows jobs of its own, by its own
// ids; which attempt of which run a job is, and what it writes, is the engine's business.

import type { Job } from '../engine.ts'

/** The batch system did not answer: nothing is known, nothing has changed. */
export class Unreachable extends Error {
  override name = 'Unreachable'
}

export interface Launch {
  /** The same mark is the same job, whatever happens in between. */
  mark: string
  /** A plain word. */
  name: string
  script: string
  environment: Record<string, string>
  /** Of the attempt; the job's log goes here as job_<id>.log. */
  folder: string
  /** On each node. */
  gpus: number
  nodes: number
  /** A script that prime-rl has rendered for several nodes, whose directives say what the job is. */
  rendered?: string
  /** The tables of prime-rl's config that were kept out of its file: `slurm`, `deployment`. */
  tables: Record<string, Record<string, unknown>>
}

/** A job as the batch system sees it. */
export type Sighting = Pick<
  Job,
  'state' | 'reason' | 'exitCode' | 'nodes' | 'startedAt' | 'endedAt' | 'queuePosition' | 'raw'
> & {
  /** How often the batch system has started it again by itself. */
  restarts: number
}

export interface Scheduler {
  readonly target: string
  readonly title: string
  /** Whether a job may have several nodes. */
  readonly multiNode: boolean
  /** Tables of prime-rl's config that are its business. */
  readonly tables: string[]
  /** Makes the job, tells its id before it may run, and lets it run. Throws a sentence where it is refused. */
  launch(launch: Launch, record: (id: string) => Promise<void>): Promise<void>
  /** `begun`: the job has written its first line. null for a job that is not known any more. */
  look(id: string, begun: boolean): Promise<Sighting | null>
  cancel(id: string, how: 'graceful' | 'now'): Promise<void>
  /** Sentences about its nodes and how busy they are. */
  details?(): Promise<string[]>
  /** Why no job would be taken at the moment; null when one would. */
  problem(): Promise<string | null>
  close(): Promise<void>
}
