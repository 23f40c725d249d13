// What a step works with, and the little it hands on to the next one. No network, thread, file or page is known here.

import type { RunConfig } from '../../configs/schema.ts'
import type { Message, ToolDefinition } from '../../environments/messages.ts'
import type { Policy } from '../policy/policy.ts'
import type { EnvironmentDescription, EnvironmentPort } from '../protocol.ts'
import { emptyPools, type Pools } from '../rl/pools.ts'
import type { Totals } from '../rl/stepMetrics.ts'

export interface Run {
  config: RunConfig
  policy: Policy
  script: Script
  environment: EnvironmentPort
  environments: EnvironmentDescription[]
}

/** How messages become tokens and tokens become text again. */
export interface Script {
  /** A whole prompt, ending where the policy begins to speak. */
  renderPrompt(messages: Message[], tools: ToolDefinition[]): number[]
  /** What is appended after the policy's turn: `closed` says whether that ended with its stop token. */
  renderSuffix(messages: Message[], closed: boolean): number[]
  /** Text without special tokens. */
  decode(ids: ArrayLike<number>): string
  /** Each token's own text. */
  tokens(ids: ArrayLike<number>): string[]
  stopTokens: number[]
  /** Longest sequence that the model takes. */
  maxLength: number
}

/** All that a step hands on besides the policy; plain JSON, part of every save. */
export interface Progress {
  /** Steps done. */
  step: number
  /** Questions asked so far; the next one's number, which names its noise. */
  asked: number
  /** Next position in the training order. */
  cursor: number
  pools: Pools
  /** Strength of the pull to the reference. */
  beta: number
  /** Updates skipped because a number was not finite: in all, and since the last good one. */
  skipped: number
  skippedInARow: number
  /** Steps in a row without a row to learn from. */
  emptyInARow: number
  totals: Totals
}

export function initialProgress(config: RunConfig): Progress {
  return {
    step: 0,
    asked: 0,
    cursor: 0,
    pools: emptyPools(),
    beta: config.kl_penalty.enabled ? config.kl_penalty.beta : 0,
    skipped: 0,
    skippedInARow: 0,
    emptyInARow: 0,
    totals: { tokens: 0, rollouts: 0, tasks: 0 },
  }
}

/** Longest sequence of a run, prompt and all turns included. */
export function longestSequence({ config, script }: Run): number {
  return Math.min(config.seq_len, script.maxLength)
}

/** A number that a policy cannot learn from: NaN or infinite. The sentence names row and token. */
export class NotFinite extends Error {
  override name = 'NotFinite'
}
