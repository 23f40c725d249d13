// Hosted Training's `prime train` config, client of 2026-08, knob by knob. Rank, optimizer, schedule and loss belong to the
// platform there.

import { BODY_KNOBS } from '../../configs/dialects/hosted.ts'
import { getAt, isTable, type Table } from '../../configs/path.ts'
import { counterpartOf } from './environments.ts'
import { DEVICE, ONLY_HERE, onlyRl, SUPERVISED, WITHIN } from './shares.ts'
import { bodyOf, idleEvaluation } from './sources.ts'
import { isDefault, lost, made, type Outcome, parts, type Row, same, type Target } from './target.ts'
import { isBundled, wandbRows } from './trainer.ts'

const platform = (...names: string[]) => names.map((knob) => lost(knob, 'warn', 'the platform sets it'))
const objective = (...names: string[]) =>
  names.map((knob) => lost(knob, 'refuse', 'the platform chooses the loss, and a config cannot change it'))

const ENTRY = ['id', 'name', 'args', 'ratio', 'harness', 'remote']

const rows: Row[] = [
  onlyRl('Hosted Training of this config learns from rewards'),
  same('name', 'name'),
  made('model', 'model', 'the same; models of this repository are refused', ({ model }) =>
    isBundled(model) || model.startsWith('.') || model.startsWith('/')
      ? [
          {
            act: 'refuse',
            why: `model = ${JSON.stringify(model)} is a model of this repository or a folder: the platform trains the models of its own list (prime train models), such as Qwen/Qwen3-4B-Instruct-2507.`,
          },
        ]
      : [{ set: { model } }],
  ),
  lost('seed', 'note', 'the platform has no seed, so a run is not repeated token by token'),
  same('max_steps', 'max_steps'),
  same('batch_size', 'batch_size'),
  same('rollouts_per_example', 'rollouts_per_example'),
  same('learning_rate', 'learning_rate'),
  made('max_async_level', null, 'the platform samples one batch ahead, always', ({ max_async_level: level }) => {
    const why = 'the platform samples one batch ahead of learning, as prime-rl does.'
    return level === 1
      ? [{ act: 'note', why: `max_async_level = 1 is what is always done: ${why}` }]
      : [{ act: 'warn', why: `max_async_level = ${level} cannot go along: ${why}` }]
  }),
  lost('max_off_policy_steps', 'warn', 'the platform sets it'),
  same('max_concurrent', 'max_inflight_rollouts', { as: (value) => value ?? undefined, there: undefined }),
  made(
    'oversampling_factor',
    'oversampling_factor',
    'the same, unless max_concurrent says it in rollouts',
    (config) => {
      const { oversampling_factor: factor, max_concurrent: limit } = config
      if (factor === 1) return []
      if (limit === null) return [{ set: { oversampling_factor: factor } }]
      return [
        {
          act: 'warn',
          why: `oversampling_factor = ${factor} gives way to max_concurrent = ${limit}: only one of them may be given there.`,
        },
      ]
    },
  ),
  lost('workers_per_env', 'note', 'the platform sizes its environment servers'),
  lost('seq_len', 'warn', 'the platform sets the longest sequence'),
  made('filter_zero_advantages', 'post_batch_filters', 'a zero_advantage filter after the batch', (config) =>
    config.filter_zero_advantages
      ? [
          {
            set: {
              post_batch_filters: config.remote.hosted.post_batch_filters ?? [
                { type: 'zero_advantage', enforce: true },
              ],
            },
            also: ['remote.hosted'],
          },
        ]
      : [
          {
            act: 'warn',
            why: 'filter_zero_advantages = false cannot go along: whether rollouts with advantage 0 count is the platform’s choice.',
          },
        ],
  ),
  same('env_files', 'env_files', { there: [] }),

  ...platform('max_grad_norm', 'optimizer.type', 'optimizer.beta1', 'optimizer.beta2', 'optimizer.epsilon'),
  ...platform('optimizer.weight_decay', 'optimizer.momentum', 'optimizer.nesterov'),
  ...platform('scheduler.type', 'scheduler.warmup_steps', 'scheduler.decay_steps', 'scheduler.min_lr'),

  same('sampling.max_tokens', 'sampling.max_tokens'),
  made('sampling.temperature', 'sampling.temperature', 'the same, unless a schedule sets it', ({ sampling }) =>
    sampling.temp_scheduler === null ? [{ set: { 'sampling.temperature': sampling.temperature } }] : [],
  ),
  made(
    'sampling.temp_scheduler',
    'sampling.temp_scheduler',
    'start_temperature and end_temperature',
    ({ sampling }) => {
      const schedule = sampling.temp_scheduler
      if (schedule === null) return []
      const { type, start, end, total_steps: steps } = schedule
      return [
        {
          set: {
            'sampling.temp_scheduler': {
              ...{ type, start_temperature: start, end_temperature: end },
              ...(steps === null ? {} : { total_steps: steps }),
            },
          },
          also: ['sampling.temperature'],
        },
      ]
    },
  ),
  ...WITHIN['sampling.temp_scheduler'],
  ...BODY_KNOBS.map((key) =>
    made(`sampling.${key}`, `sampling.extra_body.${key}`, 'in the body of each request', (config) => {
      if (isDefault(config, `sampling.${key}`)) return []
      const set = { [`sampling.extra_body.${key}`]: config.sampling[key as 'top_p'] }
      return [
        {
          set,
          act: 'warn',
          why: `sampling.${key} goes into the body of each request; whether training honours it is the platform's choice.`,
          also: [],
        },
      ]
    }),
  ),
  same('sampling.enable_thinking', 'sampling.enable_thinking', { as: (value) => value ?? undefined, there: undefined }),
  made('sampling.reasoning_effort', 'sampling.reasoning_effort', 'the same; minimal is refused', ({ sampling }) => {
    if (sampling.reasoning_effort === null) return []
    if (sampling.reasoning_effort === 'minimal')
      return [
        {
          act: 'refuse',
          why: 'sampling.reasoning_effort = "minimal" cannot go along: the platform knows low, medium and high.',
        },
      ]
    return [{ set: { 'sampling.reasoning_effort': sampling.reasoning_effort } }]
  }),
  made('sampling.extra_body', 'sampling.extra_body', 'the same', (config) =>
    Object.entries(config.sampling.extra_body).map(([key, value]) => ({
      set: { [`sampling.extra_body.${JSON.stringify(key)}`]: value },
    })),
  ),

  made('env', 'env', 'one entry for each environment, by its id on the Hub', (config) => {
    if (config.env.length === 0)
      return [
        {
          act: 'refuse',
          why: 'No environment is given, and a run without one has nothing to learn from; add [[env]] with an id.',
        },
      ]
    const outcomes: Outcome[] = []
    const entries = config.env.map((env, i) => {
      const there = entryOf(env, `env[${i}]`)
      outcomes.push(...there.outcomes)
      return { ...there.table, ...(env.ratio === 1 ? {} : { ratio: env.ratio }) }
    })
    return [{ set: { env: entries } }, ...outcomes]
  }),
  ...parts('env', ...ENTRY.map((key) => `env[].${key}`)),

  made('lora.enabled', null, 'adapters alone; training every weight is refused', ({ lora }) =>
    lora.enabled
      ? []
      : [
          {
            act: 'refuse',
            why: 'lora.enabled = false cannot go along: this form of Hosted Training trains adapters; training every weight takes a prime-rl config with [deployment].',
          },
        ],
  ),
  lost('lora.r', 'warn', 'the platform fixes the rank', (value, { lora }) => !lora.enabled || value === 16),
  made('lora.alpha', 'lora_alpha', 'a whole number', ({ lora }) => {
    if (!lora.enabled) return []
    const alpha = lora.use_rslora ? lora.alpha * Math.sqrt(lora.r) : lora.alpha
    if (Number.isInteger(alpha)) return [{ set: { lora_alpha: alpha } }]
    return [
      {
        set: { lora_alpha: Math.round(alpha) },
        act: 'warn',
        why: `lora.alpha = ${alpha} is rounded to ${Math.round(alpha)}: the platform takes whole numbers.`,
      },
    ]
  }),
  made('lora.use_rslora', null, 'said by alpha × √r', ({ lora }) =>
    lora.use_rslora
      ? [
          {
            act: 'warn',
            why: `lora.use_rslora is said by lora_alpha there: ${lora.alpha} × √${lora.r}; the rank that divides it is the platform's.`,
            also: ['lora.alpha'],
          },
        ]
      : [],
  ),
  ...platform('lora.dropout', 'lora.target_modules', 'lora.modules_to_save'),

  ...objective('advantage.type', 'advantage.length_weighted_mean', 'advantage.length_penalty', 'loss.type'),
  ...WITHIN['advantage.length_penalty'],
  ...platform('loss.adv_tau', 'loss.kl_tau', 'loss.dppo_mask_low', 'loss.dppo_mask_high', 'loss.ipo_threshold'),
  ...platform(
    'loss.ratio_type',
    'loss.token_mask_low',
    'loss.token_mask_high',
    'loss.geo_mask_low',
    'loss.geo_mask_high',
  ),
  ...platform('loss.sequence_mask_low', 'loss.sequence_mask_high', 'loss.sequence_clip_high', 'loss.teacher_tau'),

  made(
    'buffer.online_difficulty_filtering',
    'pre_batch_filters',
    'a zero_advantage filter before the batch',
    (config) =>
      config.buffer.online_difficulty_filtering
        ? [
            {
              act: 'warn',
              why: 'buffer.online_difficulty_filtering is a zero_advantage filter before the batch there. It leaves out every group whose rewards agree, not only those of all 0 or all 1.',
              also: ['curriculum.advantage_range'],
            },
          ]
        : [],
  ),
  ...['easy_threshold', 'hard_threshold'].map((key) =>
    lost(`buffer.${key}`, 'refuse', 'the platform keeps no pools of examples'),
  ),
  ...['easy_fraction', 'hard_fraction'].map((key) =>
    lost(`buffer.${key}`, 'note', 'the platform keeps no pools of examples'),
  ),
  lost('curriculum.sampler', 'refuse', 'the platform draws examples in its own order'),
  made(
    'curriculum.advantage_range',
    'pre_batch_filters',
    'the range of 0 alone: a zero_advantage filter',
    ({ curriculum }) => {
      const range = curriculum.advantage_range
      if (range === null || (range.reject_min === 0 && range.reject_max === 0)) return []
      return [
        {
          act: 'refuse',
          why: `curriculum.advantage_range from ${range.reject_min} to ${range.reject_max} cannot go along: the platform filters advantages of 0 alone.`,
        },
      ]
    },
  ),
  ...WITHIN['curriculum.advantage_range'],
  made('pre_batch_filters', 'pre_batch_filters', 'the same', (config) => {
    const zero = config.curriculum.advantage_range !== null || config.buffer.online_difficulty_filtering
    const filters = [
      ...(zero ? [{ type: 'zero_advantage', enforce: true }] : []),
      ...config.pre_batch_filters.map(spoken),
    ]
    return filters.length > 0 ? [{ set: { pre_batch_filters: filters } }] : []
  }),
  ...WITHIN.pre_batch_filters,

  made('eval.interval', 'eval.interval', 'the same', (config) => {
    const { eval: e } = config
    if (e.interval === null) return idleEvaluation(config)
    const outcomes: Outcome[] = []
    const listed = e.env.length > 0 ? e.env : config.env
    const entries = listed.map((env, i) => {
      const there = entryOf(
        e.env.length > 0 ? env : { ...env, remote: {} },
        e.env.length > 0 ? `eval.env[${i}]` : `env[${i}]`,
      )
      if (e.env.length > 0) outcomes.push(...there.outcomes)
      const own: Table = {}
      if ('num_examples' in env && env.num_examples !== null) own.num_examples = env.num_examples
      if ('rollouts_per_example' in env && env.rollouts_per_example !== null)
        own.rollouts_per_example = env.rollouts_per_example
      return { ...there.table, ...own }
    })
    const body: Table = {}
    for (const key of ['top_p', 'top_k', 'min_p'] as const) if (e[key] !== null) body[key] = e[key]
    Object.assign(body, bodyOf(config))
    return [
      {
        set: {
          'eval.interval': e.interval,
          'eval.num_examples': e.num_examples,
          'eval.rollouts_per_example': e.rollouts_per_example,
          'eval.skip_first_step': e.skip_first_step,
          'eval.sampling.temperature': e.temperature ?? config.sampling.temperature,
          'eval.sampling.max_tokens': e.max_tokens ?? config.sampling.max_tokens,
          ...(Object.keys(body).length > 0 ? { 'eval.sampling.extra_body': body } : {}),
          'eval.env': entries,
        },
        act: 'note',
        why: 'eval says in full what is left to the values of training here.',
        also: [
          'eval.temperature',
          'eval.max_tokens',
          'eval.top_p',
          'eval.top_k',
          'eval.min_p',
          'eval.env',
          'remote.prime_rl.orchestrator.eval',
        ],
      },
      ...outcomes,
    ]
  }),
  ...parts(
    'eval.interval',
    ...[
      'num_examples',
      'rollouts_per_example',
      'skip_first_step',
      'temperature',
      'max_tokens',
      'top_p',
      'top_k',
      'min_p',
      'env',
    ].map((key) => `eval.${key}`),
    ...['id', 'name', 'args', 'num_examples', 'rollouts_per_example', 'remote'].map((key) => `eval.env[].${key}`),
  ),

  made(
    'checkpointing.save_every_n_steps',
    'checkpoints.interval',
    'the same; every 50 steps unless told',
    ({ checkpointing, max_steps }) => {
      const every = checkpointing.save_every_n_steps
      if (every !== null) return [{ set: { 'checkpoints.interval': every } }]
      const chosen = Math.min(50, max_steps)
      return [
        {
          set: { 'checkpoints.interval': chosen },
          act: 'note',
          why: `Checkpoints are switched on, every ${chosen} steps, so that the run can be restarted.`,
          at: '',
          also: ['checkpointing.save_every_n_steps'],
        },
      ]
    },
  ),
  same('checkpointing.keep_n_checkpoints', 'checkpoints.keep_cloud', { as: (value) => value ?? -1 }),
  lost('checkpointing.keep_every_n_steps', 'note', 'the platform keeps the newest alone'),
  same('adapters.interval', 'adapters.interval', { as: (value) => value ?? undefined, there: undefined }),
  same('adapters.keep_last', 'adapters.keep_last', { as: (value) => value ?? undefined, there: undefined }),
  ...wandbRows('wandb', ['name', 'entity']),
  ...['group', 'tags'].map((key) =>
    lost(`wandb.${key}`, 'note', 'the platform takes project, name and entity', (value) => value === undefined),
  ),
  made('wandb.offline', null, 'online alone; offline is refused', ({ wandb }) => {
    if (wandb?.offline === undefined) return []
    return wandb.offline
      ? [{ act: 'refuse', why: 'wandb.offline = true cannot go along: the platform logs online or not at all.' }]
      : [{ act: 'note', why: 'wandb.offline = false is what the platform does in any case.' }]
  }),

  ...ONLY_HERE,
  ...SUPERVISED,
  ...DEVICE.filter(({ knob }) => knob !== 'remote.prime_rl'),
  lost('remote.prime_rl', 'warn', 'hardware and servers are the platform’s'),
  made('remote.hosted', null, 'given back word for word', () => []),
]

