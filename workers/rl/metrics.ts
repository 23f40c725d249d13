// Every metric a run can report: one table of keys, units and meanings, from which charts, docs and diagnosis read.
// Keys are prime-rl's wherever it has a short one; the names of the older documents and trainers are aliases.
// <…> in a key stands for any name. docs/metrics.md is this table.

export interface Metric {
  key: string
  label: string
  unit: Unit
  meaning: string
  /** Its name in prime-rl (2026-08 unless said otherwise), null where that has none. */
  primeRl: string | null
  /** Its names in the older documents and trainers. */
  aliases: string[]
  family: Family
}

/** '' is a pure number; a share lies between 0 and 1. */
export type Unit =
  | ''
  | 'reward'
  | 'nats'
  | 'tokens'
  | 'tokens/s'
  | 's'
  | 'share'
  | 'GiB'
  | 'rollouts'
  | 'groups'
  | 'updates'

export type Family = keyof typeof TABLE

type Row = [key: string, label: string, unit: Unit, meaning: string, primeRl: string | null, ...aliases: string[]]

// biome-ignore format: a table, one metric after the other
const TABLE = {
  // Over every scored rollout of the step.
  reward: [
    ['reward/mean', 'Reward', 'reward', 'Mean reward.',
      'train/agg/all/<agent>/reward/mean', 'train/reward', 'reward', 'reward/all/mean'],
    ['reward/std', 'Reward deviation', 'reward', 'Deviation of the reward over all rollouts.', null, 'reward/all/std'],
    ['reward/min', 'Least reward', 'reward', 'Least reward.', 'train/agg/all/<agent>/reward/min'],
    ['reward/max', 'Greatest reward', 'reward', 'Greatest reward.', 'train/agg/all/<agent>/reward/max'],
    ['reward/group_std', 'Spread within groups', 'reward',
      'Mean over groups of the deviation within the group: what advantages are made of.', null],
    ['reward/<env>/mean', 'Reward', 'reward', 'Mean reward in one environment, where there are several.',
      'train/<env>/all/<agent>/reward/mean'],
    ['metrics/<name>/mean', 'Rubric', '', 'Mean of one of the rubric’s numbers, weighted or not.',
      'train/agg/all/<agent>/metrics/<name>/mean', 'reward/<name>'],
    ['advantage/absmean', 'Size of advantages', 'reward', 'Mean |A| over scored rollouts.', null],
  ],
  group: [
    ['solved_all', 'All solved', 'share', 'Groups in which every answer scored 1 or more.',
      'train/agg/all/solved_all', 'solve_all'],
    ['solved_none', 'None solved', 'share', 'Groups in which every answer scored 0 or less.',
      'train/agg/all/solved_none', 'solve_none'],
    ['solved_some', 'Some solved', 'share', 'Groups neither solved by all answers nor failed by all.', 'train/agg/all/solved_some'],
    ['group/alike', 'Groups without spread', 'share', 'Groups whose answers all scored the same: nothing to compare.', null],
    ['group/distinct', 'Distinct answers', 'share',
      'Different answers per rollout of a group, averaged over groups; 1/G when all are identical.', null],
  ],
  // Over every rollout of the step, errored ones included.
  rollout: [
    ['num_output_tokens/mean', 'Completion length', 'tokens', 'Tokens the policy sampled in a rollout, over all turns.',
      'train/agg/all/num_output_tokens/mean', 'rollout/mean_length', 'tokens/completion', 'completion_len/all/mean'],
    ['num_output_tokens/min', 'Shortest completion', 'tokens', 'Tokens of the shortest completion.', 'train/agg/all/num_output_tokens/min'],
    ['num_output_tokens/max', 'Longest completion', 'tokens', 'Tokens of the longest completion.', 'train/agg/all/num_output_tokens/max'],
    ['num_output_tokens/p10', 'Completion length, 10 %', 'tokens', 'A tenth of the completions are no longer.',
      'train/agg/all/num_output_tokens/p10'],
    ['num_output_tokens/p90', 'Completion length, 90 %', 'tokens', 'Nine tenths of the completions are no longer.',
      'train/agg/all/num_output_tokens/p90'],
    ['num_input_tokens/mean', 'Prompt length', 'tokens',
      'Tokens of a rollout that the policy did not sample: prompt and environment.',
      'train/agg/all/num_input_tokens/mean', 'prompt_len/all/mean'],
    ['num_total_tokens/mean', 'Rollout length', 'tokens', 'All tokens of a rollout.',
      'train/agg/all/num_total_tokens/mean', 'seq_len/all/mean'],
    ['num_turns/mean', 'Turns', '', 'Messages the policy wrote in a rollout.', 'train/agg/all/num_turns/mean'],
    ['num_turns/max', 'Most turns', '', 'Most messages the policy wrote in a rollout.', 'train/agg/all/num_turns/max'],
    ['is_truncated/mean', 'Truncated', 'share', 'Rollouts that a limit on tokens or turns ended.',
      'train/agg/all/is_truncated/mean', 'is_truncated/all/mean'],
    ['has_error/mean', 'Errored', 'share', 'Rollouts that errored: shown, counted, left out of the baseline.',
      'train/agg/all/has_error/mean', 'error/mean'],
    ['stop_condition/<name>', 'Stopped by', 'share', 'Rollouts that this condition ended.',
      'train/agg/all/stop_condition/<name>'],
    ['sampling_entropy/mean', 'Entropy when sampling', 'nats',
      'Mean entropy of the distributions that tokens were drawn from, over every sampled token.', null],
    ['off_policy/mean', 'Staleness', 'updates', 'Updates made since a token was sampled, averaged.', 'off_policy/mean'],
    ['off_policy/max', 'Greatest staleness', 'updates', 'Most updates made since a token was sampled.', 'off_policy/max'],
  ],
  batch: [
    ['batch/rollouts', 'Rollouts learned from', 'rollouts', 'Rows of the batch, after filters and ties.', null,
      'effective_batch_size/all'],
    ['batch/effective', 'Effective batch', 'share', 'Rows of the batch per rollout of the step.', null],
    ['batch/loss_tokens', 'Loss tokens', 'tokens', 'N: sampled tokens in the batch, the denominator of the loss.', null],
    ['batch/rejected_groups', 'Rejected groups', 'groups', 'Groups of which nothing is in the batch.', null],
    ['batch/admission_rate', 'Admitted', 'share', 'Groups that the filters let pass, ties not counted.',
      'curriculum/<env>/admission_rate'],
    ['batch/<env>', 'Share of the batch', 'share', 'Share of the batch’s rows that one environment has.', 'batch/<env>'],
  ],
  // Over the batch’s target tokens, before the update.
  loss: [
    ['loss/mean', 'Loss', '',
      'The step’s loss. Its slope is what matters: near the sampling policy its value says little.',
      'loss/mean', 'train/loss', 'loss'],
    ['entropy/all/mean', 'Entropy', 'nats', 'Mean entropy of π.',
      'entropy/all/mean', 'policy/entropy', 'entropy', 'entropy/mean'],
    ['mismatch_kl/all/mean', 'Drift from sampling', 'nats',
      'Mean of r − d − 1: how far π is from the policy that sampled.',
      'mismatch_kl/all/mean', 'policy/kl', 'mismatch_kl', 'mismatch_kl/mean'],
    ['mismatch_kl/all/max', 'Greatest drift of a token', 'nats', 'Largest r − d − 1 of the step.', 'mismatch_kl/all/max'],
    ['masked_mismatch_kl/mean', 'Drift of masked tokens', 'nats', 'Mean of r − d − 1 over masked tokens.', 'masked_mismatch_kl/mean'],
    ['unmasked_mismatch_kl/mean', 'Drift of kept tokens', 'nats', 'Mean of r − d − 1 over kept tokens.', 'unmasked_mismatch_kl/mean'],
    ['kl_ent_ratio/mean', 'Drift per entropy', '', 'Drift from sampling divided by entropy.', 'kl_ent_ratio/mean'],
    ['importance_ratio/mean', 'Ratio', '', 'Mean of r = π/μ; 1 when the policy that learns is the one that sampled.',
      null, 'importance_ratio'],
    ['importance_ratio/std', 'Ratio deviation', '', 'Deviation of r.', null],
    ['importance_ratio/min', 'Least ratio', '', 'Least r.', null],
    ['importance_ratio/max', 'Greatest ratio', '', 'Greatest r.', null],
    ['is_masked/mean', 'Masked', 'share', 'Tokens that the loss’s mask or clip leaves out of the policy gradient.',
      'is_masked/mean', 'tokens/masked_fraction'],
    ['is_masked_low/mean', 'Masked, fallen', 'share', 'Tokens masked because their probability had fallen far enough.',
      'is_masked_low/mean'],
    ['is_masked_high/mean', 'Masked, risen', 'share', 'Tokens masked because their probability had risen far enough.',
      'is_masked_high/mean'],
    ['masked_advantage_positive/mean', 'Masked, encouraged', 'share', 'Masked tokens with a positive advantage.',
      'masked_advantage_positive/mean'],
    ['masked_advantage_negative/mean', 'Masked, discouraged', 'share', 'Masked tokens with a negative advantage.',
      'masked_advantage_negative/mean'],
    ['geo_seq_ratio/mean', 'Ratio of a row', '', 'Mean over rows of the geometric mean of r.', 'geo_seq_ratio/mean (2026-01)'],
    ['geo_masked_low/mean', 'Rows masked, fallen', 'share', 'Rows whose geometric mean of r is below geo_mask_low.',
      'geo_masked_low/mean (2026-01)'],
    ['geo_masked_high/mean', 'Rows masked, risen', 'share', 'Rows whose geometric mean of r is above geo_mask_high.',
      'geo_masked_high/mean (2026-01)'],
    ['sequence_masked_low/mean', 'Rows masked by their least ratio', 'share', 'Rows with an r below sequence_mask_low.',
      'sequence_masked_low/mean (2026-01)'],
    ['sequence_masked_high/mean', 'Rows masked by their greatest ratio', 'share', 'Rows with an r above sequence_mask_high.',
      'sequence_masked_high/mean (2026-01)'],
    ['ref_kl/mean', 'Distance to the reference', 'nats',
      'Mean k3 to the reference, the model without its adapters; measured when kl_penalty is on.',
      null, 'train/kl_divergence'],
    ['kl_penalty/beta', 'β', '', 'Strength of the pull to the reference.', null],
  ],
  optim: [
    ['optim/lr', 'Learning rate', '', 'Learning rate of the update.', 'optim/lr', 'train/learning_rate', 'learning_rate'],
    ['optim/grad_norm', 'Gradient norm', '', 'L2 norm of the whole gradient, before clipping.', 'optim/grad_norm', 'grad_norm'],
    ['optim/skipped', 'Skipped updates', 'updates', 'Updates skipped so far because a number was not finite.', null],
  ],
  perf: [
    ['perf/throughput', 'Throughput', 'tokens/s', 'Tokens of the step’s rollouts per second of the whole step.',
      'perf/throughput'],
    ['perf/sampling_throughput', 'Sampling', 'tokens/s', 'Sampled tokens per second of the answer phase.',
      'inference/agg/generation_tokens_total:rate/mean', 'perf/inference/throughput'],
    ['perf/gpu_busy', 'GPU busy', 'share', 'Time of the step in which the GPU computed, by its own timestamps.', null],
    ['perf/peak_memory', 'Peak memory', 'GiB', 'Most GPU memory held at once so far.', 'perf/peak_memory'],
  ],
  time: [
    ['time/step', 'Step', 's', 'The whole step.', 'time/step'],
    ['time/ask', 'Ask', 's', 'Drawing tasks and setting up rollouts.', null],
    ['time/answer', 'Answer', 's', 'Sampling the answers, and what the environment says in between.',
      null, 'rollout/generation_time', 'wall_clock/generate_s'],
    ['time/judge', 'Judge', 's', 'Scoring the answers.', 'train/agg/all/<agent>/timing/scoring/mean'],
    ['time/learn', 'Learn', 's', 'Scoring the batch, backward and update.', 'time/forward_backward'],
  ],
  progress: [
    ['progress/tokens', 'Tokens', 'tokens', 'Tokens of the step’s rollouts.', 'progress/tokens'],
    ['progress/input_tokens', 'Input tokens', 'tokens', 'Tokens of the step that the policy did not sample.', 'progress/input_tokens'],
    ['progress/output_tokens', 'Output tokens', 'tokens', 'Tokens of the step that the policy sampled.', 'progress/output_tokens'],
    ['progress/rollouts', 'Rollouts', 'rollouts', 'Rollouts of the step.', 'progress/rollouts'],
    ['progress/tasks', 'Tasks', 'groups', 'Groups of the step.', 'progress/tasks'],
    ['progress/total_tokens', 'Tokens so far', 'tokens', 'Tokens of all rollouts of the run.', 'progress/total_tokens'],
    ['progress/total_rollouts', 'Rollouts so far', 'rollouts', 'Rollouts of the run.', 'progress/total_rollouts'],
    ['progress/total_tasks', 'Tasks so far', 'groups', 'Groups of the run.', 'progress/total_tasks'],
  ],
  // Over held-out tasks, the same ones each time.
  eval: [
    ['eval/reward/mean', 'Held-out reward', 'reward', 'Mean reward over the held-out rollouts that were scored.',
      null, 'eval/reward'],
    ['eval/reward/std', 'Held-out reward deviation', 'reward', 'Deviation of the reward over held-out rollouts.', null],
    ['eval/<env>/avg@<k>', 'Held-out reward', 'reward', 'Mean reward in one environment, k rollouts of each example.',
      'eval/<env>/all/<agent>/avg@<k>'],
    ['eval/<env>/pass@<k>', 'Solved in k tries', 'share',
      'Chance that at least one of k answers scores 1; only where every reward is 0 or 1.',
      'eval/<env>/all/<agent>/pass@<k>'],
    ['eval/solved', 'Held-out solved', 'share', 'Held-out rollouts that scored 1 or more.', null],
    ['eval/metrics/<name>/mean', 'Held-out rubric', '', 'Mean of one of the rubric’s numbers over held-out rollouts.',
      'eval/<env>/all/<agent>/metrics/<name>/mean'],
    ['eval/num_output_tokens/mean', 'Held-out completion length', 'tokens',
      'Tokens the policy sampled in a held-out rollout.', 'eval/<env>/all/num_output_tokens/mean'],
    ['eval/is_truncated/mean', 'Held-out truncated', 'share', 'Held-out rollouts that a limit ended.',
      'eval/<env>/all/is_truncated/mean'],
    ['eval/has_error/mean', 'Held-out errored', 'share', 'Held-out rollouts that errored.', 'eval/<env>/all/has_error/mean'],
    ['eval/entropy/mean', 'Held-out entropy', 'nats', 'Mean entropy when sampling held-out answers.', null],
  ],
} as const satisfies Record<string, Row[]>

export const METRICS: readonly Metric[] = (Object.entries(TABLE) as [Family, readonly Row[]][]).flatMap(
  ([family, rows]) =>
    rows.map(([key, label, unit, meaning, primeRl, ...aliases]) => ({
      key,
      label,
      unit,
      meaning,
      primeRl,
      aliases,
      family,
    })),
)

/** The row of a key, of its name in prime-rl or of an older name; undefined when nobody knows it. */
export function metricOf(name: string): Metric | undefined {
  return (
    METRICS.find((metric) => metric.key === name) ??
    METRICS.find((metric) => metric.primeRl === name || metric.aliases.includes(name)) ??
    METRICS.find(({ key, primeRl, aliases }) => [key, primeRl ?? '', ...aliases].some((one) => matches(one, name)))
  )
}

function matches(pattern: string, name: string): boolean {
  if (!pattern.includes('<')) return false
  const escaped = pattern.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  return new RegExp(`^${escaped.replace(/<[^>]+>/g, '[^/]+')}$`).test(name)
}
