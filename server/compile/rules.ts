// Rules that tie fields of a target together, which its JSON Schema does not hold: each with where the target states it and
// an example that breaks it. They look at a compiled table, so they hold for what a file kept in the target's own words too.
// `prime-rl-configs` stands for packages/prime-rl-configs/src/prime_rl; after the colon is the validator's name.

import { getAt, isTable, parsePath, type Table } from '../../configs/path.ts'
import type { TargetId } from './target.ts'

export interface Broken {
  /** Theirs, dotted. */
  path: string
  sentence: string
}

export interface Rule {
  id: string
  targets: TargetId[]
  /** Where the target states it. */
  source: string
  /** A table that breaks this rule, as little of it as possible. */
  example: Table
  check(table: Table): Broken | null
}

const BOTH: TargetId[] = ['prime-rl', 'prime-rl-2026-01']
const NOW: TargetId[] = ['prime-rl']
const THEN: TargetId[] = ['prime-rl-2026-01']
const HOSTED: TargetId[] = ['hosted']

const at = (table: Table, path: string): unknown => getAt(table, parsePath(path) ?? [])
const number = (table: Table, path: string, otherwise: number): number => {
  const value = at(table, path)
  return typeof value === 'number' ? value : otherwise
}
const has = (table: Table, path: string): boolean => at(table, path) != null
const broken = (path: string, sentence: string): Broken => ({ path, sentence })
const sources = (table: Table): Table[] => {
  const list = at(table, 'orchestrator.train.source') ?? at(table, 'orchestrator.env') ?? []
  return Array.isArray(list) ? list.filter(isTable) : []
}

const LAUNCHERS_OWN = /^(CUDA_VISIBLE_DEVICES|PRL_RUN_\w*|WANDB_RUN_ID|WANDB_SHARED_\w*)$/
const COMPONENTS = ['', 'trainer.', 'orchestrator.', 'inference.']

