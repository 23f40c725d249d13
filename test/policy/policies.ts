// What the tests of policies share: a perturbed adapter, prompts, rows. Runs in a page too.

import type { LoraOptions } from '../../workers/policy/adapter.ts'
import type { Decoder } from '../../workers/policy/compiled/whole.ts'
import type { Model } from '../../workers/policy/load.ts'
import type { Completion, Policy, Row, SamplingOptions } from '../../workers/policy/policy.ts'
import { RandomStream } from '../../workers/random.ts'

const ALL_TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']
export const LORA: LoraOptions = { r: 4, alpha: 8, targetModules: ALL_TARGETS }

/** Small workgroups, for processors that play a GPU. */
export const WHOLE: Decoder = { kind: 'whole', rows: 1, threads: 64, lanes: 1, pipelined: false }

/** Moves the trainable numbers away from where they begin: a fresh adapter is a zero that hides mistakes. */
export async function perturb(policy: Policy, deviation = 0.1): Promise<void> {
  const random = new RandomStream(17)
  const state = await policy.state()
  await policy.restore({ ...state, trainable: state.trainable.map((value) => value + deviation * random.normal()) })
}

export function samplingOptions(model: Model, changes: Partial<SamplingOptions> = {}): SamplingOptions {
  return {
    temperature: 1,
    topP: 1,
    topK: -1,
    minP: 0,
    repetitionPenalty: 1,
    stopTokens: model.stopTokens,
    stopStrings: [],
    decode: model.tokenizer.decode,
    maxLength: model.card.maxLength,
    adapter: 'live',
    ...changes,
  }
}

export function prompt(model: Model, content: string): Int32Array {
  return Int32Array.from(model.template.renderPrompt([{ role: 'user', content }]))
}

/** A prompt and what was sampled after it, with every sampled token a target. */
export function rowOf(asked: Int32Array, { ids }: Completion, temperature: number): Row {
  return {
    ids: Int32Array.from([...asked, ...ids]),
    targets: Int32Array.from(ids, (_, i) => asked.length + i),
    temperature,
  }
}

/** Rows of random tokens and odd lengths, targets from the middle on. */
export function randomRows(count: number, vocabulary: number, seed = 3): Row[] {
  const random = new RandomStream(seed)
  return Array.from({ length: count }, () => {
    const length = 5 + random.integer(36)
    const first = 1 + random.integer(length - 1)
    return {
      ids: Int32Array.from({ length }, () => random.integer(vocabulary)),
      targets: Int32Array.from({ length: length - first }, (_, i) => first + i),
      temperature: 0.7 + random.next(),
    }
  })
}

export function flatTargets(rows: Row[]): number {
  return rows.reduce((sum, { targets }) => sum + targets.length, 0)
}
