// The verbs of step.ts for one step of one run: each does its part, leaves what it saw for the report, and says that it
// has begun. Nothing outside changes before `update`, so until then a step can be abandoned without a trace.

import type { AdapterChoice, LogProbs, OptimizerStep, Pass } from '../policy/policy.ts'
import type { Phase } from '../protocol.ts'
import { groupAdvantages } from '../rl/advantages.ts'
import { type Batch, type MicroBatch, makeBatch, split } from '../rl/batch.ts'
import { nextBeta } from '../rl/divergence.ts'
import { rejections, tooOld } from '../rl/filter.ts'
import { firstNonFinite, lossAndSlopes } from '../rl/loss.ts'
import { type LossStats, mergeStats, noStats } from '../rl/lossStats.ts'
import { meanOf } from '../rl/moments.ts'
import { recordGroups } from '../rl/pools.ts'
import type { Rollout } from '../rl/rollouts.ts'
import { learningRate } from '../rl/schedule.ts'
import { addTotals } from '../rl/stepMetrics.ts'
import type { Question } from './answer.ts'
import { nextTasks, setUp } from './ask.ts'
import { breathe } from './breathe.ts'
import { converse } from './converse.ts'
import { forget, score } from './judge.ts'
import { NotFinite, type Progress, type Run } from './run.ts'

/** The G answers to one question, judged and compared. */
export interface Group {
  question: Question
  rollouts: Rollout[]
  /** [G], null for an answer without a reward. */
  advantages: (number | null)[]
  /** Why a filter turned it away; null when it was admitted. */
  rejection: string | null
}

/** log π per target token, and what `backward` needs. */
export interface Scored {
  logp: Float32Array
  entropy: Float32Array
  /** log π under the reference; there only when the penalty needs it. */
  logRef?: Float32Array
  pass: Pass
}

export interface Verbs {
  /** Prompts per step. */
  P: number
  /** Updates per batch. */
  rounds: number
  /** The admitted groups, where their questions were answered during the step before. */
  answered?: Group[]
  /** Begins to answer the questions of the step that follows. */
  meanwhile?(): Promise<void>
  ask(count: number): Promise<Question[]>
  answer(questions: Question[]): Promise<Question[]>
  judge(answered: Question[]): Promise<Rollout[][]>
  compare(groups: Rollout[][]): Promise<(number | null)[][]>
  admit(advantages: (number | null)[][]): Promise<Group[]>
  leaveOut(groups: Group[]): Promise<MicroBatch[]>
  logprobs(rows: MicroBatch): Promise<Scored>
  slopes(rows: MicroBatch, now: Scored): Promise<Float32Array>
  backward(now: Scored, slopes: Float32Array): Promise<void>
  update(): Promise<void>
}

/** Everything that a step saw and did. */
export interface StepWork {
  index: number
  /** Every group that was asked, those turned away included. */
  groups: Group[]
  batch: Batch
  /** What the loss saw on its way; null before the first pass. */
  loss: { loss: number; stats: LossStats } | null
  /** Per row of the batch: log π when the update was computed, after it where rescored, and the slope. */
  tokens: Map<string, { logp: Float32Array; slope: Float32Array; logpAfter?: Float32Array }>
  learningRate: number
  gradientNorm: number | null
  updates: number
  /** Of the policy that learns. */
  version: number
  seconds: Record<Phase | 'total', number>
  /** What the next step begins with. */
  progress: Progress
}

export interface StepListener {
  signal?: AbortSignal
  onVerb?(phase: Phase, verb: string): void
  /** `tokens` sampled so far; null where nothing is sampled. */
  onProgress?(phase: Phase, done: number, total: number, tokens: number | null): void
}

const PHASES = {
  ask: 'ask',
  answer: 'answer',
  judge: 'judge',
  compare: 'judge',
  admit: 'judge',
  leaveOut: 'learn',
  logprobs: 'learn',
  slopes: 'learn',
  backward: 'learn',
  update: 'learn',
} as const satisfies Record<Exclude<keyof Verbs, 'P' | 'rounds' | 'answered' | 'meanwhile'>, Phase>

export function rowKey(group: number, rollout: number): string {
  return `${group}/${rollout}`
}

/** A step from its first question to its update; the two halves may lie in the time of two steps. */
export interface OpenStep {
  verbs: Verbs
  work: StepWork
  /** It has its answers, and now its turn to learn: what the step before it concluded with, and who listens now. */
  takeUp(after: Progress, listener: StepListener): void
  /** Frees what a step that ends early has open, and forgets its gradient. */
  abandon(): Promise<void>
}

