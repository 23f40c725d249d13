// Every other name of a knob, in every vocabulary: it arrives under ours, with the value that was written.

import { describe, expect, test } from 'vitest'
import { PRIME_RL_2026_01 } from '../../configs/dialects/prime-rl-2026-01.ts'
import { PRIME_RL_2026_08 } from '../../configs/dialects/prime-rl-2026-08.ts'
import { DIALECTS, RUN_VOCABULARY } from '../../configs/dialects.ts'
import type { Knob } from '../../configs/knob.ts'
import { load, type Note } from '../../configs/load.ts'
import { getAt, parsePath, setAt, type Table } from '../../configs/path.ts'
import { knobs, type RunConfig } from '../../configs/schema.ts'

const byPath = new Map(knobs().map((knob) => [knob.path, knob]))

/** A value that the knob takes and that is not its default. */
function other(knob: Knob): unknown {
  if (knob.path === 'seq_len') return 4096
  if (knob.path === 'scheduler.min_lr') return 1e-5
  switch (knob.type) {
    case 'boolean':
      return knob.default !== true
    case 'choice':
      return knob.choices!.find((choice) => choice !== knob.default)
    case 'integer':
    case 'number': {
      const candidates = knob.type === 'integer' ? [16, 4, 2, 64] : [0.5, 0.25, 1.5]
      return candidates.find(
        (value) => value !== knob.default && value >= (knob.minimum ?? value) && value <= (knob.maximum ?? value),
      )
    }
    case 'list':
      return ['k_proj']
    default:
      return 'other'
  }
}

function loaded(file: Table): { config: RunConfig; notes: Note[] } {
  const result = load(file)
  if (result.problems) throw new Error(result.problems.map(({ sentence }) => sentence).join('\n'))
  return result
}

const concrete = (pattern: string) => parsePath(pattern.replaceAll('[]', '[0]'))!
const withEnvironment = (file: Table, pattern: string): Table => {
  if (pattern.startsWith('env[]')) setAt(file, ['env', 0, 'id'], 'mine')
  if (pattern.startsWith('eval.env[]')) setAt(file, ['eval', 'env', 0, 'id'], 'mine')
  return file
}

describe.each(DIALECTS.map((dialect) => [dialect.name, dialect] as const))('%s', (_, dialect) => {
  const renames = Object.entries({ ...dialect.renames, ...dialect.echoes })
  test.skipIf(renames.length === 0).each(renames)('%s is %s', (from, to) => {
    const knob = byPath.get(to)!
    expect(knob, `${to} is a knob`).toBeDefined()
    const value = /id$|name$|^model$/.test(to) ? 'mine' : other(knob)
    const file: Table = {}
    if (!from.endsWith('.id') && !from.endsWith('env_id')) withEnvironment(file, from)
    setAt(file, concrete(from), value)
    const { config, notes } = loaded(file)
    expect(getAt(config, concrete(to))).toEqual(value)
    expect(notes.some(({ kind, path }) => kind === 'alias' && path === from.replaceAll('[]', '[0]'))).toBe(true)
  })

  const kept = Object.entries(dialect.keeps ?? {})
  test.skipIf(kept.length === 0).each(kept)('%s waits in remote.%s', (from, to) => {
    const { config, notes } = loaded(setIn({}, from, 'x'))
    expect(getAt(config.remote, concrete(to))).toBe('x')
    expect(notes.some(({ kind, path }) => kind === 'remote' && path === from)).toBe(true)
  })
})

function setIn(file: Table, path: string, value: unknown): Table {
  setAt(file, concrete(path), value)
  return file
}

test('a knob never goes by a name that is another knob of ours', () => {
  const renamed = DIALECTS.flatMap(({ renames, echoes }) => Object.keys({ ...renames, ...echoes }))
  expect(renamed.filter((name) => byPath.has(name))).toEqual([])
})

describe("prime-rl's key lists", () => {
  const paths = [PRIME_RL_2026_01, PRIME_RL_2026_08].flatMap((list) =>
    list
      .trim()
      .split('\n')
      .filter((line) => line !== '')
      .flatMap((line) => {
        const [table, keys] = line.split(': ')
        return (keys ?? table).split(' ').map((key) => (keys && table !== '(root)' ? `${table}.${key}` : key))
      }),
  )

  test('are long, and every key of them is known', () => {
    expect(new Set(paths).size).toBeGreaterThan(250)
    for (const path of paths) expect(RUN_VOCABULARY.isRemote(concrete(path.replace('*', ''))), path).toBe(true)
  })

  test('a key that is no knob is kept where it stood, and given back as it came', () => {
    const { config, notes } = loaded({
      slurm: { partition: 'cluster', nodelist: 'a' },
      inference: { vllm: { max_model_len: 4096, anything_at_all: { deep: [1] } } },
      orchestrator: { heartbeat: { url: 'x' } },
      trainer: { model: { attn: 'auto', lora: { rank: 8 } } },
    })
    expect(config.remote.prime_rl).toEqual({
      slurm: { partition: 'cluster', nodelist: 'a' },
      inference: { vllm: { max_model_len: 4096, anything_at_all: { deep: [1] } } },
      orchestrator: { heartbeat: { url: 'x' } },
      trainer: { model: { attn: 'auto' } },
    })
    expect(notes.filter(({ kind }) => kind === 'remote').map(({ sentence }) => sentence)).toContain(
      'slurm.partition is used only remotely.',
    )
  })
})

