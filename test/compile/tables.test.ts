// Each target's table speaks of every knob, and of no other.

import { describe, expect, test } from 'vitest'
import { load } from '../../configs/load.ts'
import { knobs, runConfig } from '../../configs/schema.ts'
import { environments } from '../../environments/index.ts'
import { compile, compileConfig, TARGETS } from '../../server/compile/compile.ts'
import { counterpartOf } from '../../server/compile/environments.ts'
import { brokenRules, RULES } from '../../server/compile/rules.ts'
import type { TargetId } from '../../server/compile/target.ts'

const targets = Object.keys(TARGETS) as TargetId[]
const run = (text: string) => `model = "Qwen/Qwen3-0.6B"\n${text}`
const environment = '[[env]]\nid = "primeintellect/reverse-text"\n'

describe.each(targets)('the table of %s', (id) => {
  test('has one row for each knob', () => {
    const rows = TARGETS[id].rows.map(({ knob }) => knob)
    expect([...rows].sort()).toEqual(
      knobs()
        .map(({ path }) => path)
        .sort(),
    )
    expect(new Set(rows).size).toBe(rows.length)
  })

  test('writes a run of defaults without a refusal, and only keys that the target knows', () => {
    const config = runConfig.parse({ model: 'Qwen/Qwen3-0.6B', env: [{ id: 'primeintellect/reverse-text' }] })
    const { findings } = compileConfig(config, id)
    expect(findings.filter(({ act }) => act === 'refuse')).toEqual([])
  })
})

describe('supervised runs', () => {
  const SFT = `type = "sft"\nmodel = "Qwen/Qwen3-0.6B"\nseed = 7\nmax_steps = 100\nbatch_size = 32\nseq_len = 4096\nlearning_rate = 2e-5\n[data]\nname = "PrimeIntellect/Reverse-Text-SFT"\nsplit = "test"\n[lora]\nenabled = false\n`

  test('have one row for each knob too', () => {
    const rows = TARGETS['prime-rl'].supervised!.rows.map(({ knob }) => knob)
    expect([...rows].sort()).toEqual(
      knobs()
        .map(({ path }) => path)
        .sort(),
    )
  })

  test('are written for the program sft, and come back', () => {
    const result = compile(SFT, 'prime-rl')
    if (result.problems) throw new Error(result.problems.map(({ sentence }) => sentence).join(' '))
    const lines = [
      '[data]',
      'type = "sft"',
      'seq_len = 4096',
      'batch_size = 32',
      'splits = [ "test" ]',
      '[optim]',
      'lr = 0.00002',
    ]
    for (const line of [...lines, 'name = "PrimeIntellect/Reverse-Text-SFT"', '[ckpt]'])
      expect(result.text).toContain(line)
    expect(result.text).not.toMatch(/orchestrator|trainer|inference/)
    const [there, back] = [load(SFT).config!, load(result.text).config!]
    expect({ ...back, remote: {}, checkpointing: {} }).toEqual({ ...there, remote: {}, checkpointing: {} })
  })

  test('learn from data sets there, never from the gold answers of an environment', () => {
    const text = 'type = "sft"\nmodel = "Qwen/Qwen3-0.6B"\n[[env]]\nid = "reverse-text"\n'
    expect(compile(text, 'prime-rl').problems).toMatchObject([
      { sentence: expect.stringContaining('the gold answers of reverse-text cannot go along') },
    ])
    expect(compile(text, 'prime-rl-2026-01').problems?.[0].sentence).toContain('type = "sft" cannot go along')
  })
})

