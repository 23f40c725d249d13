// Many answers, one sampler: requests that follow the same rule decode together, a chunk of tokens at a time. Between
// chunks newcomers join, and those that ended or were given up leave. A token depends on its sequence and its noise alone,
// so neither the neighbours nor the chunks change it.

import { MOST_ALTERNATIVES } from '../gpu/kernels/alternatives.ts'
import type { Alternative, Completion, Policy, Sampler, TurnRequest } from '../policy/policy.ts'
import type { NoiseKey } from '../random.ts'
import type { SamplingRule } from './protocol.ts'
import type { Turns } from './turns.ts'

export interface Sequence {
  prompt: number[]
  noise: NoiseKey
  maxTokens: number
  rule: SamplingRule
  alternatives: number
  eager: boolean
  /** Takes what was sampled; false ends the sequence. */
  onTokens(tokens: NewToken[]): boolean
  onEnd(stop: Completion['stop']): void
  onError(error: Error): void
}

export interface NewToken {
  token: number
  logp: number
  alternatives: Alternative[]
}

export interface BatcherOptions {
  policy: Policy
  adapter: 'live' | 'none'
  stopTokens: number[]
  maxLength: number
  /** Sequences that decode together. */
  slots: number
  turns: Turns
}

/**
 * Tokens per sequence in a chunk, where an answer is read as it comes: in the first, then twice as many each time, up to
 * this many, and on to the most while a chunk is soon done. Each chunk begins with the cost of going on.
 */
const FIRST_CHUNK = 4
const FLOWING_CHUNK = 16
const CHUNK = 32
const SOON_MS = 400
/** Tokens of a sequence that room is made for at once; few answers come to more. */
const MOST_ROOM = 2048
/** Sequences of one sampler: it remembers each until it is disposed of. */
const PER_SAMPLER = 64

interface Member {
  sequence: Sequence
  number: number
  sampled: number
  gone: boolean
}

/** Sequences that share a sampler. */
interface Cohort {
  rule: string
  sampler: Sampler
  members: Member[]
  admitted: number
  /** Decides how soon tokens are told, never which. */
  chunk: number
}

export class Batcher {
  #options: BatcherOptions
  #cohorts: Cohort[] = []
  #working = false
  #waiting: (() => void)[] = []
  #decoding: { members: Member[]; abort: AbortController } | null = null

  constructor(options: BatcherOptions) {
    this.#options = options
  }

  /** Sequences in a batch now, and those that wait for one. */
  get load(): { running: number; waiting: number } {
    const all = this.#cohorts.reduce((sum, { members }) => sum + members.filter(({ gone }) => !gone).length, 0)
    const running = this.#decoding?.members.filter(({ gone }) => !gone).length ?? 0
    return { running, waiting: Math.max(0, all - running) }
  }

  /** Resolves when no sequence is left. */
  async idle(): Promise<void> {
    while (this.#working) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  /** The returned function gives the sequence up. */
  add(sequence: Sequence): () => void {
    const cohort = this.#cohortFor(sequence)
    const member: Member = { sequence, number: cohort.admitted++, sampled: 0, gone: false }
    cohort.members.push(member)
    void this.#work()
    return () => {
      member.gone = true
      if (this.#decoding?.members.every(({ gone }) => gone)) this.#decoding.abort.abort()
    }
  }

  #cohortFor({ rule, alternatives }: Sequence): Cohort {
    const key = JSON.stringify([rule, alternatives > 0])
    const open = this.#cohorts.find((cohort) => cohort.rule === key && cohort.admitted < PER_SAMPLER)
    if (open) return open
    const { policy, stopTokens, maxLength, adapter } = this.#options
    const sampler = policy.sampler({
      temperature: rule.temperature,
      topP: rule.topP,
      topK: rule.topK,
      minP: rule.minP,
      repetitionPenalty: rule.repetitionPenalty,
      stopTokens: rule.ignoreEnd ? [] : stopTokens,
      // Stop texts differ between requests and may lie across chunks: the text streams look for them.
      stopStrings: [],
      decode: () => '',
      maxLength,
      adapter,
      alternatives: alternatives > 0 ? MOST_ALTERNATIVES : 0,
    })
    const cohort: Cohort = { rule: key, sampler, members: [], admitted: 0, chunk: FIRST_CHUNK }
    this.#cohorts.push(cohort)
    return cohort
  }

  async #work(): Promise<void> {
    if (this.#working) return
    this.#working = true
    try {
      // A moment, so that what arrives together decodes together.
      await new Promise((resolve) => setTimeout(resolve))
      while (this.#cohorts.length > 0) {
        for (const cohort of [...this.#cohorts]) {
          await this.#options.turns.take(() => this.#decodeChunk(cohort))
          this.#leave(cohort)
        }
      }
    } finally {
      this.#working = false
      for (const resolve of this.#waiting.splice(0)) resolve()
    }
  }

  #leave(cohort: Cohort): void {
    cohort.members = cohort.members.filter(({ gone }) => !gone)
    if (cohort.members.length > 0) return
    cohort.sampler.dispose()
    this.#cohorts = this.#cohorts.filter((other) => other !== cohort)
  }

  async #decodeChunk(cohort: Cohort): Promise<void> {
    const members = cohort.members.filter(({ gone }) => !gone).slice(0, this.#options.slots)
    if (members.length === 0) return
    // Those beyond the slots go first the next time.
    cohort.members = [...cohort.members.filter((member) => !members.includes(member)), ...members]
    const chunk = members.some(({ sequence }) => sequence.eager) ? cohort.chunk : CHUNK
    const started = performance.now()
    const abort = new AbortController()
    this.#decoding = { members, abort }
    try {
      const completions = await cohort.sampler.complete(
        members.map((member): TurnRequest => {
          const { sequence, sampled } = member
          return {
            sequence: member.number,
            ids: Int32Array.from(sampled === 0 ? sequence.prompt : []),
            noise: sequence.noise,
            maxTokens: Math.min(chunk, sequence.maxTokens - sampled),
            room: Math.min(sequence.prompt.length + sequence.maxTokens, MOST_ROOM),
          }
        }),
        { signal: abort.signal },
      )
      if (chunk < FLOWING_CHUNK || performance.now() - started < SOON_MS) cohort.chunk = Math.min(CHUNK, chunk * 2)
      completions.forEach((completion, i) => {
        this.#take(members[i], completion)
      })
    } catch (error) {
      for (const member of members) {
        if (!member.gone) member.sequence.onError(error instanceof Error ? error : new Error(String(error)))
        member.gone = true
      }
    } finally {
      this.#decoding = null
    }
  }

  #take(member: Member, { ids, logp, alternatives, stop }: Completion): void {
    if (member.gone) return
    const { sequence } = member
    const tokens = Array.from(ids, (token, t): NewToken => {
      const named = alternatives?.[t]?.slice(0, sequence.alternatives) ?? []
      return { token, logp: logp[t], alternatives: named }
    })
    member.sampled += tokens.length
    if (!sequence.onTokens(tokens)) {
      member.gone = true
      return
    }
    const left = sequence.maxTokens - member.sampled
    if (stop === 'max_tokens' && left > 0) return
    member.gone = true
    sequence.onEnd(stop)
  }
}
