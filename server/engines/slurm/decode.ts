// Jobs, nodes and partitions as slurmrestd tells them -> ours.

import type { Table } from '../../../configs/path.ts'
import { numberOf, textOf, timeOf, wordOf } from './answer.ts'
import type { SlurmDialect } from './dialect.ts'
import type { SlurmJob, SlurmNode, SlurmPartition } from './job.ts'

export function jobOf(raw: Table, dialect: SlurmDialect): SlurmJob {
  const id = Number(raw.job_id)
  const state = wordOf(raw.job_state)
  const reason = textOf(raw.state_reason) === 'None' ? '' : textOf(raw.state_reason)
  const ended = ENDED.test(state)
  return {
    id,
    name: textOf(raw.name),
    user: textOf(raw.user_name),
    state,
    reason,
    held: raw.hold === true || reason === 'JobHeldUser' || reason === 'JobHeldAdmin',
    comment: textOf(raw.comment),
    partition: textOf(raw.partition),
    nodes: textOf(raw.nodes),
    restarts: numberOf(raw.restart_cnt) ?? 0,
    ...(ended ? dialect.exitOf(raw) : { exitCode: null, signal: null }),
    submittedAt: timeOf(raw.submit_time),
    startedAt: timeOf(raw.start_time),
    endedAt: ended ? timeOf(raw.end_time) : null,
    output: (textOf(raw.stdout_expanded) || textOf(raw.standard_output)).replaceAll('%j', String(id)),
    raw,
  }
}

/** States after which nothing more happens, unless Slurm starts the job again. */
const ENDED = /^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|BOOT_FAIL|DEADLINE|REVOKED)$/

export function nodeOf(raw: Table): SlurmNode {
  const partitions = Array.isArray(raw.partitions) ? raw.partitions : []
  return {
    name: textOf(raw.name),
    state: wordOf(raw.state).toLowerCase(),
    reason: textOf(raw.reason),
    cpus: numberOf(raw.cpus) ?? 0,
    gres: textOf(raw.gres),
    gresUsed: textOf(raw.gres_used),
    partitions: partitions.filter((name): name is string => typeof name === 'string'),
  }
}

export function partitionOf(raw: Table): SlurmPartition {
  const nodes = raw.nodes as Table | string | undefined
  const maximum = (raw.maximums as Table | undefined)?.time ?? raw.max_time_limit ?? raw.maximum_time_limit
  const minutes = numberOf(maximum)
  return {
    name: textOf(raw.name),
    state: wordOf((raw.partition as Table | undefined)?.state ?? raw.state),
    nodes: typeof nodes === 'string' ? nodes : textOf(nodes?.configured),
    totalNodes: numberOf((typeof nodes === 'object' ? nodes.total : undefined) ?? raw.total_nodes) ?? 0,
    // −1 and 2³² − 1 are Slurm's words for no limit.
    maxTime: minutes === null || minutes < 0 || minutes >= 2 ** 32 - 2 ? null : minutes,
    isDefault: Array.isArray(raw.flags) ? raw.flags.some((flag) => /default/i.test(String(flag))) : false,
  }
}
