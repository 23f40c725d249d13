// prime-rl's `rl` config of 2026-01, commit e794fbe, knob by knob.

import { PRIME_RL_2026_01 } from '../../configs/dialects/prime-rl-2026-01.ts'
import { onlyRl, WITHIN } from './shares.ts'
import { defined, evaluationRow, sourceRows } from './sources.ts'
import { lost, made, type Row, same, type Target, when } from './target.ts'
import { closing, filtersThatCount, kept, learning, modelRow, noSecrets, wholeDistribution } from './trainer.ts'

const SAMPLING = 'orchestrator.sampling'
const BUFFER = 'orchestrator.buffer'

const LATER = 'masks by the change in probability came after 2026-01; compile for prime-rl'

const MASKS: [key: string, there: number][] = [
  ['token_mask_low', 0.125],
  ['token_mask_high', 8],
  ['geo_mask_low', 0.1],
  ['geo_mask_high', 10],
  ['sequence_mask_low', 0],
  ['sequence_mask_high', 100],
  ['sequence_clip_high', 10],
  ['teacher_tau', 0],
  ['adv_tau', 1],
]

const rows: Row[] = [
  onlyRl("prime-rl's sft entrypoint reads another config"),
  lost(
    'name',
    'note',
    'runs of this version have no name; wandb.name and output_dir tell them apart',
    (value) => value === undefined,
  ),
  modelRow(''),
  same('seed', 'orchestrator.seed', { how: 'the order of examples and buffer alone' }),
  same('max_steps', 'max_steps'),
  same('batch_size', 'orchestrator.batch_size'),
  same('rollouts_per_example', 'orchestrator.rollouts_per_example'),
  same('max_off_policy_steps', 'orchestrator.max_off_policy_steps', { there: 8 }),
  same('max_async_level', 'max_async_level'),
  same('max_concurrent', 'orchestrator.max_concurrent', { as: (value) => value ?? undefined, there: undefined }),
  same('oversampling_factor', 'orchestrator.oversampling_factor', { there: 1 }),
  same('workers_per_env', 'orchestrator.workers_per_env', { there: 1 }),
  same('seq_len', 'seq_len'),
  lost(
    'filter_zero_advantages',
    'warn',
    'rollouts with advantage 0 stay in the batch and in its token count',
    (value) => value === true,
  ),
  noSecrets(),

  ...learning(),

  same('sampling.max_tokens', `${SAMPLING}.max_tokens`),
  made('sampling.temperature', `${SAMPLING}.temperature`, 'the same, unless a schedule sets it', ({ sampling }) =>
    sampling.temp_scheduler === null ? [{ set: { [`${SAMPLING}.temperature`]: sampling.temperature } }] : [],
  ),
  made(
    'sampling.temp_scheduler',
    `${SAMPLING}.temp_scheduler`,
    'start_temperature and end_temperature',
    ({ sampling }) => {
      const schedule = sampling.temp_scheduler
      if (schedule === null) return []
      const { type, start, end, total_steps: steps } = schedule
      const table = {
        type,
        start_temperature: start,
        end_temperature: end,
        ...(steps === null ? {} : { total_steps: steps }),
      }
      return [{ set: { [`${SAMPLING}.temp_scheduler`]: table }, also: ['sampling.temperature'] }]
    },
  ),
  ...WITHIN['sampling.temp_scheduler'],
  ...wholeDistribution(),
  same('sampling.repetition_penalty', `${SAMPLING}.repetition_penalty`, { there: 1 }),
  same('sampling.presence_penalty', `${SAMPLING}.extra_body.presence_penalty`, {
    there: 0,
    how: 'in the body of each request',
  }),
  same('sampling.frequency_penalty', `${SAMPLING}.extra_body.frequency_penalty`, {
    there: 0,
    how: 'in the body of each request',
  }),
  same('sampling.min_tokens', `${SAMPLING}.min_tokens`, { there: 0 }),
  same('sampling.stop', `${SAMPLING}.extra_body.stop`, { there: [], how: 'in the body of each request' }),
  made(
    'sampling.enable_thinking',
    `${SAMPLING}.extra_body.chat_template_kwargs.enable_thinking`,
    'given to the chat template',
    ({ sampling }) =>
      sampling.enable_thinking === null
        ? []
        : [
            {
              set: { [`${SAMPLING}.extra_body.chat_template_kwargs.enable_thinking`]: sampling.enable_thinking },
              act: 'note',
              why: 'sampling.enable_thinking is given to the chat template, in the body of each request.',
              also: ['sampling.extra_body'],
            },
          ],
  ),
  lost('sampling.reasoning_effort', 'refuse', 'only evaluation knows reasoning_effort there'),
  made('sampling.extra_body', `${SAMPLING}.extra_body`, 'the same', (config) =>
    Object.entries(config.sampling.extra_body).map(([key, value]) => ({
      set: { [`${SAMPLING}.extra_body.${JSON.stringify(key)}`]: value },
    })),
  ),

  ...sourceRows('orchestrator.env', 'v0'),

  made(
    'advantage.type',
    'orchestrator.advantage',
    'grpo is the default; none is "None"; max_rl is refused',
    ({ advantage }) => {
      if (advantage.type === 'none') return [{ set: { 'orchestrator.advantage': null } }]
      if (advantage.type === 'grpo') return []
      return [
        {
          act: 'refuse',
          why: `advantage.type = "${advantage.type}" cannot go along: it came after 2026-01; compile for prime-rl.`,
        },
      ]
    },
  ),
  ...when(({ advantage }) => advantage.type === 'grpo', 'with this advantage', [
    same('advantage.length_weighted_mean', 'orchestrator.advantage.length_weighted_mean', { there: false }),
  ]),
  lost('advantage.length_penalty', 'refuse', 'it came after 2026-01; compile for prime-rl'),
  ...WITHIN['advantage.length_penalty'],

  made(
    'loss.type',
    'trainer.loss.type',
    'ratio_mask is the only loss; default gives way to it, ipo and ppo are refused',
    (config) => {
      const { type } = config.loss
      if (type === 'ratio_mask') return [{ set: { 'trainer.loss.ratio_type': config.loss.ratio_type } }]
      if (type === 'default')
        return [
          {
            set: { 'trainer.loss.ratio_type': 'token' },
            act: 'warn',
            why: 'loss.type = "default" is the loss of 2026-08, masked by the change in probability. This version masks by ratios and has no pull to the sampling policy unless asked: its own default is taken.',
            also: ['loss'],
          },
        ]
      return [
        {
          act: 'refuse',
          why: `loss.type = "${type}" cannot go along: this version masks by ratios and knows nothing else.`,
        },
      ]
    },
  ),
  ...when(({ loss }) => loss.type === 'ratio_mask', 'with this loss', [
    ...MASKS.map(([key, there]) => same(`loss.${key}`, `trainer.loss.${key}`, { there })),
    same('loss.ratio_type', 'trainer.loss.ratio_type'),
    same('loss.kl_tau', 'trainer.loss.kl_tau', { there: 0 }),
  ]),
  ...when(({ loss }) => loss.type === 'default', 'with this loss', [
    lost('loss.dppo_mask_low', 'refuse', LATER),
    lost('loss.dppo_mask_high', 'refuse', LATER),
  ]),
  ...when(({ loss }) => loss.type === 'ipo', 'with this loss', [lost('loss.ipo_threshold', 'refuse', LATER)]),

  same('buffer.online_difficulty_filtering', `${BUFFER}.online_difficulty_filtering`),
  ...['easy_threshold', 'hard_threshold'].map((key) =>
    same(`buffer.${key}`, `${BUFFER}.${key}`, { as: (value) => value ?? undefined, there: undefined }),
  ),
  same('buffer.easy_fraction', `${BUFFER}.easy_fraction`, { there: 0 }),
  same('buffer.hard_fraction', `${BUFFER}.hard_fraction`, { there: 0 }),
  lost(
    'curriculum.sampler',
    'refuse',
    'curricula came after 2026-01; buffer.easy_threshold and hard_threshold are what it has',
  ),
  lost(
    'curriculum.advantage_range',
    'refuse',
    'gates came after 2026-01; buffer.online_difficulty_filtering is the nearest',
  ),
  ...WITHIN['curriculum.advantage_range'],
  filtersThatCount('came after 2026-01'),
  ...WITHIN.pre_batch_filters,

  ...evaluationRow('v0'),
  ...closing('wandb'),
]

export const PRIME_RL_JANUARY: Target = {
  id: 'prime-rl-2026-01',
  title: 'prime-rl of 2026-01',
  pin: 'prime-rl e794fbe, 2026-01-31',
  rows,
  keys: PRIME_RL_2026_01,
  kept: (config) => config.remote.prime_rl,
  keptAs: {
    'inference.vllm.tensor_parallel_size': 'inference.parallel.tp',
    'inference.vllm.data_parallel_size': 'inference.parallel.dp',
    'inference.vllm.gpu_memory_utilization': 'inference.gpu_memory_utilization',
    'inference.vllm.max_model_len': 'inference.model.max_model_len',
    'inference.vllm.dtype': 'inference.model.dtype',
    'inference.vllm.enforce_eager': 'inference.model.enforce_eager',
    'inference.vllm.seed': 'inference.seed',
  },
  always: (config) => [
    {
      act: 'note',
      why: 'This version has no file monitor and no export of sampled tokens: charts and samples of the run come from its logs and from W&B alone.',
      at: '',
    },
    ...(kept(config, 'inference') === undefined ? [defined('inference', {})] : []),
  ],
  nullIsNone: true,
}
