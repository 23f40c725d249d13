// RunConfig -> a target's TOML -> RunConfig: the same, but for what the compiler named as lost.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { difference } from '../../configs/difference.ts'
import { load } from '../../configs/load.ts'
import { formatPath, parsePath, setAt, type Table } from '../../configs/path.ts'
import { type RunConfig, runConfig } from '../../configs/schema.ts'
import { tableToToml } from '../../configs/write.ts'
import { compileConfig, type Draft } from '../../server/compile/compile.ts'
import { defaultOf, type TargetId } from '../../server/compile/target.ts'
import { anyConfig } from '../configs/configs.ts'

const base = { model: 'Qwen/Qwen3-0.6B', env: [{ id: 'primeintellect/reverse-text' }] }

/** What the target refuses is set back to its default, so that everything else is still compared. */
function allowed(config: RunConfig, target: TargetId): { config: RunConfig; draft: Draft } {
  const made = structuredClone(config) as RunConfig & Table
  made.model = base.model
  if (made.env.length === 0) made.env = runConfig.parse(base).env
  for (let tries = 0; tries < 40; tries++) {
    const draft = compileConfig(made, target)
    const refused = draft.findings.filter(({ act }) => act === 'refuse')
    if (refused.length === 0) return { config: made, draft }
    for (const { knob, sentence } of refused) {
      const knobOf = knob.replace(/^(wandb|env|eval\.env|remote)\b.*/, '$1')
      if (knobOf === '') throw new Error(sentence)
      const value = {
        env: runConfig.parse(base).env,
        'eval.env': [],
        remote: runConfig.parse({}).remote,
        wandb: undefined,
      }
      const back = knobOf in value ? value[knobOf as 'env'] : defaultOf(knobOf)
      setAt(made, parsePath(knobOf)!, back)
    }
  }
  throw new Error('What the compiler refuses stays refused at the default.')
}

const isNamed = (path: string, lost: readonly string[]) =>
  lost.some(
    (name) =>
      path === name || path.startsWith(`${name}.`) || path.startsWith(`${name}[`) || name.startsWith(`${path}.`),
  )

function unnamed(config: RunConfig, target: TargetId): string[] {
  const { config: asked, draft } = allowed(config, target)
  const text = tableToToml(draft.table)
  const back = load(text)
  if (back.problems) throw new Error(`${back.problems.map(({ sentence }) => sentence).join(' ')}\n${text}`)
  const lost = draft.findings.flatMap((finding) => finding.lost)
  return difference(asked, back.config)
    .map(({ path }) => formatPath(path))
    .filter((path) => !isNamed(path, lost))
}

const unit = fc.double({ min: 0, max: 1, noNaN: true }).map((value) => value + 0)
const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })
const named = fc.record({
  id: fc.constantFrom('owner/one', 'owner/two@0.3.1', 'plain'),
  name: fc.constantFrom('a', 'b-c'),
})

