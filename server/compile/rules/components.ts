// Rules about what the components of prime-rl must say alike.

import { at, BOTH, broken, has, NOW, number, type Rule } from './rule.ts'

export const COMPONENT_RULES: Rule[] = [
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
    id: 'resume-from-one-place',
    targets: NOW,
    source: 'prime-rl-configs/configs/shared.py: ResumeConfig.validate_step_xor_dir',
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
    id: 'one-folder-of-the-run',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.auto_setup_run_dir',
    example: { trainer: { output_dir: 'elsewhere' } },
    check(table) {
      for (const component of ['trainer', 'orchestrator']) {
        const own = at(table, `${component}.output_dir`)
        const run = `${at(table, 'output_dir') ?? 'outputs'}/${at(table, 'run.dir') ?? at(table, 'run.name')}`
        if (typeof own === 'string' && own !== run)
          return broken(
            `${component}.output_dir`,
            `${component}.output_dir follows from output_dir and run.name there; leave it out.`,
          )
      }
      return null
    },
  },
  {
    id: 'wandb-online',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: SharedWandbConfig.validate_not_offline',
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
]