/** `answeredBy`: the adapters that answer. Those that learn are the live ones. */
export function createVerbs(
  run: Run,
  before: Progress,
  first: StepListener = {},
  answeredBy: AdapterChoice = 'live',
): OpenStep {
  const { config, policy } = run
  const P = config.batch_size / config.rollouts_per_example
  const mostQuestions = Math.floor(P * config.oversampling_factor)
  const work: StepWork = {
    index: before.step + 1,
    groups: [],
    batch: { rows: [], lossTokens: 0, lossRows: 0, reasons: [] },
    loss: null,
    tokens: new Map(),
    learningRate: learningRate(before.step, config),
    gradientNorm: null,
    updates: 0,
    version: policy.version,
    seconds: { ask: 0, answer: 0, judge: 0, learn: 0, total: 0 },
    progress: { ...before, step: before.step + 1 },
  }
  let listener = first
  let learning = false
  let open: Question[] = []
  let pass: Pass | null = null
  let answered = 0
  let passes = 0
  let passesDone = 0

  const verbs: Verbs = {
    P,
    rounds: config.num_iterations,

    async ask(count) {
      const allowed = Math.min(count, mostQuestions - work.groups.length)
      if (allowed <= 0) return []
      const next = await nextTasks(run, work.progress, allowed)
      work.progress = next.progress
      open = await setUp(run, 'train', next.tasks, config.rollouts_per_example)
      return open
    },

    async answer(questions) {
      const { temperature, top_p, top_k, min_p, max_tokens } = config.sampling
      const sampling = { temperature, topP: top_p, topK: top_k, minP: min_p, maxTokens: max_tokens }
      const total = answered + questions.length * config.rollouts_per_example
      await converse(
        run,
        questions,
        { purpose: 'train', adapter: answeredBy, ...sampling },
        {
          signal: listener.signal,
          onProgress: (done, tokens) => listener.onProgress?.('answer', answered + done, total, tokens),
        },
      )
      answered = total
      return questions
    },

    async judge(questions) {
      await score(run, questions)
      return questions.map(({ answers }) => answers.map((answer) => answer.toRollout()))
    },

    async compare(groups) {
      const advantages = groupAdvantages(groups, config.advantage)
      groups.forEach((rollouts, i) => {
        work.groups.push({ question: open[i], rollouts, advantages: advantages[i], rejection: null })
      })
      return advantages
    },

    async admit(advantages) {
      const groups = work.groups.slice(-advantages.length)
      const rollouts = groups.map((group) => group.rollouts)
      rejections(rollouts, advantages, config).forEach((reason, i) => {
        groups[i].rejection = reason
      })
      work.progress = { ...work.progress, pools: recordGroups(work.progress.pools, rollouts, config) }
      open = []
      return groups.filter((group) => group.rejection === null)
    },

    async leaveOut(groups) {
      learning = true
      for (const group of groups) group.rejection = tooOld(group.rollouts, work.version, config)
      const admitted = new Set(groups.filter(({ rejection }) => rejection === null))
      const nothing = (group: Group) => group.advantages.map(() => null)
      work.batch = makeBatch(
        work.groups.map((group) => group.rollouts),
        work.groups.map((group) => (admitted.has(group) ? group.advantages : nothing(group))),
        config,
      )
      const room =
        policy.tokensPerPass === undefined
          ? { rows: config.micro_batch_size, tokens: Number.POSITIVE_INFINITY }
          : { rows: Number.POSITIVE_INFINITY, tokens: policy.tokensPerPass }
      const parts = split(work.batch, room)
      passes = parts.length * config.num_iterations
      return parts
    },

    async logprobs(rows) {
      const logRef = work.progress.beta === 0 ? undefined : (await policy.logprobs(rows.rows, { adapter: 'none' })).logp
      const now = await policy.logprobs(rows.rows, { adapter: 'live', keep: true })
      if (!now.pass) throw new Error('internal: the policy kept nothing for backward')
      pass = now.pass
      check('log π', now.logp, rows, work)
      if (logRef) check('log π of the reference', logRef, rows, work)
      return { logp: now.logp, entropy: now.entropy, logRef, pass }
    },

    async slopes(rows, now) {
      const { loss, slopes, stats } = lossAndSlopes({ ...rows, ...now }, config.loss, work.batch, work.progress.beta)
      check('the slope ∂loss/∂log π', slopes, rows, work)
      const earlier = work.loss ?? { loss: 0, stats: noStats() }
      // Of several rounds the first is reported: it is the one whose policy answered.
      if (work.updates === 0) {
        work.loss = { loss: earlier.loss + loss, stats: mergeStats(earlier.stats, stats) }
        rows.rows.forEach(({ group, rollout }, r) => {
          const [start, end] = [rows.offsets[r], rows.offsets[r + 1]]
          work.tokens.set(rowKey(group, rollout), {
            logp: now.logp.slice(start, end),
            slope: slopes.slice(start, end),
          })
        })
      }
      return slopes
    },

    async backward(now, slopes) {
      await policy.backward(now.pass, slopes)
      pass = null
      listener.onProgress?.('learn', ++passesDone, passes, null)
    },

    async update() {
      const { gradientNorm } = await policy.update(optimizerStep(config, work.learningRate))
      if (!Number.isFinite(gradientNorm)) throw new NotFinite(`The gradient's norm is ${gradientNorm}.`)
      work.gradientNorm ??= gradientNorm
      work.updates++
    },
  }

  return {
    verbs: told(verbs, work, () => listener),
    work,
    takeUp(after, now) {
      listener = now
      const { asked, cursor, pools } = work.progress
      work.progress = { ...after, step: work.index, asked, cursor, pools }
      work.version = policy.version
    },
    async abandon() {
      pass?.dispose()
      if (learning) policy.clearGradient()
      if (open.length > 0) await forget(run, open)
    },
  }
}

