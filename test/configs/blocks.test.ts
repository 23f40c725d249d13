// Every TOML block of the training guides, word for word. None of them may be refused.

import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { loadJob } from '../../configs/jobs.ts'
import { load } from '../../configs/load.ts'

const folder = new URL('./blocks/', import.meta.url)
const blocks = readdirSync(folder).filter((name) => name.endsWith('.toml'))
const read = (name: string) => readFileSync(new URL(`${name}.toml`, folder), 'utf8')

function loaded(name: string) {
  const result = load(read(name))
  if (result.problems) throw new Error(result.problems.map(({ sentence }) => sentence).join('\n'))
  return result
}

const said = (name: string, kind: string) =>
  loaded(name)
    .notes.filter((note) => note.kind === kind)
    .map(({ line, sentence }) => `${line}: ${sentence}`)

test('there are twenty of them', () => {
  expect(blocks).toHaveLength(20)
})

test.each(blocks)('%s loads', (name) => {
  expect(loadJob(readFileSync(new URL(name, folder), 'utf8')).problems).toBeUndefined()
})

describe('what they say arrives', () => {
  test('a run with one environment', () => {
    const { config } = loaded('page-wiki-search')
    expect(config).toMatchObject({
      model: 'Qwen/Qwen3-4B-Instruct-2507',
      max_steps: 500,
      batch_size: 256,
      rollouts_per_example: 8,
      sampling: { max_tokens: 512, temperature: 1 },
      env: [{ id: 'primeintellect/wiki-search', args: { max_turns: 5 }, ratio: 1 }],
      wandb: { project: 'wiki-search', name: 'qwen3-4b-wiki-search' },
    })
    expect(said('page-wiki-search', 'remote')).toContain('13: [wandb] is used only remotely.')
  })

  test('the weights of three environments', () => {
    expect(loaded('page-three-environments').config.env.map(({ ratio }) => ratio)).toEqual([0.5, 0.3, 0.2])
    expect(said('page-three-environments', 'alias')[0]).toBe('4: env[0].weight is env[0].ratio here.')
  })

  test('adapters, with dropout that waits', () => {
    expect(loaded('page-lora').config.lora).toMatchObject({
      enabled: true,
      r: 64,
      alpha: 16,
      dropout: 0.05,
      target_modules: ['q_proj', 'v_proj', 'k_proj', 'o_proj'],
    })
    expect(said('page-lora', 'not yet')).toEqual([
      '5: lora.dropout is not used here yet: adapters are trained without dropout.',
    ])
  })

  test('hyperparameters: one accumulation step says nothing about memory', () => {
    const { config } = loaded('page-hyperparameters')
    expect(config).toMatchObject({ learning_rate: 1e-5, max_steps: 1000, batch_size: 256, micro_batch_size: 8 })
    expect(config.scheduler.warmup_steps).toBe(100)
    expect(said('page-hyperparameters', 'alias')[0]).toContain(
      '5: gradient_accumulation_steps = 1 leaves micro_batch_size',
    )
  })

  test('the difficulty filter and the KL penalty', () => {
    expect(loaded('page-difficulty-filter').config.difficulty_filter).toEqual({
      enabled: true,
      min_reward_variance: 0.1,
      min_reward: 0.05,
      max_reward: 0.95,
    })
    expect(loaded('page-kl-penalty').config.kl_penalty).toMatchObject({ enabled: true, beta: 0.1, target_kl: 0.01 })
  })

  test('truncated sampling is allowed, and called approximate', () => {
    const { config } = loaded('page-sampling')
    expect(config.sampling).toMatchObject({ top_p: 0.9, temperature: 0.7, stop: ['<|endoftext|>'] })
    expect(said('page-sampling', 'advice').join()).toContain('the importance ratio is then approximate')
  })

  test('secrets after [wandb] are taken from the wrong table', () => {
    expect(loaded('guide-hosted-reference').config.env_files).toEqual(['secrets.env'])
    expect(said('guide-hosted-reference', 'moved')).toEqual([
      '23: env_file is no key of [wandb]; it is read as if it stood before the first [table].',
    ])
  })

  test('a single [env] is the first of [[env]], and GPUs wait for a full-size run', () => {
    const { config } = loaded('guide-prime-rl')
    expect(config.model).toBe('Qwen/Qwen3-30B-A3B-Instruct-2507')
    expect(config.env).toMatchObject([{ id: 'wiki-search', args: { max_turns: 10, judge_model: 'gpt-4.1-mini' } }])
    expect(config.remote.prime_rl).toEqual({
      deployment: { gpus_per_node: 8 },
      inference: { vllm: { tensor_parallel_size: 4 } },
    })
  })

  test('root keys swallowed by [sampling] are taken, and the old names of adapters and filter', () => {
    const { config } = loaded('guide-prime-rl-options')
    expect(config.lora).toMatchObject({ enabled: true, r: 64, alpha: 128 })
    expect(config.difficulty_filter).toMatchObject({ enabled: true, min_reward_variance: 0.3 })
    expect(config.remote.prime_rl).toEqual({
      deployment: { gpus_per_node: 8 },
      inference: { vllm: { tensor_parallel_size: 4, pipeline_parallel_size: 1 } },
    })
    expect(said('guide-prime-rl-options', 'moved')).toHaveLength(3)
  })

  test('checkpoints and a prompt optimisation', () => {
    expect(loaded('guide-checkpointing').config.checkpointing).toMatchObject({
      save_every_n_steps: 50,
      keep_n_checkpoints: 10,
    })
    const gepa = loadJob(read('guide-gepa'))
    expect(gepa).toMatchObject({
      job: 'gepa',
      config: {
        env_id: 'my-env',
        max_calls: 1000,
        minibatch_size: 5,
        perfect_score: 1,
        state_columns: ['parsed_answer', 'tool_calls'],
      },
    })
  })
})
