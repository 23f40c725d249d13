// Rules of Hosted Training's client.

import { at, broken, HOSTED, has, number, type Rule } from './rule.ts'

export const HOSTED_RULES: Rule[] = [
  {
    id: 'hosted-inflight-or-factor',
    targets: HOSTED,
    source: 'prime_cli/commands/rl.py: RLConfig.validate_config_consistency',
    example: { model: 'm', max_inflight_rollouts: 256, oversampling_factor: 2 },
    check: (table) =>
      has(table, 'max_inflight_rollouts') && has(table, 'oversampling_factor')
        ? broken('oversampling_factor', 'Only one of max_inflight_rollouts and oversampling_factor may be given.')
        : null,
  },
  {
    id: 'hosted-inflight-holds-a-group',
    targets: HOSTED,
    source: 'prime_cli/commands/rl.py: RLConfig.validate_config_consistency',
    example: { model: 'm', max_inflight_rollouts: 4, rollouts_per_example: 8 },
    check: (table) =>
      number(table, 'max_inflight_rollouts', Number.POSITIVE_INFINITY) < number(table, 'rollouts_per_example', 8)
        ? broken('max_inflight_rollouts', 'max_inflight_rollouts must let a whole group be in flight.')
        : null,
  },
  {
    id: 'hosted-teacher',
    targets: HOSTED,
    source: 'prime_cli/commands/rl.py: RLConfig.validate_config_consistency',
    example: { model: 'm', teacher: { model: 't' } },
    check(table) {
      const loss = at(table, 'loss') ?? 'rl'
      if (loss === 'opd') return broken('loss', 'loss = "opd" is not taken by the platform yet.')
      if (loss === 'rl' && has(table, 'teacher')) return broken('teacher', 'A teacher needs loss = "sft".')
      return loss === 'sft' && !has(table, 'teacher') ? broken('loss', 'loss = "sft" needs a [teacher].') : null
    },
  },
  {
    id: 'hosted-reasoning',
    targets: HOSTED,
    source: 'prime_cli/commands/rl.py: SamplingConfig._reasoning_controls_mutually_exclusive',
    example: { model: 'm', sampling: { enable_thinking: true, reasoning_effort: 'low' } },
    check: (table) =>
      has(table, 'sampling.enable_thinking') && has(table, 'sampling.reasoning_effort')
        ? broken('sampling.reasoning_effort', 'enable_thinking and reasoning_effort exclude each other.')
        : null,
  },
]
