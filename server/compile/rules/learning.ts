// Rules about how prime-rl learns: schedule, adapters, memory and loss of its trainer.

import { at, BOTH, broken, has, NOW, number, type Rule, THEN } from './rule.ts'

export const LEARNING_RULES: Rule[] = [
  {
    id: 'schedule-fits',
    targets: BOTH,
    source: 'prime-rl-configs/configs/trainer.py: validate_scheduler',
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
    id: 'schedule-has-a-phase',
    targets: NOW,
    source: 'prime-rl-configs/configs/trainer.py: validate_scheduler',
    example: { max_steps: 15, trainer: { scheduler: { type: 'linear', warmup_steps: 0, decay_steps: 0 } } },
    check(table) {
      const base = 'trainer.scheduler'
      if (at(table, `${base}.type`) !== 'linear') return null
      const [warm, decay] = [number(table, `${base}.warmup_steps`, 10), number(table, `${base}.decay_steps`, 10)]
      if (warm === 0 && decay === 0)
        return broken(`${base}.type`, 'A linear schedule without warm-up and decay is refused; say "constant".')
      return decay > 0 && !has(table, 'max_steps')
        ? broken(`${base}.decay_steps`, `decay_steps = ${decay} counts back from max_steps, which is not given.`)
        : null
    },
  },
  {
    id: 'adapters-by-file',
    targets: BOTH,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.auto_setup_weight_broadcast',
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
    id: 'one-way-off-the-gpu',
    targets: NOW,
    source: 'prime-rl-configs/configs/trainer.py: ModelConfig.cpu_offload_mutual_exclusion',
    example: { trainer: { model: { fsdp_cpu_offload: true } } },
    check(table) {
      const base = 'trainer.model'
      const optimizer = at(table, `${base}.optim_cpu_offload`) !== false
      const full = has(table, `${base}.full_offload`) && at(table, `${base}.full_offload`) !== false
      if (at(table, `${base}.fsdp_cpu_offload`) === true && (optimizer || full))
        return broken(
          `${base}.fsdp_cpu_offload`,
          `${base}.fsdp_cpu_offload = true needs optim_cpu_offload = false, which is on unless said, and no full_offload.`,
        )
      return full && optimizer
        ? broken(
            `${base}.full_offload`,
            `${base}.full_offload needs optim_cpu_offload = false, which is on unless said.`,
          )
        : null
    },
  },
  {
    id: 'optimizers-off-the-gpu',
    targets: NOW,
    source:
      'prime-rl-configs/configs/trainer.py: TrainerConfig.validate_opt_and_fsdp_offload and full_optimizer_offload_requires_supported_optimizer',
    example: {
      trainer: { optim: { type: 'muon' }, model: { fsdp_cpu_offload: true, optim_cpu_offload: false } },
    },
    check(table) {
      const type = at(table, 'trainer.optim.type') ?? 'adamw'
      if (type === 'muon' && at(table, 'trainer.model.fsdp_cpu_offload') === true)
        return broken(
          'trainer.model.fsdp_cpu_offload',
          'Muon does not work with trainer.model.fsdp_cpu_offload = true.',
        )
      const full = at(table, 'trainer.model.full_offload')
      return full != null && full !== false && type !== 'adamw' && type !== 'sign_sgd'
        ? broken(
            'trainer.model.full_offload',
            `trainer.model.full_offload works with adamw and sign_sgd, not with ${JSON.stringify(type)}.`,
          )
        : null
    },
  },
  {
    id: 'masks-have-a-width',
    targets: THEN,
    source: 'src/prime_rl/trainer/rl/config.py: LossConfig.validate_mask_bounds',
    example: { trainer: { loss: { token_mask_low: 8 } } },
    check(table) {
      for (const [name, below, above] of [
        ['token_mask', 0.125, 8],
        ['geo_mask', 0.1, 10],
        ['sequence_mask', 0, 100],
      ] as const) {
        const low = number(table, `trainer.loss.${name}_low`, below)
        const high = number(table, `trainer.loss.${name}_high`, above)
        if (low >= high)
          return broken(
            `trainer.loss.${name}_${has(table, `trainer.loss.${name}_low`) ? 'low' : 'high'}`,
            `${name}_low = ${low} must be below ${name}_high = ${high}.`,
          )
      }
      return null
    },
  },
  {
    id: 'images-need-bfloat16',
    targets: NOW,
    source: 'prime-rl-configs/configs/trainer.py: ModelConfig.vlm_only_with_custom_impl',
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
    id: 'traces-are-short',
    targets: BOTH,
    source: 'prime-rl-configs/configs/trainer.py: TrainerConfig.dont_do_massive_traces',
    example: { max_steps: 100, trainer: { trace_path: 'trace' } },
    check: (table) =>
      has(table, 'trainer.trace_path') && number(table, 'max_steps', Number.POSITIVE_INFINITY) >= 10
        ? broken(
            'trainer.trace_path',
            'trainer.trace_path is for runs of fewer than 10 steps: a trace of more does not fit.',
          )
        : null,
  },
]
