import { describe, expect, test } from 'vitest'
import { GROUPS, jsonSchema, type Knob } from '../../configs/knob.ts'
import { load } from '../../configs/load.ts'
import { getAt, parsePath } from '../../configs/path.ts'
import { evalKnobs } from '../../configs/schema/evaluation.ts'
import { gepaKnobs } from '../../configs/schema/gepa.ts'
import { knobs, runConfig, SFT_KEYS, sftConfig } from '../../configs/schema.ts'

describe.each([
  ['a run', knobs()],
  ['an evaluation', evalKnobs],
  ['a prompt optimisation', gepaKnobs],
] as const)('the knobs of %s', (_, all: readonly Knob[]) => {
  test('each have a label, a sentence of help and a group', () => {
    for (const knob of all) {
      expect(knob.label, knob.path).toMatch(/^\S.+/)
      expect(knob.help, knob.path).toMatch(/^.{10,}[.]$/s)
      expect(GROUPS, knob.path).toContain(knob.group)
    }
  })

  test('are each written once', () => {
    expect(new Set(all.map(({ path }) => path)).size).toBe(all.length)
  })
})

describe('the defaults', () => {
  const defaults = runConfig.parse({})

  test('are those of Hosted Training, then of prime-rl 2026-08', () => {
    expect(defaults).toMatchObject({
      max_steps: 100,
      batch_size: 128,
      rollouts_per_example: 8,
      learning_rate: 1e-4,
      max_grad_norm: 1,
      max_off_policy_steps: 8,
      oversampling_factor: 1,
      seq_len: 2048,
      optimizer: { type: 'adamw', beta1: 0.9, beta2: 0.999, weight_decay: 0.01 },
      scheduler: { type: 'constant' },
      sampling: { temperature: 1, top_p: 1, top_k: -1, min_p: 0 },
      lora: { r: 16, alpha: 32, dropout: 0 },
      advantage: { type: 'grpo', divide_by_deviation: false },
      loss: { type: 'default', dppo_mask_low: 0.2, dppo_mask_high: 0.2, adv_tau: 1, kl_tau: 1e-3, ipo_threshold: 0.1 },
      filter_zero_advantages: true,
    })
  })

  test('trains in step where the documents train one batch behind', () => {
    expect(defaults.max_async_level).toBe(0)
  })

  test('are what the knobs say they are, and allowed', () => {
    for (const knob of knobs().filter(({ path, required }) => !path.includes('[]') && !required)) {
      const value = getAt(defaults, parsePath(knob.path)!)
      const isOpen = knob.type === 'table' || /length_penalty|advantage_range|temp_scheduler/.test(knob.path)
      if (!isOpen) expect(value, knob.path).toEqual(knob.default)
    }
  })

  test('load again as they are', () => {
    expect(load(JSON.stringify(defaults)).config).toEqual(defaults)
  })
})

describe('the range of a knob', () => {
  const find = (path: string) => knobs().find((knob) => knob.path === path)

  test('is that of the schema', () => {
    expect(find('sampling.temperature')).toMatchObject({ type: 'number', minimum: 0, maximum: 2, nullable: false })
    expect(find('optimizer.beta2')).toMatchObject({ minimum: 0, maximum: 1, exclusiveMaximum: true })
    expect(find('eval.interval')).toMatchObject({ type: 'integer', nullable: true, default: null, unit: 'steps' })
    expect(find('loss.type')).toMatchObject({ type: 'choice', choices: ['default', 'ipo', 'ratio_mask', 'ppo'] })
    expect(find('buffer.easy_threshold')).toMatchObject({ type: 'number', nullable: true, minimum: null })
    expect(find('env[].id')).toMatchObject({ type: 'string', required: true })
    expect(find('lora.target_modules')).toMatchObject({ type: 'list' })
    expect(find('sampling.enable_thinking')).toMatchObject({ type: 'boolean', nullable: true })
  })

  test('stands in the JSON Schema too, with label and help', () => {
    const schema = jsonSchema(runConfig)
    expect(schema.properties?.learning_rate).toMatchObject({
      title: 'Learning rate',
      minimum: 0,
      default: 1e-4,
      type: 'number',
    })
    expect(schema.properties?.learning_rate.description).toContain('1e-3')
    expect(schema.required).toBeUndefined()
  })
})

