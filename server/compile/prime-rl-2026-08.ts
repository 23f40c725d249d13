// prime-rl's `rl` config of 2026-08, commit 559b447, knob by knob.

import { PRIME_RL_2026_08 } from '../../configs/dialects/prime-rl-2026-08.ts'
import type { Table } from '../../configs/path.ts'
import type { RunConfig } from '../../configs/schema.ts'
import { PRIME_RL_SFT } from './prime-rl-2026-08-sft.ts'
import { WITHIN } from './shares.ts'
import { defined, evaluationRow, sourceRows } from './sources.ts'
import { isDefault, lost, made, type Outcome, type Row, same, shown, type Target, when } from './target.ts'
import {
  algorithmIsTheirs,
  closing,
  filtersThatCount,
  kept,
  learning,
  modelRow,
  noSecrets,
  tokenExport,
  wholeDistribution,
} from './trainer.ts'

const SAMPLING = 'orchestrator.train.sampling'
const EXTRA = `${SAMPLING}.extra_body`
const ALGO = 'orchestrator.algo'

const rows: Row[] = [
  made('type', null, 'rl; sft by a table of its own', () => []),
  same('name', 'run.name'),
  modelRow(),
  lost('seed', 'note', 'prime-rl has no seed of a whole run, so full-size runs are not repeated token by token'),
  same('max_steps', 'max_steps'),
  made('batch_size', 'orchestrator.batch_size', 'another name, unless a file counts tokens', (config) => {
    const tokens = kept(config, 'orchestrator.token_batch_size')
    if (tokens === undefined || !isDefault(config, 'batch_size'))
      return [{ set: { 'orchestrator.batch_size': config.batch_size } }]
    const why = `A step is counted in tokens there, orchestrator.token_batch_size = ${shown(tokens)}, so batch_size is left out.`
    return [{ act: 'note', why, at: 'remote.prime_rl.orchestrator.token_batch_size', also: ['batch_size'] }]
  }),
  same('rollouts_per_example', 'orchestrator.group_size'),
  same('max_off_policy_steps', 'orchestrator.max_off_policy_steps', { there: 8 }),
  made(
    'max_async_level',
    null,
    'sampling runs one batch ahead there, always; warned where 1 is not what is asked',
    (config) =>
      config.max_async_level === 1
        ? [{ act: 'note', why: 'max_async_level = 1 is what prime-rl always does: sampling runs one batch ahead.' }]
        : [
            {
              act: 'warn',
              why: `max_async_level = ${config.max_async_level} cannot go along: sampling runs exactly one batch ahead there. What bounds the age of a rollout is orchestrator.max_off_policy_steps = ${config.max_off_policy_steps}, counted in updates.`,
            },
          ],
  ),
  same('max_concurrent', 'orchestrator.concurrency.max_inflight', {
    as: (value) => value ?? undefined,
    there: undefined,
  }),
  made(
    'oversampling_factor',
    'orchestrator.concurrency.max_inflight',
    'rollouts in flight: the factor × batch_size',
    (config) => {
      const { oversampling_factor: factor, batch_size: batch, max_concurrent: limit } = config
      if (factor === 1) return []
      const inflight = Math.ceil(factor * batch)
      if (limit !== null)
        return [
          {
            act: 'warn',
            why: `oversampling_factor = ${factor} gives way to max_concurrent = ${limit}: prime-rl counts the rollouts in flight, not the batches.`,
          },
        ]
      return [
        {
          set: { 'orchestrator.concurrency.max_inflight': inflight },
          act: 'note',
          why: `oversampling_factor = ${factor} is ${inflight} rollouts in flight there.`,
          also: ['max_concurrent'],
        },
      ]
    },
  ),
  lost('workers_per_env', 'note', 'an environment server sizes its own pool there'),
  same('seq_len', 'seq_len'),
  same('filter_zero_advantages', 'orchestrator.train.filter_zero_advantages', { there: true }),
  noSecrets(),

  ...learning(),

  same('sampling.max_tokens', `${SAMPLING}.max_completion_tokens`),
  same('sampling.temperature', `${SAMPLING}.temperature`),
  lost('sampling.temp_scheduler', 'refuse', 'temperature schedules left prime-rl in 2026-04'),
  ...WITHIN['sampling.temp_scheduler'],
  ...wholeDistribution(),
  same('sampling.repetition_penalty', `${EXTRA}.repetition_penalty`, { there: 1, how: 'in the body of each request' }),
  same('sampling.presence_penalty', `${EXTRA}.presence_penalty`, { there: 0, how: 'in the body of each request' }),
  same('sampling.frequency_penalty', `${EXTRA}.frequency_penalty`, { there: 0, how: 'in the body of each request' }),
  same('sampling.min_tokens', `${EXTRA}.min_tokens`, { there: 0, how: 'in the body of each request' }),
  same('sampling.stop', `${EXTRA}.stop`, { there: [], how: 'in the body of each request' }),
  lost(
    'sampling.enable_thinking',
    'refuse',
    'a renderer writes the prompts there, and it has no such switch in this version',
  ),
  lost('sampling.reasoning_effort', 'refuse', 'only evaluation knows reasoning_effort there'),
  made('sampling.extra_body', EXTRA, 'the same', (config) =>
    Object.entries(config.sampling.extra_body).map(([key, value]) => ({
      set: { [`${EXTRA}.${JSON.stringify(key)}`]: value },
    })),
  ),

  ...sourceRows('orchestrator.train.source', 'v1'),

  made('advantage.type', `${ALGO}.type`, 'grpo and max_rl; none is refused', (config) => {
    if (algorithmIsTheirs(config)) return []
    switch (config.advantage.type) {
      case 'grpo':
        return [{ set: { [`${ALGO}.type`]: 'grpo' } }]
      case 'max_rl':
        return [{ set: { [`${ALGO}.type`]: 'max_rl' } }]
      case 'none':
        return [
          {
            act: 'refuse',
            why: 'advantage.type = "none" cannot go along: no algorithm of this version learns from the bare reward.',
          },
        ]
    }
  }),
  lost(
    'advantage.length_weighted_mean',
    'refuse',
    'the length-weighted baseline left prime-rl with its old advantages',
  ),
  made('advantage.length_penalty', `${ALGO}.length_penalty`, 'a linear penalty, weight by weight', (config) => {
    const penalty = config.advantage.length_penalty
    if (penalty === null || algorithmIsTheirs(config)) return []
    if (config.advantage.type !== 'grpo')
      return [
        {
          act: 'refuse',
          why: `advantage.length_penalty cannot go along with advantage.type = "${config.advantage.type}": only grpo has it there.`,
        },
      ]
    return [
      {
        set: {
          [`${ALGO}.length_penalty`]: {
            type: 'linear',
            num_output_tokens_weight: penalty.output,
            num_input_tokens_weight: penalty.input,
            num_turns_weight: penalty.turns,
          },
        },
      },
    ]
  }),
  ...WITHIN['advantage.length_penalty'],

  made('loss.type', 'trainer.loss.type', 'default and ipo; ratio_mask and ppo are refused', (config) => {
    const { type } = config.loss
    if (kept(config, 'trainer.loss.type') !== undefined) return []
    if (type === 'default' || type === 'ipo') return [{ set: { 'trainer.loss.type': type } }]
    const why =
      type === 'ratio_mask'
        ? 'it is the loss of 2026-01; compile for prime-rl-2026-01'
        : 'prime-rl has no clipped ratio'
    return [{ act: 'refuse', why: `loss.type = "${type}" cannot go along: ${why}.` }]
  }),
  ...when(
    (config) => ['default', 'ipo'].includes(config.loss.type) && kept(config, 'trainer.loss.type') === undefined,
    'with this loss',
    [
      same('loss.adv_tau', 'trainer.loss.adv_tau', { there: 1 }),
      same('loss.kl_tau', 'trainer.loss.kl_tau', { there: 1e-3 }),
    ],
  ),
  ...when(
    (config) => config.loss.type === 'default' && kept(config, 'trainer.loss.type') === undefined,
    'with this loss',
    [
      same('loss.dppo_mask_low', 'trainer.loss.dppo_mask_low', { there: 0.2 }),
      same('loss.dppo_mask_high', 'trainer.loss.dppo_mask_high', { there: 0.2 }),
    ],
  ),
  ...when((config) => config.loss.type === 'ipo' && kept(config, 'trainer.loss.type') === undefined, 'with this loss', [
    same('loss.ipo_threshold', 'trainer.loss.ipo_threshold', { there: 0.1 }),
  ]),
  ...[
    ...['ratio_type', 'token_mask_low', 'token_mask_high', 'geo_mask_low', 'geo_mask_high'],
    ...['sequence_mask_low', 'sequence_mask_high', 'sequence_clip_high', 'teacher_tau'],
  ].map((key) => lost(`loss.${key}`, 'note', 'it belongs to loss.type = "ratio_mask", the loss of 2026-01')),

  made(
    'buffer.online_difficulty_filtering',
    'orchestrator.train.source[].curriculum.gates',
    'a gate against groups without an advantage',
    (config) => {
      if (!config.buffer.online_difficulty_filtering) return []
      const why =
        'buffer.online_difficulty_filtering is a gate against advantages of 0 there. It leaves out every group whose rewards agree, not only those of all 0 or all 1; with rewards of 0 or 1 that is the same.'
      return [
        {
          act: 'warn',
          why,
          also: config.curriculum.advantage_range === null ? ['curriculum.advantage_range', 'env'] : [],
        },
      ]
    },
  ),
  ...['easy_threshold', 'hard_threshold'].map((key) =>
    lost(
      `buffer.${key}`,
      'refuse',
      'examples are never taken out of the draw there; curriculum.sampler = "difficulty_pool" draws easy and hard ones less often',
    ),
  ),
  ...['easy_fraction', 'hard_fraction'].map((key) =>
    lost(`buffer.${key}`, 'note', 'no pool of easy or hard examples is kept there'),
  ),
  made(
    'curriculum.sampler',
    'orchestrator.train.source[].curriculum.sampler.type',
    'said for every source',
    (config) =>
      config.curriculum.sampler === 'standard'
        ? []
        : [{ act: 'note', why: 'curriculum.sampler is said for every source there.', also: ['env'] }],
  ),
  made(
    'curriculum.advantage_range',
    'orchestrator.train.source[].curriculum.gates',
    'said for every source',
    (config) =>
      config.curriculum.advantage_range === null
        ? []
        : [{ act: 'note', why: 'curriculum.advantage_range is a gate of every source there.', also: ['env'] }],
  ),
  ...WITHIN['curriculum.advantage_range'],
  filtersThatCount('left prime-rl in 2026-05'),
  ...WITHIN.pre_batch_filters,

  ...evaluationRow('v1'),
  ...closing('monitors.wandb'),
]

