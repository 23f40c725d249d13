// Rules about what is asked, sampled and batched: the orchestrator of prime-rl.

import { isTable } from '../../../configs/path.ts'
import { at, broken, has, NOW, number, type Rule, sources, THEN } from './rule.ts'

export const BATCH_RULES: Rule[] = [
  {
    id: 'batch-of-groups',
    targets: NOW,
    source: 'prime-rl-configs/configs/orchestrator.py: OrchestratorConfig.resolve_batching',
    example: { orchestrator: { batch_size: 10, group_size: 4 } },
    check(table) {
      const [batch, group] = [at(table, 'orchestrator.batch_size'), number(table, 'orchestrator.group_size', 1)]
      return typeof batch === 'number' && batch % group !== 0
        ? broken(
            'orchestrator.batch_size',
            `orchestrator.batch_size = ${batch} cannot be split into groups of orchestrator.group_size = ${group}.`,
          )
        : null
    },
  },
  {
    id: 'batch-of-groups-2026-01',
    targets: THEN,
    source: 'src/prime_rl/orchestrator/config.py: OrchestratorConfig.validate_batch_size',
    example: { orchestrator: { batch_size: 10, rollouts_per_example: 4 } },
    check(table) {
      const [batch, group] = [
        at(table, 'orchestrator.batch_size'),
        number(table, 'orchestrator.rollouts_per_example', 1),
      ]
      return typeof batch === 'number' && batch % group !== 0
        ? broken(
            'orchestrator.batch_size',
            `orchestrator.batch_size = ${batch} cannot be split into groups of orchestrator.rollouts_per_example = ${group}.`,
          )
        : null
    },
  },
  {
    id: 'rollouts-or-tokens',
    targets: NOW,
    source: 'prime-rl-configs/configs/orchestrator.py: OrchestratorConfig.resolve_batching',
    example: { orchestrator: { batch_size: 8, token_batch_size: 4096 } },
    check: (table) =>
      has(table, 'orchestrator.batch_size') && has(table, 'orchestrator.token_batch_size')
        ? broken(
            'orchestrator.token_batch_size',
            'A batch is counted in rollouts (orchestrator.batch_size) or in tokens (orchestrator.token_batch_size), not in both.',
          )
        : null,
  },
  {
    id: 'inflight-holds-a-group',
    targets: NOW,
    source:
      'prime-rl-configs/configs/orchestrator.py: OrchestratorConfig.resolve_batching and ConcurrencyConfig.validate_bounds',
    example: { orchestrator: { group_size: 8, batch_size: 8, concurrency: { max_inflight: 4 } } },
    check(table) {
      const base = 'orchestrator.concurrency'
      const group = number(table, 'orchestrator.group_size', 1)
      const [least, most] = [number(table, `${base}.min_inflight`, 1), number(table, `${base}.max_inflight`, 1024)]
      const first = number(table, `${base}.initial_inflight`, most)
      if (most < group || first < group)
        return broken(
          `${base}.${most < group ? 'max_inflight' : 'initial_inflight'}`,
          `${base} must let a whole group of ${group} be in flight.`,
        )
      if (first > most)
        return broken(
          `${base}.initial_inflight`,
          `${base}.initial_inflight = ${first} is above max_inflight = ${most}.`,
        )
      return least > most
        ? broken(`${base}.min_inflight`, `${base}.min_inflight = ${least} is above max_inflight = ${most}.`)
        : null
    },
  },
  {
    id: 'names-of-sources',
    targets: NOW,
    source:
      'prime-rl-configs/configs/orchestrator.py: EnvConfig.validate_env and TrainConfig.validate_unique_env_names',
    example: { orchestrator: { train: { source: [{ name: 'agg', env: { taskset: { id: 'a' } } }] } } },
    check(table) {
      const list = 'orchestrator.train.source'
      const names = sources(table).map((source) => String(source.name ?? at(source, 'env.taskset.id')))
      const i = names.findIndex((name, at) => name === 'agg' || names.indexOf(name) < at)
      if (i < 0) return null
      return broken(
        `${list}[${i}]`,
        names[i] === 'agg'
          ? 'An environment cannot be called agg: metrics over all of them are.'
          : `Two environments are called ${names[i]}; give one of them another name.`,
      )
    },
  },
  {
    id: 'pools-and-gates',
    targets: NOW,
    source:
      'prime-rl-configs/configs/orchestrator.py: DifficultyPoolSamplerConfig.validate_pools and AdvRangeGateConfig.validate_range',
    example: {
      orchestrator: {
        train: {
          source: [{ env: { taskset: { id: 'a' } }, curriculum: { gates: { g: { reject_min: 1, reject_max: 0 } } } }],
        },
      },
    },
    check(table) {
      for (const [i, source] of sources(table).entries()) {
        const path = `orchestrator.train.source[${i}].curriculum`
        const gates = at(source, 'curriculum.gates')
        for (const [name, gate] of Object.entries(isTable(gates) ? gates : {}))
          if (isTable(gate) && number(gate, 'reject_min', 0) > number(gate, 'reject_max', 0))
            return broken(`${path}.gates.${name}`, `The gate ${name} needs reject_min at most reject_max.`)
        const pools = at(source, 'curriculum.sampler.pools')
        if (!isTable(pools)) continue
        const list = Object.values(pools).filter(isTable)
        if (new Set(list.map(({ threshold }) => threshold)).size < list.length)
          return broken(`${path}.sampler.pools`, 'Two pools of difficulty have the same threshold.')
        if (!list.some(({ weight }) => typeof weight === 'number' && weight > 0))
          return broken(`${path}.sampler.pools`, 'At least one pool of difficulty needs a weight above 0.')
      }
      return null
    },
  },
  {
    id: 'evaluation-needs-sources',
    targets: NOW,
    source: 'prime-rl-configs/configs/orchestrator.py: EvalConfig.validate_non_empty_sources',
    example: { orchestrator: { eval: { interval: 10 } } },
    check(table) {
      const list = at(table, 'orchestrator.eval.source')
      return has(table, 'orchestrator.eval') && !(Array.isArray(list) && list.length > 0)
        ? broken(
            'orchestrator.eval',
            'An evaluation without environments is an error there; name one, or leave eval.interval out.',
          )
        : null
    },
  },
  {
    id: 'who-samples',
    targets: NOW,
    source:
      'prime-rl-configs/configs/algorithm.py: BaseAlgoConfig.validate_sampling_source and SFTAlgoConfig.require_frozen_source',
    example: { orchestrator: { algo: { type: 'sft' } } },
    check(table) {
      const type = at(table, 'orchestrator.algo.type')
      const source = at(table, 'orchestrator.algo.sampling.source') ?? 'policy'
      if (type === 'sft' && source === 'policy')
        return broken(
          'orchestrator.algo.type',
          'orchestrator.algo.type = "sft" learns from another model: name it in algo.sampling.source.',
        )
      return type !== undefined && type !== 'sft' && source !== 'policy'
        ? broken(
            'orchestrator.algo.sampling',
            `orchestrator.algo.type = ${JSON.stringify(type)} learns from what the policy itself samples.`,
          )
        : null
    },
  },
  {
    id: 'a-teacher-for-distillation',
    targets: NOW,
    source: 'prime-rl-configs/configs/algorithm.py: OPDAlgoConfig.teacher is required',
    example: { orchestrator: { algo: { type: 'opd' } } },
    check: (table) =>
      at(table, 'orchestrator.algo.type') === 'opd' && !has(table, 'orchestrator.algo.teacher')
        ? broken('orchestrator.algo.type', 'orchestrator.algo.type = "opd" needs orchestrator.algo.teacher.')
        : null,
  },
  {
    id: 'models-elsewhere-have-an-address',
    targets: NOW,
    source: 'prime-rl-configs/configs/algorithm.py: FrozenModelConfig.require_explicit_endpoint',
    example: { orchestrator: { algo: { type: 'opd', teacher: { name: 't' } } } },
    check(table) {
      for (const path of ['orchestrator.algo.teacher', 'orchestrator.algo.sampling.source']) {
        const model = at(table, path)
        if (isTable(model) && model.base_url === undefined)
          return broken(path, `${path} is served by somebody else: say where, with base_url.`)
      }
      return null
    },
  },
  {
    id: 'echo-of-somebody',
    targets: NOW,
    source: 'prime-rl-configs/configs/algorithm.py: EchoRolesConfig.require_a_role',
    example: { orchestrator: { algo: { type: 'echo', roles: {} } } },
    check(table) {
      const roles = at(table, 'orchestrator.algo.roles')
      return isTable(roles) && !['system', 'user', 'assistant', 'tool'].some((role) => roles[role] != null)
        ? broken('orchestrator.algo.roles', 'echo learns from at least one role: system, user, assistant or tool.')
        : null
    },
  },
  {
    id: 'one-temperature',
    targets: THEN,
    source: 'src/prime_rl/orchestrator/config.py: SamplingConfig, temperature or temp_scheduler',
    example: {
      orchestrator: { sampling: { temperature: 1, temp_scheduler: { start_temperature: 1, end_temperature: 0.5 } } },
    },
    check: (table) =>
      has(table, 'orchestrator.sampling.temperature') && has(table, 'orchestrator.sampling.temp_scheduler')
        ? broken(
            'orchestrator.sampling.temp_scheduler',
            'temperature and temp_scheduler both set the temperature; keep one of them.',
          )
        : null,
  },
  {
    id: 'easy-above-hard',
    targets: THEN,
    source: 'src/prime_rl/orchestrator/config.py: BufferConfig.validate_thresholds',
    example: { orchestrator: { buffer: { easy_threshold: 0.2, hard_threshold: 0.4 } } },
    check(table) {
      const [easy, hard] = [
        at(table, 'orchestrator.buffer.easy_threshold'),
        at(table, 'orchestrator.buffer.hard_threshold'),
      ]
      return typeof easy === 'number' && typeof hard === 'number' && easy <= hard
        ? broken(
            'orchestrator.buffer.easy_threshold',
            `easy_threshold = ${easy} must be above hard_threshold = ${hard}.`,
          )
        : null
    },
  },
  {
    id: 'rewards-that-are-skipped',
    targets: THEN,
    source: 'src/prime_rl/orchestrator/config.py: BufferConfig.validate_skip_verification',
    example: { orchestrator: { buffer: { skip_verification: true, online_difficulty_filtering: true } } },
    check(table) {
      const base = 'orchestrator.buffer'
      if (at(table, `${base}.skip_verification`) !== true) return null
      const needs = ['online_difficulty_filtering', 'easy_threshold', 'hard_threshold'].find((key) => {
        const value = at(table, `${base}.${key}`)
        return value != null && value !== false
      })
      return needs
        ? broken(`${base}.skip_verification`, `skip_verification = true leaves no rewards for ${base}.${needs}.`)
        : null
    },
  },
  {
    id: 'a-ratio-for-each',
    targets: THEN,
    source: 'src/prime_rl/orchestrator/config.py: OrchestratorConfig.validate_env_ratios',
    example: { orchestrator: { env: [{ id: 'a' }], buffer: { env_ratios: [1, 2] } } },
    check(table) {
      const ratios = at(table, 'orchestrator.buffer.env_ratios')
      if (!Array.isArray(ratios)) return null
      const path = 'orchestrator.buffer.env_ratios'
      if (ratios.some((ratio) => !(ratio > 0))) return broken(path, 'Every one of env_ratios must be above 0.')
      const count = sources(table).length
      return ratios.length === count
        ? null
        : broken(path, `env_ratios has ${ratios.length} numbers for ${count} environments.`)
    },
  },
]