/** What the next step begins with, after a step that reached its end. */
export function concluded({ config }: Run, work: StepWork): Progress {
  const { progress } = work
  const empty = work.batch.rows.length === 0
  const refKl = work.loss ? meanOf(work.loss.stats.ref_kl) : 0
  return {
    ...progress,
    beta: work.updates > 0 ? nextBeta(progress.beta, refKl, config.kl_penalty) : progress.beta,
    skippedInARow: work.updates > 0 ? 0 : progress.skippedInARow,
    emptyInARow: empty ? progress.emptyInARow + 1 : 0,
    totals: addTotals(
      progress.totals,
      work.groups.map(({ rollouts }) => rollouts),
    ),
  }
}

/** log π of some rows once more, after the update: what it changed. */
export async function rescore({ config, policy }: Run, work: StepWork): Promise<void> {
  const began = performance.now()
  const groups = [...new Set(work.batch.rows.map(({ group }) => group))].sort((a, b) => a - b)
  const chosen = new Set(groups.slice(0, config.browser.rescored_groups))
  const rows = work.batch.rows.filter(({ group }) => chosen.has(group))
  if (rows.length === 0) return
  const { logp } = await policy.logprobs(rows, { adapter: 'live' })
  let start = 0
  for (const { group, rollout, targets } of rows) {
    const tokens = work.tokens.get(rowKey(group, rollout))
    if (tokens) tokens.logpAfter = logp.slice(start, start + targets.length)
    start += targets.length
  }
  work.seconds.learn += (performance.now() - began) / 1000
}

function optimizerStep({ optimizer, max_grad_norm }: Run['config'], rate: number): OptimizerStep {
  return {
    type: optimizer.type,
    learningRate: rate,
    beta1: optimizer.beta1,
    beta2: optimizer.beta2,
    epsilon: optimizer.epsilon,
    weightDecay: optimizer.weight_decay,
    maxGradientNorm: max_grad_norm,
  }
}

function check(what: string, values: LogProbs['logp'], { rows, offsets }: MicroBatch, work: StepWork): void {
  const found = firstNonFinite(values, offsets)
  if (!found) return
  const { group, rollout, targets, ids } = rows[found.row]
  const position = targets[found.token]
  throw new NotFinite(
    `In step ${work.index}, ${what} of token ${position} (id ${ids[position]}) is ${found.value}, ` +
      `in answer ${rollout + 1} to question ${work.groups[group].question.number}.`,
  )
}

/** The same verbs; each first lets messages in, heeds a stop, says that it begins, and is timed. */
function told(verbs: Verbs, work: StepWork, listener: () => StepListener): Verbs {
  const result: Record<string, unknown> = { P: verbs.P, rounds: verbs.rounds }
  for (const [name, phase] of Object.entries(PHASES)) {
    const verb = verbs[name as keyof typeof PHASES] as (...args: unknown[]) => Promise<unknown>
    result[name] = async (...args: unknown[]) => {
      await breathe()
      const { signal, onVerb } = listener()
      // Once the policy has changed, the step goes on to its end.
      if (work.updates === 0) signal?.throwIfAborted()
      onVerb?.(phase, name)
      const begun = performance.now()
      try {
        return await verb(...args)
      } finally {
        work.seconds[phase] += (performance.now() - begun) / 1000
      }
    }
  }
  return result as unknown as Verbs
}