/** A file that counts GPUs without sharing them out: inference gets half, in whole tensor-parallel groups. */
function splitGpus(config: RunConfig): Outcome {
  const gpus = kept(config, 'deployment.gpus_per_node')
  const table = kept(config, 'deployment') as Table | undefined
  if (typeof gpus !== 'number' || gpus < 2 || Object.keys(table ?? {}).length > 1) return {}
  const parallel = kept(config, 'inference.vllm.tensor_parallel_size')
  const group = typeof parallel === 'number' && parallel >= 1 ? parallel : 1
  const infer = Math.max(group, Math.floor(gpus / 2 / group) * group)
  const train = gpus - infer
  return {
    set: { 'deployment.num_infer_gpus': infer, 'deployment.num_train_gpus': train },
    act: 'note',
    why: `${gpus} GPUs are shared out: ${infer} for inference, ${train} for training. Say deployment.num_infer_gpus and num_train_gpus to share them otherwise.`,
    at: 'remote.prime_rl.deployment.gpus_per_node',
    also: ['remote.prime_rl.deployment'],
  }
}

export const PRIME_RL: Target = {
  id: 'prime-rl',
  title: 'prime-rl of 2026-08',
  pin: 'prime-rl 559b447, 2026-08-21',
  rows,
  keys: PRIME_RL_2026_08,
  kept: (config) => config.remote.prime_rl,
  always: (config) => [
    splitGpus(config),
    tokenExport(config),
    {
      set: { 'monitors.file.path': 'metrics.jsonl' },
      act: 'note',
      why: 'The file monitor is switched on: the charts here are drawn from metrics.jsonl.',
      at: '',
      also: ['remote.prime_rl.monitors.file.path'],
    },
    ...(kept(config, 'inference') === undefined ? [defined('inference', {})] : []),
  ],
  supervised: PRIME_RL_SFT,
  nullIsNone: true,
}
