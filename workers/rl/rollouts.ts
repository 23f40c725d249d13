// What the algorithm sees of a rollout: token ids, who wrote them, and one reward. It knows no text, no environment and
// no network.

/** One answer to one task. Arrays have length T, prompt included; log μ, entropy and version are 0 where not sampled. */
export interface Rollout {
  /** Position of the task in its split. */
  task: number
  /** Number of this rollout in its group, 0 … G−1. */
  attempt: number
  /** null when no reward could be had; never a silent zero. */
  reward: number | null
  error: string | null
  ids: Int32Array
  /** 1 where the policy sampled the token, 0 on the prompt and on whatever the environment wrote. */
  sampled: Uint8Array
  /** log μ: log-probability under the policy that sampled the token, nats. */
  logMu: Float32Array
  /** Entropy of the distribution the token was drawn from, nats. */
  entropy: Float32Array
  /** Version of the policy that sampled the token: the number of updates it had seen. */
  version: Int32Array
  /** Messages written by the policy. */
  turns: number
  /** True when a limit on tokens or turns ended it, not the policy or the environment. */
  truncated: boolean
  /** Which environment asked; a run with a single one may leave it out. */
  environment?: string
  /** Id of the dataset's example, where the same example can come back at another task position. */
  example?: number
  /** Name of the stop condition that ended it. */
  stop?: string
  /** Named numbers of the rubric, for charts only. */
  metrics?: Record<string, number>
}

/** The G rollouts of one task. */
export type Group = Rollout[]

/** A rollout counts in its group's baseline when it has a reward and no error. */
export function isScored(rollout: Rollout): rollout is Rollout & { reward: number } {
  return rollout.reward !== null && rollout.error === null
}

/** Rewards of the scored rollouts, in order; shorter than G when some errored. */
export function scoredRewards(group: Group): number[] {
  return group.filter(isScored).map((rollout) => rollout.reward)
}

/** Tokens the policy sampled: the completion's length, over all turns. */
export function sampledTokens(rollout: Rollout): number {
  let count = 0
  for (const flag of rollout.sampled) count += flag
  return count
}

/** Names the dataset's example wherever it comes back: `environment:example`. */
export function exampleKey(rollout: Pick<Rollout, 'environment' | 'example' | 'task'>): string {
  return `${rollout.environment ?? ''}:${rollout.example ?? rollout.task}`
}
