// Submitting without doubt: a job is made held, with our mark in its comment; its id is written down; then it may run.
// After a crash anywhere in between, the mark finds the job again, and it has not run.

import type { SlurmClient } from './client.ts'
import { SlurmError } from './client.ts'
import type { SlurmJob, SlurmJobSpec } from './job.ts'

/** The comment of an attempt's job. */
export const markOf = (run: string, attempt: number): string => `rollout-lab:${run}:${attempt}`

export interface SubmitSteps {
  /** Writes the id down where a crash does not lose it. */
  record(id: number): Promise<void>
  /** A named moment between two steps; a test ends the process there. */
  at?(point: 'slurm.before-submit' | 'slurm.submitted' | 'slurm.recorded' | 'slurm.released'): void
}

/** Gives the id of the one job with the spec's comment, made if there is none, and sees to it that it may run. */
export async function submitOnce(client: SlurmClient, spec: SlurmJobSpec, steps: SubmitSteps): Promise<number> {
  const found = await findMarked(client, spec.comment)
  if (found) {
    await steps.record(found.id)
    if (found.held) await client.release(found.id)
    return found.id
  }
  steps.at?.('slurm.before-submit')
  const id = await submitHeld(client, spec)
  steps.at?.('slurm.submitted')
  await steps.record(id)
  steps.at?.('slurm.recorded')
  await client.release(id)
  steps.at?.('slurm.released')
  return id
}

async function submitHeld(client: SlurmClient, spec: SlurmJobSpec): Promise<number> {
  try {
    return await client.submit({ ...spec, hold: true })
  } catch (error) {
    // An answer that never came may have been a submit that did.
    if (!(error instanceof SlurmError) || error.kind !== 'unreachable') throw error
    const made = await findMarked(client, spec.comment).catch(() => null)
    if (made) return made.id
    throw error
  }
}

/** The job with this comment, newest first; a refused submit can leave one that never could run. */
export async function findMarked(client: SlurmClient, comment: string): Promise<SlurmJob | null> {
  const marked = (await client.jobs()).filter((job) => job.comment === comment && job.reason !== 'BadConstraints')
  return marked.sort((a, b) => b.id - a.id)[0] ?? null
}
