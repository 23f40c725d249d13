// Knobs of how the policy learns from its rollouts: optimizer, schedule, advantages, loss, pull to the reference.

import { z } from 'zod'
import { knob } from '../knob.ts'

const group = 'Learning' as const
const atLeast0 = (value: number) => z.number().min(0).default(value)
const steps = (value: number) => z.number().int().min(0).default(value)

export const learningRate = knob(atLeast0(1e-4), {
  label: 'Learning rate',
  help: 'Size of an update. The documents use 1e-5 to 1e-4 for adapters and 1e-6 to 1e-5 for all weights of billion-parameter models; a policy of a few million wants about 1e-3. Lower it when rewards swing.',
  group,
})

export const maxSteps = knob(z.number().int().min(1).default(100), {
  label: 'Steps',
  help: 'Updates in the whole run, an absolute target on resume. The documents train 100 to 1,000; begin with few and look at samples early.',
  group,
  unit: 'steps',
})

export const microBatchSize = knob(z.number().int().min(1).default(8), {
  label: 'Rollouts per pass',
  help: 'Rollouts that go through the network at once while learning. It changes memory and speed, never the update.',
  group,
  unit: 'rollouts',
})

export const maxGradNorm = knob(atLeast0(1).nullable().default(1), {
  label: 'Gradient clip',
  help: 'Longest gradient, as L2 norm over all trained numbers; a longer one is shortened to it. Empty: no clipping. Much smaller values are a way to steady a run.',
  group,
})

export const numIterations = knob(z.number().int().min(1).default(1), {
  label: 'Updates per batch',
  help: 'How often a batch is learned from. 1 stays on policy, which the documents advise.',
  group,
  unit: 'updates',
})

export const optimizer = z
  .strictObject({
    type: knob(z.enum(['adamw', 'muon', 'sgd']).default('adamw'), {
      label: 'Optimizer',
      help: 'AdamW is the default everywhere. Muon is for matrices, SGD for comparison.',
      group,
      notYet: ['muon'],
    }),
    beta1: knob(z.number().min(0).lt(1).default(0.9), {
      label: 'Beta 1',
      help: 'Decay of the mean of gradients.',
      group,
    }),
    beta2: knob(z.number().min(0).lt(1).default(0.999), {
      label: 'Beta 2',
      help: 'Decay of the mean of squared gradients. Short runs want it lower: 0.95 in the recipes.',
      group,
    }),
    epsilon: knob(z.number().positive().default(1e-8), {
      label: 'Epsilon',
      help: 'Added to the root of the squared mean.',
      group,
    }),
    weight_decay: knob(atLeast0(0.01), {
      label: 'Weight decay',
      help: 'Pulls trained numbers to zero by learning rate × this, each step.',
      group,
    }),
    momentum: knob(z.number().min(0).lt(1).nullable().default(null), {
      label: 'Momentum',
      help: 'Of SGD and Muon at full size. Empty: 0.9 and 0.95 there.',
      group,
      used: 'not yet',
      instead: 'SGD here goes straight down the gradient',
    }),
    nesterov: knob(z.boolean().default(true), {
      label: 'Nesterov momentum',
      help: 'Whether SGD looks ahead along its momentum.',
      group,
      used: 'not yet',
      instead: 'SGD here goes straight down the gradient',
    }),
  })
  .prefault({})

export const scheduler = z
  .strictObject({
    type: knob(z.enum(['constant', 'linear', 'cosine']).default('constant'), {
      label: 'Schedule',
      help: 'After the warm-up: constant; linear, flat and then down in a straight line over the last decay_steps; cosine, down to the end.',
      group,
    }),
    warmup_steps: knob(steps(0), {
      label: 'Warm-up',
      help: 'Steps over which the learning rate rises to its full size. The documents call at least 10 to 20 beneficial for long runs.',
      group,
      unit: 'steps',
    }),
    decay_steps: knob(steps(0), {
      label: 'Decay',
      help: 'Last steps of a linear schedule, over which the rate falls to min_lr. Warm-up and decay together fit into the run.',
      group,
      unit: 'steps',
    }),
    min_lr: knob(atLeast0(0), {
      label: 'Lowest learning rate',
      help: 'Where decay ends.',
      group,
    }),
  })
  .prefault({})

const penalty = (label: string, value: number, what: string) =>
  knob(z.number().min(0).default(value), {
    label,
    help: `How strongly ${what} lowers a reward within its group.`,
    group,
  })

