// Model folders: safetensors, cards, tokenizer, chat template, and the sentences for what is wrong with them.

import { readFile } from 'node:fs/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parameterCount, readCard } from '../../workers/policy/card.ts'
import { openModel } from '../../workers/policy/load.ts'
import { floatToHalf, halfToFloat, listTensors, readTensor, writeSafetensors } from '../../workers/policy/weights.ts'
import { randomFiles, randomModel, readFrom } from './randomModel.ts'

describe('half precision', () => {
  it('turns every half into a number and back', () => {
    for (let word = 0; word < 0x10000; word++) {
      const value = halfToFloat(word)
      if (Number.isNaN(value)) expect(Number.isNaN(halfToFloat(floatToHalf(value)))).toBe(true)
      else expect(floatToHalf(value)).toBe(word)
    }
  })

  it('rounds to the nearest half, ties to even', () => {
    // Between 1 and 1 + 2⁻¹⁰ lies 1 + 2⁻¹¹, a tie; the next tie goes up to 1 + 2·2⁻¹⁰.
    expect(halfToFloat(floatToHalf(1 + 2 ** -11))).toBe(1)
    expect(halfToFloat(floatToHalf(1 + 3 * 2 ** -11))).toBe(1 + 2 ** -9)
    expect(halfToFloat(floatToHalf(65520))).toBe(Number.POSITIVE_INFINITY)
    fc.assert(
      fc.property(fc.float({ min: -60000, max: 60000, noNaN: true }), (value) => {
        const step = Math.max(2 ** -24, 2 ** (Math.floor(Math.log2(Math.abs(value) || 1e-30)) - 10))
        return Math.abs(halfToFloat(floatToHalf(value)) - value) <= step / 2
      }),
    )
  })
})

describe('safetensors', () => {
  const tensors = [
    { name: 'a', shape: [2, 3], data: Float32Array.from([1, 2, 3, 4, 5, 6]) },
    { name: 'b', shape: [1], data: Float32Array.from([-0.5]) },
  ]

  it.each(['F32', 'F16'] as const)('are read as they were written (%s)', async (dtype) => {
    const read = readFrom({ 'model.safetensors': writeSafetensors(tensors, dtype) })
    const entries = await listTensors(read, { sharded: false })
    for (const { name, shape, data } of tensors)
      expect([...(await readTensor(read, entries, name, shape))]).toEqual([...data])
  })

  it('are found across shards', async () => {
    const files = {
      'model.safetensors.index.json': new TextEncoder().encode(
        JSON.stringify({ weight_map: { a: 'one.safetensors', b: 'two.safetensors' } }),
      ),
      'one.safetensors': writeSafetensors([tensors[0]], 'F32'),
      'two.safetensors': writeSafetensors([tensors[1]], 'F32'),
    }
    const entries = await listTensors(readFrom(files), { sharded: true })
    expect([...(await readTensor(readFrom(files), entries, 'b', [1]))]).toEqual([-0.5])
  })
})

