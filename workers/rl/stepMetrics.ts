// The numbers of one step, computed from what the step had in hand, under the keys of metrics.ts. Numbers that are not
// finite are left out.

import type { Batch } from './batch.ts'
import type { LossStats } from './lossStats.ts'
import { deviationOf, type Moments, mean, meanOf, momentsOf, variance } from './moments.ts'
import { type Group, isScored, type Rollout, sampledTokens, scoredRewards } from './rollouts.ts'

export type Metrics = Record<string, number>

/** Counts over the run so far, kept in its save. */
export interface Totals {
  tokens: number
  rollouts: number
  tasks: number
}

/** All of a step; what is left out is not reported. */
export interface StepRecord {
  groups: Group[]
  advantages: (number | null)[][]
  batch: Batch
  /** Per group, from the filters: why it is rejected, or null. */
  rejections: (string | null)[]
  /** Version of the policy that learns: updates made before this step. */
  version: number
  /** Absent when the batch was empty or the update was skipped before the loss was known. */
  loss?: { loss: number; stats: LossStats }
  update?: { learningRate: number; gradientNorm?: number; skipped: number; beta?: number }
  /** Seconds per phase. */
  seconds: { ask: number; answer: number; judge: number; learn: number; total: number }
  /** Counts before this step. */
  totals: Totals
  peakBytes?: number
  /** Seconds in which the GPU computed. */
  gpuSeconds?: number | null
}

export function stepMetrics(step: StepRecord): Metrics {
  const rollouts = step.groups.flat()
  return finite({
    ...rewardMetrics(step.groups, step.advantages),
    ...groupMetrics(step.groups),
    ...rolloutMetrics(rollouts),
    ...stalenessMetrics(rollouts, step.version),
    ...batchMetrics(step),
    ...(step.loss ? lossMetrics(step.loss.loss, step.loss.stats) : {}),
    ...updateMetrics(step.update),
    ...timeMetrics(rollouts, step.seconds),
    ...progressMetrics(step.groups, step.totals),
    ...(step.gpuSeconds == null ? {} : { 'perf/gpu_busy': step.gpuSeconds / step.seconds.total }),
    ...(step.peakBytes === undefined ? {} : { 'perf/peak_memory': step.peakBytes / 2 ** 30 }),
  })
}

/** The totals after this step. */
export function addTotals(totals: Totals, groups: Group[]): Totals {
  const rollouts = groups.flat()
  return {
    tokens: totals.tokens + sum(rollouts.map((rollout) => rollout.ids.length)),
    rollouts: totals.rollouts + rollouts.length,
    tasks: totals.tasks + groups.length,
  }
}

/** The numbers of a held-out evaluation: groups are the k rollouts of each example. */
export function evaluationMetrics(groups: Group[]): Metrics {
  const rollouts = groups.flat()
  const rewards = scoredRewards(rollouts)
  const metrics: Metrics = {
    ...prefixed('eval/', rolloutMetrics(rollouts), ['num_output_tokens/mean', 'is_truncated/mean', 'has_error/mean']),
    ...prefixed('eval/', rubricMetrics(rollouts)),
    'eval/entropy/mean': samplingEntropy(rollouts),
  }
  if (rewards.length > 0) {
    metrics['eval/reward/mean'] = mean(rewards)
    metrics['eval/reward/std'] = Math.sqrt(variance(rewards))
    metrics['eval/solved'] = mean(rewards.map((reward) => Number(reward >= 1)))
  }
  for (const [environment, members] of byEnvironment(groups)) {
    const scores = members.flatMap(scoredRewards)
    if (scores.length === 0) continue
    const most = Math.max(...members.map((group) => group.length))
    metrics[`eval/${environment}/avg@${most}`] = mean(scores)
    if (scores.every((reward) => reward === 0 || reward === 1))
      for (let k = 1; k <= most; k *= 2)
        metrics[`eval/${environment}/pass@${k}`] = mean(members.flatMap((group) => passAt(k, group)))
  }
  return finite(metrics)
}

// ── The parts ────────────────────────────────────────────────────────────────────────────────────────────────────

function rewardMetrics(groups: Group[], advantages: (number | null)[][]): Metrics {
  const rollouts = groups.flat()
  const rewards = momentsOf(scoredRewards(rollouts))
  if (rewards.count === 0) return rubricMetrics(rollouts)
  const spreads = groups.map(scoredRewards).filter((scores) => scores.length > 0)
  const metrics: Metrics = {
    'reward/mean': meanOf(rewards),
    'reward/std': deviationOf(rewards),
    'reward/min': rewards.min,
    'reward/max': rewards.max,
    'reward/group_std': mean(spreads.map((scores) => Math.sqrt(variance(scores)))),
    'advantage/absmean': mean(advantages.flatMap((group) => group.filter((a) => a !== null).map(Math.abs))),
    ...rubricMetrics(rollouts),
  }
  const environments = byEnvironment(groups)
  if (environments.size > 1)
    for (const [environment, members] of environments)
      metrics[`reward/${environment}/mean`] = mean(members.flatMap(scoredRewards))
  return metrics
}

