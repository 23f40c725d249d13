// A job of Slurm in the words of neither of its API's versions: what is asked for, and what is told about it.

export interface SlurmJobSpec {
  /** The whole script; Slurm reads no #SBATCH line of it over REST, so everything else is said below. */
  script: string
  name: string
  partition?: string
  account?: string
  nodes: number
  tasksPerNode: number
  cpusPerTask?: number
  /** `gpu:8`, on each node. */
  gres?: string
  /** Whole nodes, shared with nobody. */
  exclusive: boolean
  /** Minutes. */
  timeLimit?: number
  nodelist?: string
  exclude?: string
  workingDirectory: string
  /** `%j` stands for the id. */
  output: string
  /** Marks the job as ours: it is how a job is found again after a crash. */
  comment: string
  environment: Record<string, string>
  /** Whether Slurm itself starts it again after its node has died. */
  requeue: boolean
  /** Made, but not run before it is released. */
  hold: boolean
  /** `B:TERM@30`: which signal, how many seconds before the end. */
  signal?: string
}

export interface SlurmJob {
  id: number
  name: string
  /** Whose it is. */
  user: string
  /** The first base state: PENDING, RUNNING, …; flags of newer versions left out. */
  state: string
  /** Why it waits or ended: Resources, Priority, JobHeldUser, NonZeroExitCode, …; '' where Slurm has none. */
  reason: string
  held: boolean
  comment: string
  partition: string
  /** Names of nodes as Slurm writes them: `n[0-1]`; '' before it has any. */
  nodes: string
  /** How often Slurm itself has started it again. */
  restarts: number
  /** null before the end. */
  exitCode: number | null
  /** The number of the signal that ended it. */
  signal: number | null
  /** Milliseconds since the epoch; null for what has not come to pass. */
  submittedAt: number | null
  startedAt: number | null
  endedAt: number | null
  /** The file of its output, `%j` replaced. */
  output: string
  /** Slurm's own answer. */
  raw: Record<string, unknown>
}

export interface SlurmNode {
  name: string
  /** idle, allocated, mixed, down, drained, …: the base state, lower case. */
  state: string
  reason: string
  cpus: number
  /** As configured: `gpu:fake:2`; '' for none. */
  gres: string
  gresUsed: string
  partitions: string[]
}

export interface SlurmPartition {
  name: string
  state: string
  nodes: string
  totalNodes: number
  /** Minutes; null for no limit. */
  maxTime: number | null
  isDefault: boolean
}
