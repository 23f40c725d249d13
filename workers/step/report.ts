// What a step tells the world: samples with their tokens, and metrics. Drawn from what the step left behind; changes
// nothing.

import type { GroupRecord, Metrics, RolloutRecord, TokenRecord } from '../protocol.ts'
import type { Rollout } from '../rl/rollouts.ts'
import { stepMetrics } from '../rl/stepMetrics.ts'
import type { Answer, Question } from './answer.ts'
import type { Progress, Script } from './run.ts'
import { type Group, rowKey, type StepWork } from './verbs.ts'

/** Samples carry tokens up to this many per event; groups beyond it keep their text, rewards and numbers. */
export const MOST_SAMPLE_TOKENS = 65_536

export function stepReport(
  work: StepWork,
  after: Progress,
  gpu: { peakBytes: number; seconds?: number | null },
): Metrics {
  return stepMetrics({
    groups: work.groups.map(({ rollouts }) => rollouts),
    advantages: work.groups.map(({ advantages }) => advantages),
    batch: work.batch,
    rejections: work.groups.map(({ rejection }) => rejection),
    version: work.version,
    loss: work.loss ?? undefined,
    update: {
      learningRate: work.learningRate,
      gradientNorm: work.gradientNorm ?? undefined,
      skipped: after.skipped,
      beta: work.progress.beta === 0 ? undefined : work.progress.beta,
    },
    seconds: work.seconds,
    // `progress` holds the counts before this step; `after` those with it.
    totals: work.progress.totals,
    peakBytes: gpu.peakBytes,
    gpuSeconds: gpu.seconds,
  })
}

export function stepSamples(script: Script, work: StepWork): GroupRecord[] {
  let tokens = 0
  return work.groups.map((group, g): GroupRecord => {
    tokens += group.rollouts.reduce((sum, { ids }) => sum + ids.length, 0)
    const withTokens = tokens <= MOST_SAMPLE_TOKENS
    return {
      ...questionRecord(group.question),
      rollouts: group.question.answers.map((answer, i) => {
        const rollout = group.rollouts[i]
        return {
          ...rolloutRecord(answer, group.advantages[i]),
          tokens: withTokens ? tokenRecord(script, rollout, answer.promptTokens, learned(work, g, i)) : null,
        }
      }),
      reason: whyLeftOut(work, group, g),
    }
  })
}

export function evaluationSamples(script: Script, questions: Question[]): GroupRecord[] {
  let tokens = 0
  return questions.map((question): GroupRecord => {
    tokens += question.answers.reduce((sum, answer) => sum + answer.length, 0)
    const withTokens = tokens <= MOST_SAMPLE_TOKENS
    return {
      ...questionRecord(question),
      rollouts: question.answers.map((answer) => ({
        ...rolloutRecord(answer, null),
        tokens: withTokens ? tokenRecord(script, answer.toRollout(), answer.promptTokens, null) : null,
      })),
      reason: null,
    }
  })
}

function questionRecord({ number, task, answers }: Question): Omit<GroupRecord, 'rollouts' | 'reason'> {
  return {
    task: number,
    exampleId: task.exampleId,
    environment: task.environment,
    prompt: answers[0].prompt,
    answer: task.answer,
  }
}

function rolloutRecord(answer: Answer, advantage: number | null): Omit<RolloutRecord, 'tokens'> {
  return {
    attempt: answer.attempt,
    messages: answer.messages,
    reward: answer.reward,
    advantage,
    metrics: answer.metrics,
    stop: answer.stop ?? '',
    error: answer.error,
    truncated: answer.truncated,
    promptTokens: answer.promptTokens,
  }
}

function whyLeftOut(work: StepWork, group: Group, g: number): string | null {
  return group.rejection ?? work.batch.reasons[g] ?? null
}

function learned(work: StepWork, group: number, rollout: number) {
  return work.tokens.get(rowKey(group, rollout)) ?? null
}

type Learned = ReturnType<typeof learned>

function tokenRecord(script: Script, rollout: Rollout, promptTokens: number, row: Learned): TokenRecord {
  const after = <T extends { subarray(start: number): T }>(values: T) => values.subarray(promptTokens)
  const sampled = after(rollout.sampled)
  // The batch has numbers for sampled tokens only; what the environment wrote gets 0.
  const spread = (values: Float32Array | undefined): number[] | null => {
    if (!values) return null
    let next = 0
    return Array.from(sampled, (flag) => (flag ? short(values[next++]) : 0))
  }
  return {
    text: script.tokens(after(rollout.ids)),
    sampled: Array.from(sampled),
    logMu: Array.from(after(rollout.logMu), short),
    entropy: Array.from(after(rollout.entropy), short),
    logp: spread(row?.logp),
    logpAfter: spread(row?.logpAfter),
    slope: spread(row?.slope),
  }
}

/** Powers of ten that a float64 holds exactly. */
const POWERS = Array.from({ length: 23 }, (_, exponent) => Number(`1e${exponent}`))

/** Six significant digits: what f32 holds, without the digits that only spell out its rounding. */
export function short(value: number): number {
  if (value === 0 || !Number.isFinite(value)) return value
  const power = POWERS[5 - Math.floor(Math.log10(Math.abs(value)))]
  return power === undefined ? Number(value.toPrecision(6)) : Math.round(value * power) / power
}
