// What differs between the versions of slurmrestd's API that are known here.

import type { SlurmJob, SlurmJobSpec } from './job.ts'
import { V0038 } from './v0038.ts'
import { V0040 } from './v0040.ts'

export interface SlurmDialect {
  /** As it stands in the path. */
  version: string
  encode(spec: SlurmJobSpec): { script: string; job: Record<string, unknown> }
  /** `exit_code` in whichever shape: the code and the signal, null before the end. */
  exitOf(job: Record<string, unknown>): Pick<SlurmJob, 'exitCode' | 'signal'>
}

/** Newest first. Every one from v0.0.40 on is written alike. */
const NEWER = ['v0.0.44', 'v0.0.43', 'v0.0.42', 'v0.0.41', 'v0.0.40']

export const DIALECTS: readonly SlurmDialect[] = [...NEWER.map((version) => ({ ...V0040, version })), V0038]

/** The newest dialect among the paths of `GET /openapi/v3`; null where none is known here. */
export function dialectOf(paths: readonly string[]): SlurmDialect | null {
  const spoken = new Set(paths.flatMap((path) => path.match(/^\/slurm\/(v\d+\.\d+\.\d+)\//)?.[1] ?? []))
  return DIALECTS.find(({ version }) => spoken.has(version)) ?? null
}
