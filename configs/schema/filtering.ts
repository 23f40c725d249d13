// Knobs of which groups are learned from: the three difficulty filters of the documents, and what drops single rollouts.

import { z } from 'zod'
import { knob } from '../knob.ts'

const group = 'Filtering' as const
const reward = z.number().nullable().default(null)
const used = 'not yet' as const
const fraction = z.number().min(0).max(1).default(0)

export const difficultyFilter = z
  .strictObject({
    enabled: knob(z.boolean().default(false), {
      label: 'Filter groups by reward',
      help: 'Keep a group only if its rewards vary enough and its mean lies strictly between the two bounds. Ensures that a batch has something to teach.',
      group,
    }),
    min_reward_variance: knob(z.number().min(0).default(0), {
      label: 'Least variance',
      help: "A group is left out when the variance of its rewards is smaller. The documents' examples use 0.1 and 0.3, which suit rewards of 0 or 1.",
      group,
    }),
    min_reward: knob(reward, {
      label: 'Too hard at',
      help: 'A group whose mean reward is at or below this is left out, 0.05 for example. Empty: no bound.',
      group,
    }),
    max_reward: knob(reward, {
      label: 'Too easy at',
      help: 'A group whose mean reward is at or above this is left out, 0.95 for example. Empty: no bound.',
      group,
    }),
  })
  .prefault({})

export const buffer = z
  .strictObject({
    online_difficulty_filtering: knob(z.boolean().default(false), {
      label: 'Drop all-right and all-wrong groups',
      help: 'Leaves out groups whose mean reward is exactly 0 or 1. For mostly binary rewards, best with oversampling; leave it off for continuous ones.',
      group,
    }),
    easy_threshold: knob(reward, {
      label: 'Easy from',
      help: 'An example whose group mean reaches this is not asked again. Set it only after looking at the rewards. Empty: never.',
      group,
    }),
    hard_threshold: knob(reward, {
      label: 'Hard up to',
      help: 'An example whose group mean is at or below this is not asked again; lower than easy_threshold. Empty: never.',
      group,
    }),
    easy_fraction: knob(fraction, {
      label: 'Easy examples put back',
      help: 'Share of the easy examples that are asked again after a resume.',
      group,
    }),
    hard_fraction: knob(fraction, {
      label: 'Hard examples put back',
      help: 'Share of the hard examples that are asked again after a resume.',
      group,
    }),
  })
  .prefault({})

export const curriculum = z
  .strictObject({
    sampler: knob(z.enum(['standard', 'difficulty_pool']).default('standard'), {
      label: 'Order of examples',
      help: 'standard: in turn. difficulty_pool: by the last mean reward of each example, those of middling difficulty five times as often as easy and hard ones.',
      group,
    }),
    advantage_range: knob(
      z
        .strictObject({
          reject_min: knob(z.number().default(0), {
            label: 'Reject from',
            help: 'Lower end of the range of advantages that teach nothing.',
            group,
          }),
          reject_max: knob(z.number().default(0), {
            label: 'Reject to',
            help: 'Upper end of that range.',
            group,
          }),
        })
        .nullable()
        .default(null),
      {
        label: 'Advantage gate',
        help: 'A group is left out, and another is asked in its place, when all its advantages lie in this range. Empty: no gate.',
        group,
      },
    ),
  })
  .prefault({})

export const filterZeroAdvantages = knob(z.boolean().default(true), {
  label: 'Skip zero advantages',
  help: 'Rollouts with advantage 0 are left out of the update and of its token count, without replacement.',
  group,
})

export const preBatchFilters = knob(
  z
    .array(
      z.strictObject({
        type: knob(z.enum(['zero_advantage', 'gibberish', 'repetition']), {
          label: 'Filter',
          help: 'What is looked for.',
          group,
          used,
        }),
        enforce: knob(z.boolean().default(false), {
          label: 'Enforce',
          help: 'Leave the rollout out instead of only counting it.',
          group,
          used,
        }),
        token_id_threshold: knob(z.number().int().min(0).default(100_000), {
          label: 'Rare from id',
          help: 'gibberish: token ids above this are rare.',
          group,
          used,
        }),
        logprob_offset: knob(z.number().default(2), {
          label: 'Unlikely below',
          help: 'gibberish: log-probabilities below −log(V) minus this are unlikely.',
          group,
          unit: 'nats',
          used,
        }),
        window: knob(z.number().int().min(1).default(3000), {
          label: 'Stretch',
          help: 'repetition: near-certain tokens in a row.',
          group,
          unit: 'tokens',
          used,
        }),
        prob_threshold: knob(z.number().min(0).max(1).default(0.99), {
          label: 'Near-certain from',
          help: 'repetition: the probability that counts as near-certain.',
          group,
          used,
        }),
      }),
    )
    .default([]),
  {
    label: 'Rollout filters',
    help: 'gibberish: a rare token that the policy hardly believed in. repetition: a long stretch of near-certain tokens. Without enforce they are only counted.',
    group,
    used: 'not yet',
  },
)

export const maskTruncated = knob(z.boolean().default(false), {
  label: 'Leave out cut-off completions',
  help: 'Tokens of completions that ran into max_tokens are not learned from («overlong filtering»). Whether it helps depends on the task.',
  group,
  used: 'not yet',
})

export const zeroTruncated = knob(z.boolean().default(false), {
  label: 'No reward when cut off',
  help: 'Completions that ran into max_tokens get reward 0.',
  group,
  used: 'not yet',
})
