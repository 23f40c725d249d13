import { describe, expect, it } from 'vitest'
import { withoutKey, withValue } from '../../configs/edit.ts'
import { readSource } from '../../configs/source.ts'

const TEXT = `# What one should see: a rising curve.
model = "lab-tiny"   # bundled
learning_rate = 1e-3

[sampling]
max_tokens = 64 # enough
stop = ["a", "b"]

[[env]]
id = "reverse-text"
`

describe('changing one key of a TOML text', () => {
  it('replaces the value and leaves every other character', () => {
    expect(withValue(TEXT, ['learning_rate'], 5e-4)).toBe(TEXT.replace('1e-3', '5e-4'))
    expect(withValue(TEXT, ['sampling', 'max_tokens'], 32)).toBe(TEXT.replace('= 64', '= 32'))
    expect(withValue(TEXT, ['sampling', 'stop'], ['c'])).toBe(TEXT.replace('["a", "b"]', '["c"]'))
  })

  it('puts a new key behind the others of its table', () => {
    expect(withValue(TEXT, ['seed'], 7)).toBe(TEXT.replace('1e-3\n', '1e-3\nseed = 7\n'))
    expect(withValue(TEXT, ['sampling', 'temperature'], 0.7)).toBe(
      TEXT.replace('["a", "b"]\n', '["a", "b"]\ntemperature = 0.7\n'),
    )
    expect(withValue(TEXT, ['env', 0, 'ratio'], 2)).toBe(
      TEXT.replace('"reverse-text"\n', '"reverse-text"\nratio = 2\n'),
    )
  })

  it('appends a table that is not there yet, and the newest list entry may be meant', () => {
    expect(withValue(TEXT, ['lora', 'r'], 8)).toBe(`${TEXT}\n[lora]\nr = 8\n`)
    expect(withValue(TEXT, ['env', 0, 'args', 'length'], 4)).toBe(`${TEXT}\n[env.args]\nlength = 4\n`)
  })

  it('puts a top-level key above the first table, below the opening comments', () => {
    expect(withValue('# Hello\n[lora]\nr = 8\n', ['seed'], 1)).toBe('# Hello\nseed = 1\n[lora]\nr = 8\n')
    expect(withValue('', ['seed'], 1).trim()).toBe('seed = 1')
  })

  it('writes the text anew where it cannot be changed in place', () => {
    const inline = 'sampling = { max_tokens = 64 }\n'
    expect(readSource(withValue(inline, ['sampling', 'temperature'], 0.5), 'toml').value).toEqual({
      sampling: { max_tokens: 64, temperature: 0.5 },
    })
    const dotted = 'lora.r = 8\n'
    expect(readSource(withValue(dotted, ['lora', 'alpha'], 16), 'toml').value).toEqual({ lora: { r: 8, alpha: 16 } })
  })

  it('writes null as the text None', () => {
    expect(withValue('', ['max_grad_norm'], null).trim()).toBe('max_grad_norm = "None"')
  })

  it('takes a key out with its line', () => {
    expect(withoutKey(TEXT, ['learning_rate'])).toBe(TEXT.replace('learning_rate = 1e-3\n', ''))
    expect(withoutKey(TEXT, ['seed'])).toBe(TEXT)
  })
})