/** What the client takes; it refuses any other key. In the form of configs/dialects/prime-rl-2026-08.ts. */
const KEYS = `
(root): name model loss max_steps batch_size rollouts_per_example max_inflight_rollouts learning_rate lora_alpha oversampling_factor checkpoint_id cluster_name env_files run_config*
teacher: model client* sampling*
env[]: id name args* ratio group_size taskset* harness* max_turns max_retries version sampling*
sampling: max_tokens temperature extra_body* enable_thinking reasoning_effort
sampling.temp_scheduler: type start_temperature end_temperature total_steps
eval: interval num_examples rollouts_per_example skip_first_step
eval.sampling: max_tokens temperature extra_body* enable_thinking reasoning_effort
eval.env[]: id name args* taskset* harness* num_examples rollouts_per_example version
val: num_examples rollouts_per_example interval
pre_batch_filters*
post_batch_filters*
wandb: entity project name
checkpoints: interval keep_cloud
adapters: interval keep_last
infrastructure: compute_size
tailscale: enabled auth_key hostname_prefix
`

// A filter says only what belongs to its type.
const OF_TYPE: Record<string, string[]> = {
  zero_advantage: [],
  gibberish: ['token_id_threshold', 'logprob_offset'],
  repetition: ['window', 'prob_threshold'],
}

