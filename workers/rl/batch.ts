// From groups to rows that a policy can score: which tokens are targets, which advantage each carries, and how many
// there are in the whole step. Knows no padding and no packing; those are the policy's secret.

import type { Group, Rollout } from './rollouts.ts'

/** One rollout as the policy sees it, with what the loss needs for each of its K target tokens. */
export interface BatchRow {
  /** [T] prompt and everything after, cut to `seq_len`. */
  ids: Int32Array
  /** [K] indices of the sampled tokens; token t is predicted from tokens 0 … t−1. */
  targets: Int32Array
  temperature: number
  /** [K] */
  advantages: Float32Array
  /** [K] */
  logMu: Float32Array
  /** Where the row came from: `groups[group][rollout]`. */
  group: number
  rollout: number
}

export interface Batch {
  rows: BatchRow[]
  /** Target tokens of all rows: the denominator of every pass, counted before any split. */
  lossTokens: number
  /** Rows of the whole step: the denominator of sequence-level losses. */
  lossRows: number
  /** Per group: why none of it is in the batch, or null. */
  reasons: (string | null)[]
}

/** Some rows of a batch, their target tokens laid end to end as the policy's log-probabilities are. */
export interface MicroBatch {
  rows: BatchRow[]
  /** [R+1] row r owns the tokens offsets[r] … offsets[r+1]−1. */
  offsets: Int32Array
  /** [tokens] */
  advantages: Float32Array
  /** [tokens] */
  logMu: Float32Array
}

/** The part of a run's config that a batch depends on. */
export interface BatchConfig {
  seq_len: number
  filter_zero_advantages: boolean
  sampling: { temperature: number }
  loss: { entropy_coefficient: number }
  kl_penalty: { enabled: boolean }
}

/**
 * Rows with nothing to teach are left out, and their tokens are not counted: a rollout that errored, one whose sampled
 * tokens all lie past `seq_len`, and, with `filter_zero_advantages`, one that scored exactly its group's mean.
 * The latter stays when an entropy bonus or a reference penalty still has something to say about it. (The drift term
 * `kl_tau` alone does not keep it: on the policy that sampled it, that term is flat.)
 */
export function makeBatch(groups: Group[], advantages: (number | null)[][], config: BatchConfig): Batch {
  const advantageIsAll = config.loss.entropy_coefficient === 0 && !config.kl_penalty.enabled
  const dropTies = config.filter_zero_advantages && advantageIsAll
  const rows: BatchRow[] = []
  const reasons = groups.map((group, g) => {
    const before = rows.length
    group.forEach((rollout, i) => {
      const advantage = advantages[g][i]
      if (advantage === null || (dropTies && advantage === 0)) return
      const row = makeRow(rollout, advantage, config)
      if (row.targets.length > 0) rows.push({ ...row, group: g, rollout: i })
    })
    return rows.length > before ? null : whyNothing(group, advantages[g])
  })
  const lossTokens = rows.reduce((sum, row) => sum + row.targets.length, 0)
  return { rows, lossTokens, lossRows: rows.length, reasons }
}

function makeRow(rollout: Rollout, advantage: number, config: BatchConfig) {
  if (rollout.sampled[0])
    throw new Error(
      `Batching task ${rollout.task}, attempt ${rollout.attempt}: token 0 is marked as sampled, but nothing comes ` +
        'before it to sample it from. Expected a prompt of at least one token.',
    )
  const ids = rollout.ids.slice(0, config.seq_len)
  const targets = new Int32Array(ids.length)
  let count = 0
  for (let t = 0; t < ids.length; t++) if (rollout.sampled[t] === 1) targets[count++] = t
  const logMu = new Float32Array(count)
  for (let i = 0; i < count; i++) logMu[i] = rollout.logMu[targets[i]]
  return {
    ids,
    targets: targets.slice(0, count),
    temperature: config.sampling.temperature,
    advantages: new Float32Array(count).fill(advantage),
    logMu,
  }
}

function whyNothing(group: Group, advantages: (number | null)[]): string {
  const scored = group.filter((_, i) => advantages[i] !== null)
  if (scored.length === 0) return 'No answer has a reward: every rollout of the group errored.'
  if (advantages.every((advantage) => advantage === null || advantage === 0)) {
    const alike = scored.every((rollout) => rollout.reward === scored[0].reward)
    return alike
      ? `All answers scored ${scored[0].reward?.toFixed(3)}: there is nothing to compare.`
      : 'All advantages are zero: there is nothing to learn.'
  }
  return 'No sampled token lies within seq_len.'
}

/** How much one pass holds. */
export interface PassRoom {
  rows: number
  tokens: number
}

/**
 * Micro-batches of whole rows, at most `room.rows` of them and `room.tokens` tokens, the longest first: rows of like length share a pass, and a
 * device too small for the largest pass says so at once. The update does not depend on the split, because every pass
 * divides by the counts of the whole batch.
 */
export function split(batch: Batch, room: PassRoom): MicroBatch[] {
  const rows = [...batch.rows].sort((a, b) => b.ids.length - a.ids.length)
  const parts: BatchRow[][] = []
  let tokens = 0
  for (const row of rows) {
    const last = parts.at(-1)
    if (last && last.length < room.rows && tokens + row.ids.length <= room.tokens) {
      last.push(row)
      tokens += row.ids.length
    } else {
      parts.push([row])
      tokens = row.ids.length
    }
  }
  return parts.map(layEndToEnd)
}

function layEndToEnd(rows: BatchRow[]): MicroBatch {
  const offsets = new Int32Array(rows.length + 1)
  rows.forEach((row, r) => {
    offsets[r + 1] = offsets[r] + row.targets.length
  })
  const advantages = new Float32Array(offsets[rows.length])
  const logMu = new Float32Array(offsets[rows.length])
  rows.forEach((row, r) => {
    advantages.set(row.advantages, offsets[r])
    logMu.set(row.logMu, offsets[r])
  })
  return { rows, offsets, advantages, logMu }
}