describe('what is not used here', () => {
  const notesOf = (file: Record<string, unknown>) =>
    load(file).notes!.map(({ kind, sentence }) => `${kind}: ${sentence}`)

  test.each([
    [{ lora: { dropout: 0.1 } }, 'not yet: lora.dropout is not used here yet'],
    [{ env_files: ['secrets.env'] }, 'remote: env_files is used only remotely'],
    [{ wandb: { project: 'p' } }, 'remote: [wandb] is used only remotely'],
    [{ pre_batch_filters: [{ type: 'gibberish' }] }, 'not yet: pre_batch_filters is not used here yet'],
  ])('%j is accepted and noted', (file, sentence) => {
    expect(notesOf(file).some((note) => note.startsWith(sentence))).toBe(true)
  })

  test('every such knob, set to anything but its default, is noted', () => {
    const values: Record<string, unknown> = { boolean: true, integer: 3, number: 0.5, string: 'x', list: ['x'] }
    for (const knob of knobs().filter(
      ({ used, path }) => used !== 'browser' && !/\[\]|temp_scheduler|^pre_batch|thinking|^eval\.env/.test(path),
    )) {
      const value =
        knob.type === 'choice'
          ? knob.choices!.find((choice) => choice !== knob.default)
          : knob.type === 'table'
            ? { a: 1 }
            : knob.default === true
              ? false
              : knob.path === 'oversampling_factor'
                ? 1.5
                : values[knob.type]
      if (knob.path.startsWith('remote') || knob.path === 'max_concurrent') continue
      const file: Record<string, unknown> = {}
      const [table, key, inner] = knob.path.split('.')
      file[table] = key === undefined ? value : { [key]: inner === undefined ? value : { [inner]: value } }
      const said = load(file).notes?.filter(({ kind }) => kind === 'not yet' || kind === 'remote') ?? []
      expect(said.length, knob.path).toBeGreaterThan(0)
    }
  })

  test('a default written out is not', () => {
    expect(
      notesOf({ max_async_level: 0, lora: { dropout: 0 }, env: [{ id: 'reverse-text' }], learning_rate: 1e-3 }),
    ).toEqual([])
  })

  test('a knob of a table that is switched off is told of', () => {
    expect(notesOf({ kl_penalty: { beta: 0.2 } }).join()).toContain(
      'kl_penalty.beta does nothing until kl_penalty.enabled = true',
    )
    expect(notesOf({ loss: { clip_low: 0.1 } }).join()).toContain(
      'loss.clip_low does nothing with loss.type = "default"; it belongs to "ppo"',
    )
    expect(notesOf({ difficulty_filter: { max_reward: 0.9 } }).join()).toContain(
      'until difficulty_filter.enabled = true',
    )
  })
})

describe('advice about the learning rate', () => {
  const told = (model: string, rate: number) =>
    load({ model, learning_rate: rate, env: [{ id: 'reverse-text' }] })
      .notes!.map(({ sentence }) => sentence)
      .join()

  test('goes by the size of the model', () => {
    expect(told('lab-tiny', 1e-5)).toContain('learning_rate = 1e-5 is low for lab-tiny')
    expect(told('lab-tiny', 1e-3)).toBe('')
    expect(told('lab-tiny', 6e-3)).toContain('tends to collapse')
    expect(told('Qwen/Qwen3-4B-Instruct-2507', 1e-5)).toBe('')
    expect(told('Qwen/Qwen3-4B-Instruct-2507', 1e-3)).toContain('is high for Qwen/Qwen3-4B-Instruct-2507')
    expect(told('someone/some-model', 1)).toBe('')
  })
})

test('a supervised run takes its part of the knobs, and hears of the others', () => {
  expect(Object.keys(sftConfig.shape)).toEqual([...SFT_KEYS])
  const { config, notes } = load('[data]\nbatch_size = 32\nseq_len = 64\n[val]\ninterval = 10\n[optim]\nlr = 2e-5')
  expect(config).toMatchObject({
    type: 'sft',
    batch_size: 32,
    seq_len: 64,
    learning_rate: 2e-5,
    eval: { interval: 10 },
  })
  const other = load('type = "sft"\n[sampling]\ntop_p = 0.9').notes!
  expect([...notes!, ...other].map(({ sentence }) => sentence).join()).toContain(
    'sampling is about rollouts, and type = "sft" has none',
  )
})