describe('rules between fields', () => {
  test.each(RULES.map((rule) => [rule.id, rule] as const))('%s: its example breaks it', (_, rule) => {
    expect(rule.check(rule.example)?.sentence).toMatch(/\.$/)
    for (const target of rule.targets) expect(brokenRules(rule.example, target).length).toBeGreaterThan(0)
  })

  test('say where they come from, and have names of their own', () => {
    expect(new Set(RULES.map(({ id }) => id)).size).toBe(RULES.length)
    for (const { source } of RULES) expect(source).toMatch(/\.py: /)
  })

  test.each([
    [
      'prime-rl',
      `${environment}[deployment]\ntype = "multi_node"\nnum_train_nodes = 2\nnum_infer_nodes = 1`,
      5,
      'needs a [slurm] table',
    ],
    ['prime-rl', `${environment}[weight_broadcast]\ntype = "nccl"`, 5, 'cannot carry adapters'],
    ['prime-rl', `${environment}[wandb]\noffline = true`, 5, 'wandb.offline = true is refused'],
    ['prime-rl', `${environment}[env_vars]\nCUDA_VISIBLE_DEVICES = "0"`, 5, 'set by the launcher'],
    ['prime-rl', `${environment}[resume]\nstep = 3\ndir = "a/step_3"`, 6, 'not from both'],
  ] as const)('%s refuses what breaks one, at its line: %#', (id, text, line, part) => {
    const result = compile(run(text), id)
    expect(result.problems?.map((problem) => [problem.line, problem.sentence.includes(part)])).toContainEqual([
      line,
      true,
    ])
  })
})

describe('what the user asks for never vanishes', () => {
  test.each([
    ['[kl_penalty]\nenabled = true', 'no reference policy is held there'],
    ['[loss]\ntype = "ppo"', 'no clipped ratio'],
    ['[loss]\nentropy_coefficient = 0.01', 'never rewarded'],
    ['[sampling]\ntop_p = 0.9', 'top_p is fixed at 1'],
    ['[difficulty_filter]\nenabled = true\nmin_reward_variance = 0.1', 'not filtered by the variance'],
    ['num_iterations = 2', 'learned from once'],
    ['[advantage]\ndivide_by_deviation = true', 'never divided'],
    ['mask_truncated_completions = true', 'cut-off completions'],
  ])('prime-rl refuses %s', (text, part) => {
    const result = compile(`${run(text)}\n${environment}`, 'prime-rl')
    expect(result.problems?.map(({ sentence }) => sentence).join()).toContain(part)
  })

  test('a setting of this page is noted, and the config compiles', () => {
    const result = compile(run(`[browser]\nrescored_groups = 4\n${environment}`), 'prime-rl')
    expect(result.problems).toBeUndefined()
    const note = result.problems ? undefined : result.notes.find(({ path }) => path === 'browser.rescored_groups')
    expect(note).toMatchObject({ act: 'note', line: 3, column: 1, to: null })
  })

  test('what our view needs is switched on, with the size of the export', () => {
    // 128 rollouts × 2048 tokens × 100 steps × 203 bytes = 5.32 GB
    const result = compile(run(environment), 'prime-rl')
    expect(result.text).toContain('enable_token_export = true')
    expect(result.text).toContain('[ckpt]\ninterval = 50')
    expect(result.text).toContain('[monitors.file]\npath = "metrics.jsonl"')
    expect(result.problems ? '' : result.notes.map(({ sentence }) => sentence).join()).toContain('up to 5.3 GB')
  })

  test('a TypeScript environment without a counterpart in Python is refused with the reason', () => {
    const here = { ...environments[0], python: null }
    const { outcomes } = counterpartOf({ id: here.id, args: {} }, 'env[0]', [here])
    expect(outcomes).toEqual([
      { act: 'refuse', at: 'env[0].id', why: expect.stringContaining('without a counterpart in Python') },
    ])
  })

  test('a bundled environment goes by its Python counterpart, and its own arguments stay here', () => {
    const { id, args, outcomes } = counterpartOf(
      { id: 'reverse-text', args: { min_length: 4, dataset_split: 'test' } },
      'env[0]',
    )
    expect([id, args]).toEqual(['primeintellect/reverse-text', { dataset_split: 'test' }])
    expect(outcomes.map(({ act, at }) => [act, at])).toEqual([
      ['note', 'env[0].id'],
      ['warn', 'env[0].args.min_length'],
    ])
  })

  test('an id that nobody here knows passes as a package name, with a warning', () => {
    const result = compile(run('[[env]]\nid = "my-env"'), 'prime-rl')
    expect(
      result.problems ? [] : result.notes.filter(({ act, path }) => act === 'warn' && path === 'env[0].id'),
    ).toMatchObject([{ line: 3, sentence: expect.stringContaining('needs a Python package of that name') }])
  })
})
