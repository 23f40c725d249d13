import type { SamplingOptions } from '../../workers/policy/policy.ts'

/** The whole distribution as it is, and nothing that ends an answer early. */
export const PLAIN_SAMPLING = {
  temperature: 1,
  topP: 1,
  topK: -1,
  minP: 0,
  repetitionPenalty: 1,
  stopTokens: [],
  stopStrings: [],
  adapter: 'live',
} satisfies Partial<SamplingOptions>