function spoken(filter: Record<string, unknown>): Table {
  const keys = ['type', 'enforce', ...OF_TYPE[String(filter.type)]]
  return Object.fromEntries(keys.map((key) => [key, filter[key]]))
}

function entryOf(
  env: { id: string; name?: string; args: Table; harness?: Table; remote: Table },
  path: string,
): { table: Table; outcomes: Outcome[] } {
  const { id, args, outcomes } = counterpartOf(env, path)
  const named = env.name === undefined ? {} : { name: env.name }
  const inner = getAt(env.remote, ['env', 'agent', 'harness'])
  const harness = env.harness && Object.keys(env.harness).length > 0 ? env.harness : isTable(inner) ? inner : null
  // What else was said for this environment alone is kept, and refused below where the client has no such key.
  const { env: _, ...rest } = env.remote
  const kept = inner === undefined ? env.remote : rest
  // A harness belongs to the newer form, in which the id stands in a taskset.
  if (harness) return { table: { ...named, taskset: { ...args, id }, harness, ...kept }, outcomes }
  return { table: { id, ...named, ...(Object.keys(args).length > 0 ? { args } : {}), ...kept }, outcomes }
}

export const HOSTED: Target = {
  id: 'hosted',
  title: 'Hosted Training of 2026-08',
  pin: 'prime 66fb4b7, 2026-08-19',
  rows,
  keys: KEYS,
  kept: (config) => config.remote.hosted,
  always: () => [],
  nullIsNone: false,
}