/** Knobs that checks tie to one another, which anyConfig leaves alone; max_steps is 50 there. */
const tied = fc.record({
  max_async_level: optional(fc.integer({ min: 0, max: 3 })),
  oversampling_factor: optional(fc.constantFrom(1, 1.5, 2)),
  scheduler: optional(
    fc.record({
      type: fc.constantFrom('constant', 'linear', 'cosine'),
      warmup_steps: fc.integer({ min: 0, max: 20 }),
      decay_steps: fc.integer({ min: 0, max: 20 }),
    }),
  ),
  advantage: optional(fc.record({ length_penalty: fc.option(fc.record({ output: unit, input: unit, turns: unit })) })),
  buffer: optional(
    fc.record({ online_difficulty_filtering: fc.boolean(), easy_threshold: fc.constantFrom(null, 0.9) }),
  ),
  curriculum: optional(
    fc.record({
      sampler: fc.constantFrom('standard', 'difficulty_pool'),
      advantage_range: fc.constantFrom(null, { reject_min: 0, reject_max: 0 }, { reject_min: -0.1, reject_max: 0.1 }),
    }),
  ),
  sampling: optional(
    fc.record({
      temp_scheduler: fc.constantFrom(
        null,
        { start: 1, end: 0.5 },
        { type: 'cosine', start: 1.5, end: 1, total_steps: 20 },
      ),
      enable_thinking: fc.constantFrom(null, true, false),
      extra_body: fc.constantFrom({}, { detail: { level: 2 } }),
    }),
  ),
  lora: optional(fc.record({ enabled: fc.boolean(), use_rslora: fc.boolean(), r: fc.constantFrom(4, 16) })),
  eval: optional(
    fc.record({
      interval: fc.constantFrom(null, 10),
      env: fc.array(named, { maxLength: 1 }),
      min_p: fc.constantFrom(null, 0.1),
    }),
  ),
  env: fc.array(fc.record({ id: named.map(({ id }) => id), harness: fc.constantFrom({}, { id: 'bash' }) }), {
    minLength: 1,
    maxLength: 1,
  }),
  wandb: optional(fc.record({ tags: fc.constantFrom(['x'], []), offline: fc.boolean() })),
})

describe.each(['prime-rl', 'prime-rl-2026-01', 'hosted'] as const)('through %s and back', (target) => {
  test('any config is the same but for the named losses', () => {
    fc.assert(
      fc.property(anyConfig, (config) => {
        expect(unnamed(config, target)).toEqual([])
      }),
      { numRuns: 400 },
    )
  })

  test('and so is one whose tied knobs are drawn together', () => {
    fc.assert(
      fc.property(tied, (knobs) => {
        const loaded = load({ model: base.model, max_steps: 50, ...JSON.parse(JSON.stringify(knobs)) })
        if (loaded.problems) throw new Error(loaded.problems.map(({ sentence }) => sentence).join(' '))
        expect(unnamed(loaded.config, target)).toEqual([])
      }),
      { numRuns: 400 },
    )
  })

  test('and so is one whose every knob that goes along is set', () => {
    const config = runConfig.parse({
      ...base,
      max_steps: 300,
      batch_size: 64,
      rollouts_per_example: 16,
      learning_rate: 3e-5,
      max_grad_norm: 0.3,
      max_async_level: 1,
      seq_len: 4096,
      optimizer: { beta1: 0.8, beta2: 0.9, weight_decay: 0.1 },
      scheduler: { type: 'linear', warmup_steps: 20, decay_steps: 30, min_lr: 1e-6 },
      sampling: { max_tokens: 700, temperature: 0.9, repetition_penalty: 1.1, min_tokens: 3, stop: ['</s>'] },
      lora: { r: 8, alpha: 64, target_modules: ['q_proj', 'v_proj'] },
      checkpointing: { save_every_n_steps: 25, keep_n_checkpoints: 4 },
      wandb: { project: 'p', name: 'n', entity: 'e' },
    })
    expect(unnamed(config, target)).toEqual([])
  })
})

test('a loss is named only where there is one: a plain run comes back whole but for what is switched on and spelled out', () => {
  const config = runConfig.parse({ ...base, max_async_level: 1, checkpointing: { save_every_n_steps: 10 } })
  const { draft } = allowed(config, 'prime-rl')
  expect([...new Set(draft.findings.flatMap(({ lost }) => lost))].sort()).toEqual([
    'env[0].id',
    'max_async_level',
    'remote.prime_rl.monitors.file.path',
    'remote.prime_rl.trainer.enable_token_export',
  ])
  const back = load(tableToToml(draft.table))
  const kept = {
    ...config.remote,
    prime_rl: { monitors: { file: { path: 'metrics.jsonl' } }, trainer: { enable_token_export: true } },
  }
  expect(back.config).toEqual({ ...config, max_async_level: 0, remote: kept })
})
