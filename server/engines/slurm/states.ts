// Slurm's states in the words of every engine. `started` tells whether the job has written its first line: between being
// given nodes and that, a run is starting.

import type { JobState } from '../engine.ts'
import type { SlurmJob } from './job.ts'

const STATES: Record<string, JobState> = {
  PENDING: 'queued',
  CONFIGURING: 'starting',
  RUNNING: 'running',
  COMPLETING: 'running',
  SUSPENDED: 'running',
  STAGE_OUT: 'running',
  SIGNALING: 'running',
  STOPPED: 'running',
  RESIZING: 'running',
  REQUEUED: 'queued',
  REQUEUE_FED: 'queued',
  REQUEUE_HOLD: 'queued',
  RESV_DEL_HOLD: 'queued',
  SPECIAL_EXIT: 'queued',
  COMPLETED: 'succeeded',
  FAILED: 'failed',
  OUT_OF_MEMORY: 'failed',
  BOOT_FAIL: 'failed',
  CANCELLED: 'cancelled',
  REVOKED: 'cancelled',
  TIMEOUT: 'timed_out',
  DEADLINE: 'timed_out',
  NODE_FAIL: 'node_lost',
  PREEMPTED: 'node_lost',
}

export function stateOf({ state }: SlurmJob, started: boolean): JobState {
  const ours = STATES[state] ?? 'unknown'
  return ours === 'running' && !started ? 'starting' : ours
}

const WAITING: Record<string, string> = {
  Resources: 'It waits for nodes or GPUs that other jobs hold.',
  Priority: 'Jobs before it in the queue go first.',
  Dependency: 'It waits for another job.',
  BeginTime: 'Slurm starts it at a set time; after a node has died it waits about two minutes.',
  JobHeldUser: 'It is held until the server releases it.',
  JobHeldAdmin: 'An administrator of the cluster holds it: ask them.',
  PartitionDown: 'Its partition is down: ask the administrators of the cluster.',
  PartitionTimeLimit: 'Its time limit is above that of the partition: ask for less in slurm.time.',
  PartitionNodeLimit: 'It asks for more nodes than the partition has: ask for fewer in [deployment].',
  ReqNodeNotAvail: 'A node that it needs is not available: it may be down or reserved.',
  QOSMaxJobsPerUserLimit: 'The account runs as many jobs as it may: wait, or cancel one.',
  AssocGrpGRES: 'The account uses as many GPUs as it may: wait, or ask for fewer.',
  AssocGrpGRESRunMinutes: 'The account has used up its GPU time.',
  BadConstraints: 'No node of the partition has what it asks for: ask for fewer GPUs in [deployment].',
  NonZeroExitCode: 'The program ended with an error; its last lines are in the log.',
  OutOfMemory: 'The program needed more memory than its node has.',
  TimeLimit: 'It ran into its time limit: resume it, and give it more in slurm.time.',
  NodeDown: 'Its node died.',
  launch_failed_requeued_held: 'It could not be started on its node, and Slurm holds it.',
}

/** What Slurm's reason means and what to do; the bare word where it is not known. */
export function reasonText({ reason }: Pick<SlurmJob, 'reason'>): string {
  return reason === '' ? '' : (WAITING[reason] ?? reason)
}