export const RULES: Rule[] = [
  {
    id: 'batch-of-groups',
    targets: NOW,
    source: 'prime-rl-configs/configs/orchestrator.py: batch_size % group_size',
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
    source: 'src/prime_rl/orchestrator/config.py: batch_size % rollouts_per_example',
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
    source: 'prime-rl-configs/configs/orchestrator.py: batch_size XOR token_batch_size',
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
    id: 'nodes-need-slurm',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.validate_deployment',
    example: { deployment: { type: 'multi_node', num_train_nodes: 2, num_infer_nodes: 1 }, inference: {} },
    check: (table) =>
      at(table, 'deployment.type') === 'multi_node' && !has(table, 'slurm')
        ? broken(
            'deployment.type',
            'deployment.type = "multi_node" needs a [slurm] table: several nodes are only started by Slurm.',
          )
        : null,
  },
  {
    id: 'inference-nodes',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.validate_deployment',
    example: { deployment: { type: 'multi_node', num_train_nodes: 1, num_infer_nodes: 1 }, slurm: {} },
    check(table) {
      if (at(table, 'deployment.type') !== 'multi_node') return null
      const nodes = at(table, 'deployment.num_infer_nodes')
      if (nodes === 0 && has(table, 'inference') && !has(table, 'trainer.data.fake'))
        return broken('deployment.num_infer_nodes', 'deployment.num_infer_nodes = 0 leaves no node for [inference].')
      return typeof nodes === 'number' && nodes > 0 && !has(table, 'inference')
        ? broken('deployment.num_infer_nodes', `deployment.num_infer_nodes = ${nodes} needs an [inference] table.`)
        : null
    },
  },
  {
    id: 'gpus-of-a-node',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: SingleNodeDeploymentConfig.validate_gpu_count',
    example: { deployment: { gpus_per_node: 4, num_train_gpus: 3, num_infer_gpus: 2 } },
    check(table) {
      if (at(table, 'deployment.type') === 'multi_node') return null
      const [train, infer] = [
        number(table, 'deployment.num_train_gpus', 1),
        number(table, 'deployment.num_infer_gpus', 1),
      ]
      const node = number(table, 'deployment.gpus_per_node', 8)
      return train + infer > node
        ? broken(
            'deployment.gpus_per_node',
            `deployment.num_train_gpus = ${train} and deployment.num_infer_gpus = ${infer} are more than deployment.gpus_per_node = ${node}.`,
          )
        : null
    },
  },
  {
    id: 'nccl-needs-two-gpus',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.validate_enough_devices_for_nccl',
    example: { weight_broadcast: { type: 'nccl' }, deployment: { num_train_gpus: 1, num_infer_gpus: 0 } },
    check(table) {
      if (at(table, 'weight_broadcast.type') !== 'nccl' || at(table, 'deployment.type') === 'multi_node') return null
      const gpus = number(table, 'deployment.num_train_gpus', 1) + number(table, 'deployment.num_infer_gpus', 1)
      return gpus < 2
        ? broken('weight_broadcast.type', 'weight_broadcast.type = "nccl" needs two GPUs at least.')
        : null
    },
  },
  {
    id: 'adapters-by-file',
    targets: BOTH,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.auto_setup_lora',
    example: { weight_broadcast: { type: 'nccl' }, trainer: { model: { lora: { rank: 8 } } } },
    check(table) {
      const type = at(table, 'weight_broadcast.type') ?? at(table, 'trainer.weight_broadcast.type')
      return has(table, 'trainer.model.lora') && (type === 'nccl' || type === 'nixl')
        ? broken(
            'weight_broadcast.type',
            `weight_broadcast.type = "${type}" cannot carry adapters; leave it out, and they go by files.`,
          )
        : null
    },
  },
  {
    id: 'adapters-agree',
    targets: BOTH,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.auto_setup_lora',
    example: { trainer: { model: { lora: { rank: 8 } } }, orchestrator: { model: { lora: { rank: 16 } } } },
    check(table) {
      for (const [key, standard] of [
        ['rank', 16],
        ['alpha', 32],
      ] as const) {
        const theirs = at(table, `orchestrator.model.lora.${key}`)
        const ours = number(table, `trainer.model.lora.${key}`, standard)
        if (typeof theirs === 'number' && theirs !== ours)
          return broken(
            `orchestrator.model.lora.${key}`,
            `orchestrator.model.lora.${key} = ${theirs} and trainer.model.lora.${key} = ${ours} must agree.`,
          )
      }
      return null
    },
  },
  {
    id: 'quantised-transfer',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.validate_quantize_in_weight_transfer',
    example: { weight_broadcast: { type: 'filesystem', quantize_in_weight_transfer: true } },
    check: (table) =>
      at(table, 'weight_broadcast.quantize_in_weight_transfer') === true &&
      (at(table, 'weight_broadcast.type') !== 'nccl' || at(table, 'trainer.model.impl') !== 'custom')
        ? broken(
            'weight_broadcast.quantize_in_weight_transfer',
            'weight_broadcast.quantize_in_weight_transfer needs type = "nccl" and trainer.model.impl = "custom".',
          )
        : null,
  },
  {
    id: 'wandb-online',
    targets: NOW,
    source: 'prime-rl-configs/configs/monitors.py: validate_not_offline',
    example: { monitors: { wandb: { offline: true } } },
    check: (table) =>
      at(table, 'monitors.wandb.offline') === true
        ? broken(
            'monitors.wandb.offline',
            'wandb.offline = true is refused: trainer and orchestrator share one W&B run, which needs the network. Leave it out, or leave W&B out.',
          )
        : null,
  },
  {
    id: 'wandb-on-both',
    targets: BOTH,
    source: 'prime-rl-configs/utils/validation.py: validate_shared_wandb_config',
    example: { trainer: { monitors: { wandb: { project: 'p' } } } },
    check(table) {
      for (const under of ['monitors.wandb', 'wandb']) {
        const [one, other] = [has(table, `trainer.${under}`), has(table, `orchestrator.${under}`)]
        if (one !== other && !has(table, under))
          return broken(
            `${one ? 'trainer' : 'orchestrator'}.${under}`,
            'W&B is for the trainer and the orchestrator both, or for neither.',
          )
      }
      return null
    },
  },
  {
    id: 'checkpoints-on-both',
    targets: BOTH,
    source: 'prime-rl-configs/utils/validation.py: validate_shared_ckpt_config',
    example: { trainer: { ckpt: { interval: 10 } }, orchestrator: { ckpt: { interval: 20 } } },
    check(table) {
      const [one, other] = [at(table, 'trainer.ckpt.interval'), at(table, 'orchestrator.ckpt.interval')]
      return one !== other && !has(table, 'ckpt.interval')
        ? broken(
            one === undefined ? 'orchestrator.ckpt.interval' : 'trainer.ckpt.interval',
            'Trainer and orchestrator save at the same steps, or neither does.',
          )
        : null
    },
  },
  {
    id: 'shared-values-agree',
    targets: BOTH,
    source: 'prime-rl-configs/utils/validation.py: propagate_shared_fields',
    example: { max_steps: 100, trainer: { max_steps: 50 } },
    check(table) {
      const pairs = [
        ...['trainer.max_steps', 'orchestrator.max_steps'].map((path) => ['max_steps', path]),
        ...['trainer.model.name', 'orchestrator.model.name'].map((path) => ['model.name', path]),
        ...['trainer.ckpt.interval', 'orchestrator.ckpt.interval'].map((path) => ['ckpt.interval', path]),
        ['model.name', 'inference.vllm.model'],
        ['model.name', 'inference.model.name'],
      ]
      for (const [shared, own] of pairs) {
        if (has(table, shared) && has(table, own) && at(table, shared) !== at(table, own))
          return broken(
            own,
            `${own} = ${JSON.stringify(at(table, own))} disagrees with ${shared} = ${JSON.stringify(at(table, shared))}; say it once.`,
          )
      }
      return null
    },
  },
  {
    id: 'trainer-reads-what-is-sampled',
    targets: BOTH,
    source: 'prime-rl-configs/utils/validation.py: validate_shared_seq_len',
    example: { trainer: { model: { seq_len: 1024 } }, orchestrator: { seq_len: 2048 } },
    check(table) {
      const shared = number(table, 'seq_len', 2048)
      const [reads, samples] = [
        number(table, 'trainer.model.seq_len', shared),
        number(table, 'orchestrator.seq_len', shared),
      ]
      return reads < samples
        ? broken(
            'trainer.model.seq_len',
            `trainer.model.seq_len = ${reads} is less than orchestrator.seq_len = ${samples}: the trainer could not read what is sampled.`,
          )
        : null
    },
  },
  {
    id: 'schedule-fits',
    targets: BOTH,
    source: 'prime-rl-configs/configs/trainer.py: scheduler phases and max_steps',
    example: { max_steps: 15, trainer: { scheduler: { type: 'linear' } } },
    check(table) {
      const steps = at(table, 'max_steps')
      const type = at(table, 'trainer.scheduler.type')
      const [warm, decay] = [
        number(table, 'trainer.scheduler.warmup_steps', 10),
        number(table, 'trainer.scheduler.decay_steps', 10),
      ]
      if (type === 'cosine' && (typeof steps !== 'number' || steps <= warm))
        return broken(
          'trainer.scheduler.warmup_steps',
          `A cosine schedule needs max_steps above its warm-up of ${warm}.`,
        )
      return type === 'linear' && typeof steps === 'number' && warm + decay > steps
        ? broken(
            'trainer.scheduler.decay_steps',
            `warmup_steps = ${warm} and decay_steps = ${decay} do not fit into max_steps = ${steps}.`,
          )
        : null
    },
  },
  {
    id: 'inflight-holds-a-group',
    targets: NOW,
    source: 'prime-rl-configs/configs/orchestrator.py: concurrency bounds',
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
      return least > most
        ? broken(`${base}.min_inflight`, `${base}.min_inflight = ${least} is above max_inflight = ${most}.`)
        : null
    },
  },
  {
    id: 'names-of-sources',
    targets: BOTH,
    source: 'prime-rl-configs/configs/orchestrator.py: unique source names, "agg" reserved',
    example: { orchestrator: { train: { source: [{ name: 'agg', env: { taskset: { id: 'a' } } }] } } },
    check(table) {
      const list = has(table, 'orchestrator.train.source') ? 'orchestrator.train.source' : 'orchestrator.env'
      const names = sources(table).map((source) => String(source.name ?? at(source, 'env.taskset.id') ?? source.id))
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
    id: 'evaluation-needs-sources',
    targets: BOTH,
    source: 'prime-rl-configs/configs/orchestrator.py: eval without sources',
    example: { orchestrator: { eval: { interval: 10 } } },
    check(table) {
      const list = at(table, 'orchestrator.eval.source') ?? at(table, 'orchestrator.eval.env')
      return has(table, 'orchestrator.eval') && !(Array.isArray(list) && list.length > 0)
        ? broken(
            'orchestrator.eval',
            'An evaluation without environments is an error there; name one, or leave eval.interval out.',
          )
        : null
    },
  },
  {
    id: 'resume-from-one-place',
    targets: NOW,
    source: 'prime-rl-configs/configs/shared.py: resume.step XOR resume.dir',
    example: { resume: { step: 10, dir: 'runs/a/checkpoints/step_10' } },
    check(table) {
      if (has(table, 'resume.step') && has(table, 'resume.dir'))
        return broken(
          'resume.dir',
          'A run resumes from its own step (resume.step) or from the folder of another (resume.dir), not from both.',
        )
      const step = at(table, 'resume.step')
      if (typeof step === 'number' && step < 1) return broken('resume.step', `resume.step = ${step} must be 1 or more.`)
      const dir = at(table, 'resume.dir')
      return typeof dir === 'string' && !/(^|\/)step_\d+\/?$/.test(dir)
        ? broken('resume.dir', `resume.dir = ${JSON.stringify(dir)} must end in step_N.`)
        : null
    },
  },
  {
    id: 'variables-of-the-launcher',
    targets: NOW,
    source: 'prime-rl-configs/configs/shared.py: env_vars',
    example: { env_vars: { CUDA_VISIBLE_DEVICES: '0' } },
    check(table) {
      for (const component of COMPONENTS) {
        const variables = at(table, `${component}env_vars`)
        const own = isTable(variables) ? Object.keys(variables).find((name) => LAUNCHERS_OWN.test(name)) : undefined
        if (own)
          return broken(`${component}env_vars.${own}`, `${own} is set by the launcher; it cannot stand in env_vars.`)
      }
      return null
    },
  },
  {
    id: 'images-need-bfloat16',
    targets: NOW,
    source: 'prime-rl-configs/configs/trainer.py: vlm',
    example: {
      model: { vlm: { vision_encoder_attr: 'v', language_model_attr: 'l' } },
      trainer: { model: { impl: 'hf' } },
    },
    check(table) {
      if (!has(table, 'model.vlm') && !has(table, 'trainer.model.vlm')) return null
      const right =
        at(table, 'trainer.model.optimization_dtype') === 'bfloat16' &&
        at(table, 'trainer.model.reduce_dtype') === 'bfloat16' &&
        at(table, 'trainer.model.impl') === 'custom'
      return right
        ? null
        : broken(
            'trainer.model.impl',
            'A model that sees needs trainer.model.impl = "custom" and optimization_dtype and reduce_dtype = "bfloat16".',
          )
    },
  },
  {
    id: 'who-samples',
    targets: NOW,
    source: 'prime-rl-configs/configs/algorithm.py: sampling.source',
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
    source: 'prime-rl-configs/configs/algorithm.py: opd.teacher',
    example: { orchestrator: { algo: { type: 'opd' } } },
    check: (table) =>
      at(table, 'orchestrator.algo.type') === 'opd' && !has(table, 'orchestrator.algo.teacher')
        ? broken('orchestrator.algo.type', 'orchestrator.algo.type = "opd" needs orchestrator.algo.teacher.')
        : null,
  },
  {
    id: 'lockstep-over-nccl',
    targets: THEN,
    source: 'src/prime_rl/rl.py: nccl needs max_async_level = 1',
    example: { max_async_level: 2, weight_broadcast: { type: 'nccl' } },
    check: (table) =>
      at(table, 'weight_broadcast.type') === 'nccl' && number(table, 'max_async_level', 1) !== 1
        ? broken('max_async_level', 'weight_broadcast.type = "nccl" needs max_async_level = 1.')
        : null,
  },
  {
    id: 'one-temperature',
    targets: ['prime-rl-2026-01'],
    source: 'src/prime_rl/orchestrator/config.py: temperature XOR temp_scheduler',
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
    source: 'src/prime_rl/orchestrator/config.py: easy_threshold > hard_threshold',
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
    id: 'traces-are-short',
    targets: BOTH,
    source: 'prime-rl-configs/configs/trainer.py: trace_path and max_steps',
    example: { max_steps: 100, trainer: { trace_path: 'trace' } },
    check: (table) =>
      has(table, 'trainer.trace_path') && number(table, 'max_steps', Number.POSITIVE_INFINITY) >= 10
        ? broken(
            'trainer.trace_path',
            'trainer.trace_path is for runs of fewer than 10 steps: a trace of more does not fit.',
          )
        : null,
  },
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

export function brokenRules(table: Table, target: TargetId): Broken[] {
  return RULES.filter(({ targets }) => targets.includes(target)).flatMap((rule) => rule.check(table) ?? [])
}