describe('prime-rl of 2026-08, nested', () => {
  const { config, notes } = loaded({
    max_steps: 20,
    seq_len: 1024,
    model: { name: 'Qwen/Qwen3-0.6B' },
    monitors: { wandb: { project: 'p' } },
    ckpt: { interval: 10, keep_last: 2 },
    deployment: { num_train_gpus: 1, num_infer_gpus: 1 },
    orchestrator: {
      batch_size: 128,
      group_size: 16,
      concurrency: { max_inflight: 64 },
      algo: { type: 'max_rl', length_penalty: { type: 'linear', output_weight: 0.5 } },
      train: {
        filter_zero_advantages: false,
        sampling: { temperature: 0.9, max_completion_tokens: 128 },
        source: [
          {
            name: 'reverse',
            ratio: 2,
            env: { taskset: { id: 'reverse-text', min_length: 4 }, agent: { max_turns: 3 } },
            curriculum: {
              sampler: { type: 'difficulty_pool' },
              gates: { any: { type: 'advantage_range', reject_max: 0.1 } },
            },
          },
        ],
      },
      eval: {
        interval: 5,
        group_size: 2,
        sampling: { temperature: 0 },
        source: [{ env: { taskset: { id: 'reverse-text' } } }],
      },
    },
    trainer: { optim: { lr: 3e-6, type: 'adamw', betas1: 0.8, max_norm: 'None' }, loss: { kl_tau: 0.01 } },
  })

  test('arrives knob by knob', () => {
    expect(config).toMatchObject({
      model: 'Qwen/Qwen3-0.6B',
      max_steps: 20,
      seq_len: 1024,
      batch_size: 128,
      rollouts_per_example: 16,
      max_concurrent: 64,
      learning_rate: 3e-6,
      max_grad_norm: null,
      filter_zero_advantages: false,
      optimizer: { type: 'adamw', beta1: 0.8 },
      sampling: { temperature: 0.9, max_tokens: 128 },
      env: [{ id: 'reverse-text', name: 'reverse', ratio: 2, args: { min_length: 4 } }],
      advantage: { type: 'max_rl', length_penalty: { output: 0.5, input: 0.1, turns: 0.1 } },
      loss: { type: 'default', kl_tau: 0.01 },
      curriculum: { sampler: 'difficulty_pool', advantage_range: { reject_min: 0, reject_max: 0.1 } },
      eval: { interval: 5, rollouts_per_example: 2, temperature: 0, env: [{ id: 'reverse-text' }] },
      checkpointing: { save_every_n_steps: 10, keep_n_checkpoints: 2 },
      wandb: { project: 'p' },
    })
  })

  test('keeps what belongs to one source beside it', () => {
    expect(config.env[0].remote).toMatchObject({ env: { agent: { max_turns: 3 } } })
    expect(config.remote.prime_rl).toEqual({ deployment: { num_train_gpus: 1, num_infer_gpus: 1 } })
  })

  test('trains every weight, as prime-rl does without a LoRA table, and says so', () => {
    expect(config.lora.enabled).toBe(false)
    expect(notes.some(({ sentence }) => sentence.startsWith('Without [trainer.model.lora]'))).toBe(true)
  })

  test('says which defaults of prime-rl do not hold here', () => {
    const told = loaded({ orchestrator: { batch_size: 64 } }).notes.find(({ sentence }) =>
      sentence.startsWith('What the file'),
    )
    expect(told?.sentence).toContain('rollouts_per_example = 8 (there 1)')
    expect(told?.sentence).toContain('learning_rate = 1e-4 (there 1e-6)')
    expect(told?.sentence).toContain('max_async_level = 0 (there 1)')
  })

  test.each(['rae', 'opd', 'echo'])('the algorithm %s is kept, with a warning', (type) => {
    const result = loaded({ orchestrator: { algo: { type } } })
    expect(result.config.advantage.type).toBe('grpo')
    expect(result.config.remote.prime_rl).toMatchObject({ orchestrator: { algo: { type } } })
    expect(result.notes.find(({ path }) => path === 'orchestrator.algo.type')?.warning).toBe(true)
  })

  test('a custom loss and sign SGD are kept, with a warning', () => {
    const result = loaded({ trainer: { loss: { type: 'custom', import_path: 'a.b' }, optim: { type: 'sign_sgd' } } })
    expect(result.config.loss.type).toBe('default')
    expect(result.config.remote.prime_rl).toMatchObject({
      trainer: { loss: { type: 'custom', import_path: 'a.b' }, optim: { type: 'sign_sgd' } },
    })
    expect(result.notes.filter(({ warning, path }) => warning && path.startsWith('trainer.')).length).toBeGreaterThan(1)
  })
})

