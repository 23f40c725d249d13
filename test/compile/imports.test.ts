// Files as people of prime-rl write them, of both eras: each imports, compiles back or says why not, and a key that nobody
// knows is named with its line wherever it stands.

import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { load } from '../../configs/load.ts'
import { compile } from '../../server/compile/compile.ts'

const folder = new URL('./imports/', import.meta.url)
const files = readdirSync(folder)
const read = (name: string) => readFileSync(new URL(name, folder), 'utf8')

/** Tables whose author may write any key. */
const OPEN =
  /source\.(env|sampling|algo|curriculum|serve)|\.taskset|\.args|extra_body|inference\.vllm|env_vars|teacher_model|teacher_inference|\.teacher\]|\.ac\]|length_penalty/

function loaded(name: string) {
  const result = load(read(name))
  if (result.problems) throw new Error(result.problems.map(({ line, sentence }) => `${line}: ${sentence}`).join('\n'))
  return result
}

test('there are twenty, ten of each era', () => {
  expect(files.filter((name) => name.startsWith('2026-08-'))).toHaveLength(10)
  expect(files.filter((name) => name.startsWith('2026-01-'))).toHaveLength(10)
})

describe.each(files)('%s', (name) => {
  test('imports', () => {
    const { config } = loaded(name)
    expect(config.model).toMatch(/\//)
    expect(config.env.length).toBeGreaterThan(0)
  })

  test('names an unknown key with its line, in every table that is not open', () => {
    const lines = read(name).split('\n')
    const tables = lines.flatMap((line, i) => (/^\[/.test(line) && !OPEN.test(line) ? [i] : []))
    for (const at of [-1, ...tables]) {
      const text = [...lines.slice(0, at + 1), 'qqzzx_nobody = 1', ...lines.slice(at + 1)].join('\n')
      expect(
        load(text).problems?.map(({ line, sentence }) => [line, sentence.includes('qqzzx_nobody')]),
        lines[at],
      ).toEqual([[at + 2, true]])
    }
  })

  test('goes back to its own version, or is refused with line and reason', () => {
    const target = name.startsWith('2026-08') ? 'prime-rl' : 'prime-rl-2026-01'
    const result = compile(read(name), target)
    const said = result.problems?.map(({ line, sentence }) => `${line}: ${sentence}`) ?? 'compiled'
    expect(said).toMatchSnapshot()
  })
})

describe('what they say arrives', () => {
  test('adapters, checkpoints and two sources', () => {
    expect(loaded('2026-08-lora.toml').config).toMatchObject({
      lora: { enabled: true, r: 8, alpha: 32, target_modules: ['q_proj', 'v_proj'] },
      checkpointing: { save_every_n_steps: 25, keep_n_checkpoints: 2, keep_every_n_steps: 50 },
      env: [
        { id: 'primeintellect/wiki-search', name: 'wiki', ratio: 2, args: { max_turns: 10 } },
        { id: 'primeintellect/alphabet-sort', name: 'sort', ratio: 1 },
      ],
      ...{ learning_rate: 1e-5, max_grad_norm: 0.5, seq_len: 4096 },
    })
  })

  test('a length penalty, by its names of 2026-08', () => {
    expect(loaded('2026-08-length-penalty.toml').config.advantage.length_penalty).toEqual({
      output: 0.3,
      input: 0,
      turns: 0.05,
    })
  })

  test('a temperature schedule, by its names of 2026-01', () => {
    expect(loaded('2026-01-temperature.toml').config.sampling).toMatchObject({
      temp_scheduler: { type: 'cosine', start: 1.2, end: 0.8, total_steps: 80 },
      ...{ repetition_penalty: 1.05, min_tokens: 4 },
    })
  })

  test('ratio masks, the buffer and a bare reward', () => {
    expect(loaded('2026-01-ratio-masks.toml').config.loss).toMatchObject({
      type: 'ratio_mask',
      ratio_type: 'sequence',
      token_mask_high: 4,
      kl_tau: 0.01,
    })
    expect(loaded('2026-01-buffer.toml').config).toMatchObject({
      buffer: { online_difficulty_filtering: true, easy_threshold: 0.95, hard_threshold: 0.05 },
      env: [{ ratio: 0.7 }, { ratio: 0.3 }],
    })
    expect(loaded('2026-01-advantage.toml').config.advantage.type).toBe('none')
  })

  test('a harness belongs to its environment', () => {
    expect(loaded('2026-08-agents.toml').config.env[0]).toMatchObject({
      id: 'code-golf',
      name: 'golf',
      ratio: 0.5,
      harness: { id: 'bash' },
    })
  })
})