function rubricMetrics(rollouts: Rollout[]): Metrics {
  const values = new Map<string, number[]>()
  for (const rollout of rollouts)
    for (const [name, value] of Object.entries(rollout.metrics ?? {}))
      values.set(name, [...(values.get(name) ?? []), value])
  return Object.fromEntries([...values].map(([name, numbers]) => [`metrics/${name}/mean`, mean(numbers)]))
}

function groupMetrics(groups: Group[]): Metrics {
  const scored = groups.map(scoredRewards).filter((rewards) => rewards.length > 0)
  if (scored.length === 0) return {}
  const all = share(scored, (rewards) => rewards.every((reward) => reward >= 1))
  const none = share(scored, (rewards) => rewards.every((reward) => reward <= 0))
  return {
    solved_all: all,
    solved_none: none,
    solved_some: share(
      scored,
      (rewards) => rewards.some((reward) => reward < 1) && rewards.some((reward) => reward > 0),
    ),
    'group/alike': share(scored, (rewards) => rewards.every((reward) => reward === rewards[0])),
    'group/distinct': mean(
      groups.map((group) => new Set(group.map((rollout) => rollout.ids.join())).size / group.length),
    ),
  }
}

function rolloutMetrics(rollouts: Rollout[]): Metrics {
  if (rollouts.length === 0) return {}
  const outputs = rollouts.map(sampledTokens)
  const totals = rollouts.map((rollout) => rollout.ids.length)
  const turns = rollouts.map((rollout) => rollout.turns)
  const metrics: Metrics = {
    'num_output_tokens/mean': mean(outputs),
    'num_output_tokens/min': Math.min(...outputs),
    'num_output_tokens/max': Math.max(...outputs),
    'num_output_tokens/p10': percentile(outputs, 0.1),
    'num_output_tokens/p90': percentile(outputs, 0.9),
    'num_total_tokens/mean': mean(totals),
    'num_input_tokens/mean': mean(totals) - mean(outputs),
    'num_turns/mean': mean(turns),
    'num_turns/max': Math.max(...turns),
    'is_truncated/mean': share(rollouts, (rollout) => rollout.truncated),
    'has_error/mean': share(rollouts, (rollout) => !isScored(rollout)),
    'sampling_entropy/mean': samplingEntropy(rollouts),
  }
  for (const stop of new Set(rollouts.map((rollout) => rollout.stop)))
    if (stop) metrics[`stop_condition/${stop}`] = share(rollouts, (rollout) => rollout.stop === stop)
  return metrics
}

function samplingEntropy(rollouts: Rollout[]): number {
  // Entropy is 0 where nothing was sampled, so a plain sum counts sampled tokens only.
  return sum(rollouts.flatMap((rollout) => sum(rollout.entropy))) / sum(rollouts.map(sampledTokens))
}

function stalenessMetrics(rollouts: Rollout[], version: number): Metrics {
  const lags = rollouts.flatMap((rollout) =>
    [...rollout.version].filter((_, t) => rollout.sampled[t]).map((v) => version - v),
  )
  return lags.length === 0
    ? {}
    : { 'off_policy/mean': mean(lags), 'off_policy/max': lags.reduce((a, b) => Math.max(a, b)) }
}

function batchMetrics({ groups, batch, rejections }: StepRecord): Metrics {
  const metrics: Metrics = {
    'batch/rollouts': batch.rows.length,
    'batch/effective': batch.rows.length / groups.flat().length,
    'batch/loss_tokens': batch.lossTokens,
    'batch/rejected_groups': batch.reasons.filter((reason) => reason !== null).length,
    'batch/admission_rate': share(rejections, (reason) => reason === null),
  }
  const environments = byEnvironment(groups)
  if (environments.size > 1)
    for (const environment of environments.keys())
      metrics[`batch/${environment}`] = share(batch.rows, (row) => groups[row.group][0].environment === environment)
  return metrics
}