describe('a model folder', () => {
  it('opens: card, tokenizer, template, parameters, and a hash of all its bytes', async () => {
    const model = await randomModel()
    expect(model.card.architecture).toBe('qwen3')
    // 264·24 + 2·(24·32 + 2·24·16 + 32·24 + 3·24·40 + 2·8 + 2·24) + 24 = 16,856
    expect(model.parameters).toBe(264 * 24 + 2 * (24 * 32 + 2 * 24 * 16 + 32 * 24 + 3 * 24 * 40 + 2 * 8 + 2 * 24) + 24)
    expect((await randomModel({}, 2)).hash).not.toBe(model.hash)
    expect((await randomModel()).hash).toBe(model.hash)
  })

  it('names a missing tensor, a wrong shape and a file that is cut off', async () => {
    const files = randomFiles()
    const whole = files['model.safetensors']
    const cut = await openModel(
      readFrom({ ...files, 'model.safetensors': whole.subarray(0, whole.length - 40) }),
      'cut',
    )
    await expect(cut.weight('model.norm.weight')).rejects.toThrow(
      /model\.norm\.weight needs 96 bytes, 56 came: the file is cut off/,
    )
    await expect(
      openModel(readFrom({ ...files, 'model.safetensors': writeSafetensors([], 'F32') }), 'empty'),
    ).rejects.toThrow(/Opened empty: the tensor model\.embed_tokens\.weight of shape \[264,24\] is missing/)
    await expect(openModel(readFrom({ ...files, 'model.safetensors': new Uint8Array(3) }), 'tiny')).rejects.toThrow(
      /expected a safetensors header, got a file of 3 bytes/,
    )
    const config = JSON.parse(new TextDecoder().decode(files['config.json'])) as Record<string, unknown>
    const wide = await openModel(
      readFrom({
        ...files,
        'config.json': new TextEncoder().encode(JSON.stringify({ ...config, intermediate_size: 44 })),
      }),
      'wide',
    )
    await expect(wide.weight('model.layers.0.mlp.up_proj.weight')).rejects.toThrow(
      /has shape \[40,24\], config\.json asks for \[44,24\]/,
    )
  })

  it('names an architecture and a rope scaling that it cannot run, and a config that is not JSON', async () => {
    expect(() => readCard({ model_type: 'gpt2' })).toThrow(
      /model_type is "gpt2"; this lab runs "llama", "qwen2" and "qwen3"/,
    )
    const config = {
      model_type: 'llama',
      vocab_size: 8,
      hidden_size: 8,
      num_hidden_layers: 1,
      num_attention_heads: 2,
      intermediate_size: 8,
    }
    expect(() => readCard({ ...config, rope_scaling: { rope_type: 'yarn' } })).toThrow(/rope scaling "yarn"/)
    expect(() => readCard({ ...config, hidden_size: undefined })).toThrow(/expected a number at hidden_size/)
    await expect(
      openModel(readFrom({ ...randomFiles(), 'config.json': new TextEncoder().encode('{') }), 'x'),
    ).rejects.toThrow(/Read config\.json: it is not JSON/)
  })
})

describe('the bundled checkpoints', () => {
  it.each([
    ['lab-nano', 100_000, 250_000, 1],
    ['lab-tiny', 3_000_000, 6_000_000, 12],
  ])('%s has the size it is said to have', async (name, least, most, megabytes) => {
    const read = async (path: string, range?: { start: number; end: number }) => {
      const bytes = new Uint8Array(await readFile(new URL(`../../models/${name}/${path}`, import.meta.url)))
      return range ? bytes.subarray(range.start, range.end) : bytes
    }
    const model = await openModel(read, name)
    expect(parameterCount(model.card)).toBeGreaterThanOrEqual(least)
    expect(parameterCount(model.card)).toBeLessThanOrEqual(most)
    expect((await read('model.safetensors')).length).toBeLessThan(megabytes * 1e6)
    const card = JSON.parse(new TextDecoder().decode(await read('training.json'))) as { last: { reward: number } }
    expect(card.last.reward).toBeGreaterThan(0.3)
    expect(card.last.reward).toBeLessThan(0.6)
  })
})

describe('text and tokens', () => {
  it('encodes bytes as themselves and decodes them again, whatever the text', async () => {
    const { tokenizer } = await randomModel()
    expect(tokenizer.encode('Aé\n')).toEqual([65, 0xc3, 0xa9, 10])
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        fc.pre(!text.includes('<|'))
        expect(tokenizer.decode(tokenizer.encode(text))).toBe(text)
      }),
      { numRuns: 50 },
    )
  })

  it('keeps special tokens as single ids, spells them for display and leaves them out of what is said', async () => {
    const { tokenizer } = await randomModel()
    const ids = tokenizer.encode('<|im_start|>hi<|im_end|>')
    expect(ids).toEqual([256, 104, 105, 257])
    expect(tokenizer.decode(ids)).toBe('hi')
    expect(tokenizer.tokens(ids)).toEqual(['<|im_start|>', 'h', 'i', '<|im_end|>'])
  })

  it('renders a later turn as the suffix that the whole conversation would have', async () => {
    const { template, tokenizer } = await randomModel()
    const opening = [{ role: 'user', content: 'one' }]
    const prompt = template.renderPrompt(opening)
    const said = [...tokenizer.encode('two'), 257]
    const later = [{ role: 'user', content: 'three' }]
    const whole = template.renderPrompt([...opening, { role: 'assistant', content: 'two' }, ...later])
    expect([...prompt, ...said, ...template.renderSuffix(later, true)]).toEqual(whole)
    // Cut off before its stop token, the turn is closed first.
    expect([...prompt, ...tokenizer.encode('two'), ...template.renderSuffix(later, false)]).toEqual(whole)
  })
})