export const advantage = z
  .strictObject({
    type: knob(z.enum(['grpo', 'max_rl', 'none']).default('grpo'), {
      label: 'Advantage',
      help: 'grpo: reward − group mean. max_rl: that, divided by the mean, which favours hard prompts. none: the reward itself.',
      group,
    }),
    divide_by_deviation: knob(z.boolean().default(false), {
      label: 'Divide by deviation',
      help: "Divide by the group's standard deviation, as the first GRPO did. It over-weighs groups that nearly agree, so it is off.",
      group,
    }),
    length_weighted_mean: knob(z.boolean().default(false), {
      label: 'Length-weighted baseline',
      help: 'Weigh each reward by its completion length in the group mean.',
      group,
      used: 'not yet',
    }),
    length_penalty: knob(
      z
        .strictObject({
          output: penalty('Written tokens', 0.25, 'a long completion'),
          input: penalty('Read tokens', 0.1, 'a long input'),
          turns: penalty('Turns', 0.1, 'a long conversation'),
        })
        .nullable()
        .default(null),
      {
        label: 'Length penalty',
        help: 'Lowers the reward of rollouts that are longer than the others of their group. Empty: none.',
        group,
      },
    ),
  })
  .prefault({})

const bound = (label: string, value: number, help: string) => knob(atLeast0(value), { label, help, group })

export const loss = z
  .strictObject({
    type: knob(z.enum(['default', 'ipo', 'ratio_mask', 'ppo']).default('default'), {
      label: 'Loss',
      help: "default: prime-rl's of 2026-08, masked by the change in probability. ipo: the same, either sign. ratio_mask: prime-rl's of 2026-01. ppo: clipped ratio.",
      group,
    }),
    adv_tau: bound('Advantage weight', 1, 'Multiplies every advantage.'),
    kl_tau: bound('Drift weight', 1e-3, 'Weight of the pull to the policy that sampled, (log π − log μ)² per token.'),
    dppo_mask_low: bound(
      'Mask below',
      0.2,
      'default: a discouraged token stops learning once π − μ is below minus this.',
    ),
    dppo_mask_high: bound('Mask above', 0.2, 'default: an encouraged token stops learning once π − μ exceeds this.'),
    ipo_threshold: bound('IPO threshold', 0.1, 'ipo: a token stops learning once |π − μ| exceeds this.'),
    ratio_type: knob(z.enum(['token', 'sequence']).default('token'), {
      label: 'Ratio of',
      help: 'ratio_mask: whether π / μ is taken token by token or over the whole sequence.',
      group,
    }),
    token_mask_low: bound('Token ratio, lowest', 0.125, 'ratio_mask: tokens with a smaller π / μ are left out.'),
    token_mask_high: bound('Token ratio, highest', 8, 'ratio_mask: tokens with a larger π / μ are left out.'),
    geo_mask_low: bound(
      'Mean ratio, lowest',
      0.1,
      'ratio_mask: sequences with a smaller geometric mean ratio are left out.',
    ),
    geo_mask_high: bound(
      'Mean ratio, highest',
      10,
      'ratio_mask: sequences with a larger geometric mean ratio are left out.',
    ),
    sequence_mask_low: bound(
      'Any ratio, lowest',
      0,
      'ratio_mask: a sequence is left out when any token ratio is smaller.',
    ),
    sequence_mask_high: bound(
      'Any ratio, highest',
      100,
      'ratio_mask: a sequence is left out when any token ratio is larger.',
    ),
    sequence_clip_high: bound('Sequence ratio, clip', 10, 'ratio_mask: a sequence ratio is clipped to this.'),
    teacher_tau: knob(atLeast0(0), {
      label: 'Teacher weight',
      help: 'ratio_mask: weight of the pull to a teacher model, for distillation.',
      group,
      used: 'not yet',
    }),
    clip_low: bound('Clip below', 0.2, 'ppo: the ratio counts down to 1 − this.'),
    clip_high: bound('Clip above', 0.2, 'ppo: the ratio counts up to 1 + this.'),
    entropy_coefficient: knob(z.number().default(0), {
      label: 'Entropy bonus',
      help: 'Rewards uncertainty, against collapse onto one answer. 0 is off; the documents raise it when entropy falls to zero.',
      group,
    }),
  })
  .prefault({})

export const klPenalty = z
  .strictObject({
    enabled: knob(z.boolean().default(false), {
      label: 'Pull to the reference',
      help: 'Penalise distance from the policy without its adapters, beta · KL(π, reference) per token. The documents switch it on for unstable runs.',
      group,
    }),
    beta: knob(atLeast0(0.1), {
      label: 'Beta',
      help: 'Strength of the pull. 0 lets the policy go, 0.1 and more is conservative.',
      group,
    }),
    target_kl: knob(z.number().min(0).nullable().default(null), {
      label: 'Target KL',
      help: 'Beta is raised above this distance and lowered below it. Empty: beta stays.',
      group,
      unit: 'nats per token',
    }),
    reference_update_steps: knob(z.number().int().min(1).nullable().default(null), {
      label: 'Renew the reference',
      help: 'Steps after which the reference becomes the present policy; the documents suggest it beyond 500 steps. Empty: never.',
      group,
      unit: 'steps',
      used: 'not yet',
    }),
  })
  .prefault({})
