import { describe, expect, test } from 'vitest'
import { validate } from '../../cli/validate.ts'
import { runConfig } from '../../configs/schema.ts'

async function run(text: string, options: { json?: boolean; set?: string[]; file?: string } = {}) {
  let out = ''
  const code = await validate({
    file: options.file ?? 'run.toml',
    json: options.json,
    set: options.set,
    read: async () => text,
    write: (part) => {
      out += part
    },
  })
  return { code, out }
}

describe('rollout-lab validate', () => {
  test('prints every problem with file, line and column, and gives 1', async () => {
    const { code, out } = await run('batch_size = 100\n[lora]\nranks = 8\nalpha = "x"\n')
    expect(code).toBe(1)
    expect(out.split('\n').slice(0, 3)).toEqual([
      'run.toml:3:1: Unknown key ranks in [lora]; did you mean rank?',
      'run.toml:4:9: lora.alpha must be a number, but it is the text "x".',
      '2 problems.',
    ])
  })

  test('prints what a file resolves to with --json, and nothing else', async () => {
    const { code, out } = await run('lora_rank = 8\n[[env]]\nid = "reverse-text"', {
      json: true,
      set: ['seed=3', 'env.0.args.min_length=4'],
    })
    expect(code).toBe(0)
    const config = JSON.parse(out)
    expect(runConfig.parse(config)).toEqual(config)
    expect(config).toMatchObject({ seed: 3, lora: { r: 8 }, env: [{ id: 'reverse-text', args: { min_length: 4 } }] })
  })

  test('prints the notes and what the file says beyond the defaults', async () => {
    const { code, out } = await run('lora_rank = 8\nlearning_rate = 1e-3\n[[env]]\nid = "reverse-text"')
    expect(code).toBe(0)
    expect(out).toContain('run.toml:1:1: lora_rank is lora.r here. [alias]')
    expect(out).toContain('[lora]\nr = 8\n')
  })

  test('reads JSON by its name', async () => {
    expect((await run('{"batch_size": 8,}', { file: 'a.json' })).out).toContain('a.json:1:18: This is not JSON')
    expect((await run('{"batch_size": 8}', { file: 'a.json' })).code).toBe(0)
  })

  test('says when there is no file', async () => {
    const out: string[] = []
    const code = await validate({ file: '/nowhere/run.toml', write: (text) => void out.push(text) })
    expect(code).toBe(1)
    expect(out.join('')).toContain('/nowhere/run.toml cannot be read: ')
  })
})
