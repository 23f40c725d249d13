// Samples as JSON lines, one rollout a line, with the field names of verifiers' results.jsonl, and back again. Knows
// nothing of files.

import type { Message } from '../../environments/messages.ts'
import type { GroupRecord, RolloutRecord, TokenRecord } from '../protocol.ts'
import type { SamplesEvent } from './store.ts'

interface RolloutLine {
  step: number
  /** Position of the group's task in its split's endless order. */
  task_position: number
  example_id: number
  task: string
  prompt: Message[]
  answer: string
  /** Why the group was left out of the batch; null when it was used. */
  left_out: string | null
  attempt: number
  completion: Message[]
  reward: number | null
  advantage: number | null
  metrics: Record<string, number>
  stop_condition: string
  error: string | null
  is_truncated: boolean
  prompt_tokens: number
  tokens: TokenRecord | null
}

export function toRolloutLines({ step, groups }: SamplesEvent): string {
  const lines: string[] = []
  for (const group of groups) {
    for (const rollout of group.rollouts) {
      const line: RolloutLine = {
        step,
        task_position: group.task,
        example_id: group.exampleId,
        task: group.environment,
        prompt: group.prompt,
        answer: group.answer,
        left_out: group.reason,
        attempt: rollout.attempt,
        completion: rollout.messages,
        reward: rollout.reward,
        advantage: rollout.advantage,
        metrics: rollout.metrics,
        stop_condition: rollout.stop,
        error: rollout.error,
        is_truncated: rollout.truncated,
        prompt_tokens: rollout.promptTokens,
        tokens: rollout.tokens,
      }
      lines.push(`${JSON.stringify(line)}\n`)
    }
  }
  return lines.join('')
}

export function fromRolloutLines(text: string): GroupRecord[] {
  const groups = new Map<number, GroupRecord>()
  for (const json of text.split('\n')) {
    if (json === '') continue
    const line = JSON.parse(json) as RolloutLine
    const rollout: RolloutRecord = {
      attempt: line.attempt,
      messages: line.completion,
      reward: line.reward,
      advantage: line.advantage,
      metrics: line.metrics,
      stop: line.stop_condition,
      error: line.error,
      truncated: line.is_truncated,
      promptTokens: line.prompt_tokens,
      tokens: line.tokens,
    }
    const group = groups.get(line.task_position)
    if (group) group.rollouts.push(rollout)
    else {
      groups.set(line.task_position, {
        task: line.task_position,
        exampleId: line.example_id,
        environment: line.task,
        prompt: line.prompt,
        answer: line.answer,
        rollouts: [rollout],
        reason: line.left_out,
      })
    }
  }
  return [...groups.values()]
}