describe('prime-rl of 2026-01, nested', () => {
  const { config, notes } = loaded({
    inference_gpu_ids: [0],
    trainer_gpu_ids: [1],
    model: { name: 'Qwen/Qwen3-0.6B' },
    ckpt: {},
    wandb: { project: 'p', name: 'n' },
    orchestrator: {
      batch_size: 128,
      rollouts_per_example: 16,
      oversampling_factor: 2,
      max_async_level: 1,
      sampling: { max_tokens: 128, extra_body: { top_k: 5, logit_bias: {} } },
      env: [{ id: 'reverse-text' }, { id: 'mine', address: 'tcp://a' }],
      buffer: { online_difficulty_filtering: true, easy_threshold: 0.9, env_ratios: [1, 3], seed: 4 },
      eval: { eval_base_model: false, num_examples: -1, env: [{ id: 'reverse-text', num_examples: 9 }] },
      val: { interval: 10, num_examples: 16 },
      mask_env_responses: true,
    },
    trainer: { model: { lora: { rank: 8 } }, loss: { token_mask_high: 4, adv_tau: 2 } },
  })

  test('arrives knob by knob', () => {
    expect(config).toMatchObject({
      rollouts_per_example: 16,
      oversampling_factor: 2,
      max_async_level: 1,
      lora: { enabled: true, r: 8 },
      loss: { type: 'ratio_mask', token_mask_high: 4, adv_tau: 2 },
      sampling: { max_tokens: 128, top_k: 5, extra_body: { logit_bias: {} } },
      env: [
        { id: 'reverse-text', ratio: 1 },
        { id: 'mine', ratio: 3, remote: { address: 'tcp://a' } },
      ],
      buffer: { online_difficulty_filtering: true, easy_threshold: 0.9 },
      eval: { skip_first_step: true, interval: 10, num_examples: 16, env: [{ num_examples: 9 }] },
    })
    expect(config.remote.prime_rl).toMatchObject({
      inference_gpu_ids: [0],
      trainer_gpu_ids: [1],
      orchestrator: { buffer: { seed: 4 }, eval: { num_examples: -1 } },
    })
  })

  test('says what is not so here', () => {
    const told = notes.map(({ sentence }) => sentence).join('\n')
    expect(told).toContain("prime-rl's loss of 2026-01")
    expect(told).toContain('asks for every held-out example')
    expect(told).toContain('An empty [ckpt] keeps the last checkpoint only')
  })
})

describe('Hosted Training', () => {
  test('filters before the batch are the advantage gate, after it the zero-advantage switch', () => {
    const enforced = { type: 'zero_advantage', enforce: true }
    expect(loaded({ pre_batch_filters: [enforced] }).config.curriculum.advantage_range).toEqual({
      reject_min: 0,
      reject_max: 0,
    })
    const mixed = loaded({ pre_batch_filters: [enforced, { type: 'repetition' }] }).config
    expect(mixed.pre_batch_filters).toMatchObject([{ type: 'repetition', enforce: false, window: 3000 }])
    expect(loaded({ post_batch_filters: [enforced], filter_zero_advantages: true }).config.filter_zero_advantages).toBe(
      true,
    )
  })

  test('a full fine-tune trains every weight', () => {
    expect(loaded({ type: 'full_finetune', trainer: { optim: { lr: 1e-6 } } }).config).toMatchObject({
      type: 'rl',
      lora: { enabled: false },
      learning_rate: 1e-6,
    })
  })

  test('−1 checkpoints means all of them, and a loss that learns from a teacher is kept with a warning', () => {
    const { config, notes } = loaded({
      checkpoints: { interval: 5, keep_cloud: -1 },
      loss: 'sft',
      teacher: { model: 'big' },
    })
    expect(config.checkpointing).toMatchObject({ save_every_n_steps: 5, keep_n_checkpoints: null })
    expect(config.remote.hosted).toEqual({ loss: 'sft', teacher: { model: 'big' } })
    expect(notes.find(({ path }) => path === 'loss')?.warning).toBe(true)
  })

  test('a task set with its knobs is an environment with args', () => {
    const file = { env: [{ taskset: { id: 'reverse-text', max_length: 9 }, harness: { id: 'null' } }] }
    expect(loaded(file).config.env).toMatchObject([
      { id: 'reverse-text', args: { max_length: 9 }, harness: { id: 'null' } },
    ])
  })

  test('validation is evaluation, unless both are given', () => {
    expect(loaded({ val: { interval: 7 } }).config.eval.interval).toBe(7)
    const both = loaded({ val: { interval: 7 }, eval: { interval: 3 } })
    expect(both.config.eval.interval).toBe(3)
    expect(both.notes.map(({ sentence }) => sentence)).toContain(
      'val.interval gives way to eval.interval, which sets eval.interval too.',
    )
  })
})