function lossMetrics(loss: number, stats: LossStats): Metrics {
  const metrics: Metrics = {
    'loss/mean': loss,
    'mismatch_kl/all/mean': meanOf(stats.mismatch_kl),
    'mismatch_kl/all/max': stats.mismatch_kl.max,
    'importance_ratio/mean': meanOf(stats.ratio),
    'importance_ratio/std': deviationOf(stats.ratio),
    'importance_ratio/min': stats.ratio.min,
    'importance_ratio/max': stats.ratio.max,
  }
  const means: [string, Moments][] = [
    ['entropy/all/mean', stats.entropy],
    ['ref_kl/mean', stats.ref_kl],
    ['masked_mismatch_kl/mean', stats.masked_mismatch_kl],
    ['unmasked_mismatch_kl/mean', stats.unmasked_mismatch_kl],
    ['is_masked/mean', stats.is_masked],
    ['is_masked_low/mean', stats.is_masked_low],
    ['is_masked_high/mean', stats.is_masked_high],
    ['masked_advantage_positive/mean', stats.masked_advantage_positive],
    ['masked_advantage_negative/mean', stats.masked_advantage_negative],
    ['geo_seq_ratio/mean', stats.geo_seq_ratio],
    ['geo_masked_low/mean', stats.geo_masked_low],
    ['geo_masked_high/mean', stats.geo_masked_high],
    ['sequence_masked_low/mean', stats.sequence_masked_low],
    ['sequence_masked_high/mean', stats.sequence_masked_high],
  ]
  for (const [key, moments] of means) if (moments.count > 0) metrics[key] = meanOf(moments)
  if (stats.entropy.count > 0) metrics['kl_ent_ratio/mean'] = meanOf(stats.mismatch_kl) / meanOf(stats.entropy)
  return metrics
}

function updateMetrics(update: StepRecord['update']): Metrics {
  if (!update) return {}
  const metrics: Metrics = { 'optim/lr': update.learningRate, 'optim/skipped': update.skipped }
  if (update.gradientNorm !== undefined) metrics['optim/grad_norm'] = update.gradientNorm
  if (update.beta !== undefined) metrics['kl_penalty/beta'] = update.beta
  return metrics
}

function timeMetrics(rollouts: Rollout[], seconds: StepRecord['seconds']): Metrics {
  return {
    'time/step': seconds.total,
    'time/ask': seconds.ask,
    'time/answer': seconds.answer,
    'time/judge': seconds.judge,
    'time/learn': seconds.learn,
    'perf/throughput': sum(rollouts.map((rollout) => rollout.ids.length)) / seconds.total,
    'perf/sampling_throughput': sum(rollouts.map(sampledTokens)) / seconds.answer,
  }
}

function progressMetrics(groups: Group[], before: Totals): Metrics {
  const now = addTotals({ tokens: 0, rollouts: 0, tasks: 0 }, groups)
  const output = sum(groups.flat().map(sampledTokens))
  return {
    'progress/tokens': now.tokens,
    'progress/output_tokens': output,
    'progress/input_tokens': now.tokens - output,
    'progress/rollouts': now.rollouts,
    'progress/tasks': now.tasks,
    'progress/total_tokens': before.tokens + now.tokens,
    'progress/total_rollouts': before.rollouts + now.rollouts,
    'progress/total_tasks': before.tasks + now.tasks,
  }
}

// ── Small sums ───────────────────────────────────────────────────────────────────────────────────────────────────

/** pass@k = 1 − C(n−c, k)/C(n, k) for c successes among n tries (Chen et al. 2021); empty when there are fewer than k. */
function passAt(k: number, group: Group): number[] {
  const rewards = scoredRewards(group)
  const failures = rewards.filter((reward) => reward < 1).length
  if (rewards.length < k) return []
  let allFail = 1
  for (let i = 0; i < k; i++) allFail *= Math.max(0, failures - i) / (rewards.length - i)
  return [1 - allFail]
}

function byEnvironment(groups: Group[]): Map<string, Group[]> {
  const members = new Map<string, Group[]>()
  for (const group of groups) {
    const environment = group[0]?.environment
    if (environment) members.set(environment, [...(members.get(environment) ?? []), group])
  }
  return members
}

/** The value below which a share of the sorted values lies, between neighbours by straight line. */
function percentile(values: number[], at: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  const place = at * (sorted.length - 1)
  const below = Math.floor(place)
  return sorted[below] + (place - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below])
}

function share<T>(items: readonly T[], holds: (item: T) => boolean): number {
  return items.filter(holds).length / items.length
}

function sum(values: ArrayLike<number>): number {
  let total = 0
  for (let i = 0; i < values.length; i++) total += values[i]
  return total
}

function prefixed(prefix: string, metrics: Metrics, only = Object.keys(metrics)): Metrics {
  return Object.fromEntries(only.filter((key) => key in metrics).map((key) => [prefix + key, metrics[key]]))
}

function finite(metrics: Metrics): Metrics {
  return Object.fromEntries(Object.entries(metrics).filter(([, value]) => Number.isFinite(value)))
}