describe('vf-rl and the GRPO trainers before it', () => {
  const { config, notes } = loaded({
    model: 'Qwen/Qwen3-0.6B',
    env: { id: 'reverse-text', args: { min_length: 4 } },
    inference: { gpus: 1, args: { enforce_eager: true } },
    trainer: {
      gpus: 1,
      args: {
        run_name: 'r',
        num_generations: 16,
        batch_size: 512,
        beta: 0.001,
        max_tokens: 64,
        lora_rank: 8,
        bf16: true,
        lr_scheduler_type: 'constant_with_warmup',
        warmup_steps: 10,
        mask_ratio_high: 6,
      },
    },
  })

  test('arrives knob by knob', () => {
    expect(config).toMatchObject({
      name: 'r',
      model: 'Qwen/Qwen3-0.6B',
      env: [{ id: 'reverse-text', args: { min_length: 4 } }],
      batch_size: 512,
      rollouts_per_example: 16,
      lora: { enabled: true, r: 8 },
      kl_penalty: { enabled: true, beta: 0.001 },
      sampling: { max_tokens: 64 },
      scheduler: { type: 'constant', warmup_steps: 10 },
      loss: { type: 'ratio_mask', token_mask_high: 6 },
      remote: { vf_rl: { inference: { gpus: 1, args: { enforce_eager: true } }, trainer: { gpus: 1 }, bf16: true } },
    })
    expect(notes.find(({ kind }) => kind === 'default')?.sentence).toContain('max_steps = 100 (there 500)')
  })

  test('beta = 0 switches the penalty off, epsilon chooses the clipped loss', () => {
    expect(loaded({ beta: 0 }).config.kl_penalty).toMatchObject({ enabled: false, beta: 0 })
    expect(loaded({ epsilon: 0.1 }).config.loss).toMatchObject({ type: 'ppo', clip_low: 0.1, clip_high: 0.1 })
  })

  // micro_batch_size = batch_size / steps; with per_device_train_batch_size, batch_size = that × steps.
  test.each([
    [
      { gradient_accumulation_steps: 1, batch_size: 256 },
      { batch_size: 256, micro_batch_size: 8 },
    ],
    [
      { gradient_accumulation_steps: 4, batch_size: 128 },
      { batch_size: 128, micro_batch_size: 32 },
    ],
    [
      { gradient_accumulation_steps: 3, batch_size: 128 },
      { batch_size: 128, micro_batch_size: 43 },
    ],
    [{ gradient_accumulation_steps: 4 }, { batch_size: 128, micro_batch_size: 32 }],
    [
      { gradient_accumulation_steps: 4, per_device_train_batch_size: 16 },
      { batch_size: 64, micro_batch_size: 16 },
    ],
    [
      { gradient_accumulation_steps: 4, micro_batch_size: 2, batch_size: 64 },
      { batch_size: 64, micro_batch_size: 2 },
    ],
  ])('%j are %j', (file, expected) => {
    expect(loaded(file).config).toMatchObject(expected)
  })
})

describe('the wrong table', () => {
  test('a root key after a header is taken and told', () => {
    const { config, notes } = loaded({
      sampling: { learning_rate: 0.5, num_generations: 4 },
      env: [{ id: 'mine', max_steps: 7 }],
    })
    expect(config).toMatchObject({ learning_rate: 0.5, rollouts_per_example: 4, max_steps: 7 })
    expect(notes.filter(({ kind }) => kind === 'moved')).toHaveLength(3)
  })

  test('a key that only one table has is taken at the root', () => {
    expect(loaded({ easy_threshold: 0.9, target_kl: 0.1 }).config).toMatchObject({
      buffer: { easy_threshold: 0.9 },
      kl_penalty: { target_kl: 0.1 },
    })
  })

  test('a name that means many things is not guessed', () => {
    expect(load({ optimizer: { name: 'adamw' } }).problems?.[0].sentence).toContain('Unknown key name in [optimizer]')
  })
})

describe('"None"', () => {
  test('is empty where a knob may be', () => {
    expect(loaded({ max_grad_norm: 'None', eval: { interval: 'none' } }).config).toMatchObject({
      max_grad_norm: null,
      eval: { interval: null },
    })
    expect(load({ learning_rate: 'None' }).problems?.[0].sentence).toContain('must be a number')
  })
})
