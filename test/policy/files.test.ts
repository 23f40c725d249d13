// Model folders: safetensors, cards, tokenizer, chat template, and the sentences for what is wrong with them.

import { readFile } from 'node:fs/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BYTE_VOCABULARY } from '../../models/byteLevel.ts'
import { parameterCount, readCard, ropeFrequencies } from '../../workers/policy/card.ts'
import { openModel } from '../../workers/policy/load.ts'
import {
  floatToHalf,
  halfToFloat,
  listTensors,
  type Read,
  readTensor,
  writeSafetensors,
} from '../../workers/policy/weights.ts'
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
    expect(() => readCard({ ...config, rope_parameters: { rope_type: 'linear', factor: 2 } })).toThrow(
      /scaling "linear"/,
    )
    expect(() => readCard({ ...config, rope_scaling: { rope_type: 'llama3', factor: 8 } })).toThrow(
      /"llama3" needs a positive number at low_freq_factor, got undefined/,
    )
    expect(() => readCard({ ...config, attention_bias: true })).toThrow(
      /attention_bias is true; a bias after attention/,
    )
    expect(() => readCard({ ...config, layer_types: ['sliding_attention'] })).toThrow(
      /only full attention is supported/,
    )
    expect(() => readCard({ ...config, quantization_config: { bits: 4 } })).toThrow(
      /use the checkpoint that is stored in/,
    )
    expect(() => readCard({ ...config, hidden_size: undefined })).toThrow(/expected a number at hidden_size/)
    await expect(
      openModel(readFrom({ ...randomFiles(), 'config.json': new TextEncoder().encode('{') }), 'x'),
    ).rejects.toThrow(/Read config\.json: it is not JSON/)
  })
})

describe('weights in parts', () => {
  /** As large files are served: by range, and nothing is kept. Counts the bytes that were asked for. */
  function byRange(files: Record<string, Uint8Array>): { read: Read; asked: () => number } {
    let asked = 0
    const read: Read = async (path, range) => {
      const bytes = await readFrom(files)(path, range)
      if (path.endsWith('.safetensors')) asked += bytes.length
      return bytes
    }
    return { read, asked: () => asked }
  }

  it('gives rows of a matrix and elements of a vector, as f32 and as they are stored', async () => {
    const model = await randomModel()
    const name = 'model.layers.1.mlp.down_proj.weight'
    const whole = await model.weight(name)
    expect(model.shapeOf(name)).toEqual([24, 40])
    expect(model.dtypeOf(name)).toBe('F32')
    expect(await model.rows(name, 3, 7)).toEqual(whole.slice(3 * 40, 7 * 40))
    const raw = (await model.rawRows(name, 3, 7)).slice()
    expect(new Float32Array(raw.buffer)).toEqual(whole.slice(3 * 40, 7 * 40))
    expect(await model.rows('model.norm.weight', 5, 9)).toEqual((await model.weight('model.norm.weight')).slice(5, 9))
    expect(await model.rows(name, 24, 24)).toHaveLength(0)
    await expect(model.rows(name, 20, 25)).rejects.toThrow(/rows 20 to 25 of model\.layers\.1\.mlp.* it has 24/)
    expect(() => model.shapeOf('lm_head.weight')).toThrow(/its architecture has no tensor lm_head\.weight/)
  })

  it('reads bfloat16 and halves as the numbers that they are', async () => {
    // BF16 is the upper half of an f32: 0x3fc0 = 1.5, 0xc000 = −2. In F16, 0x3e00 = 1.5 and 0xc000 = −2.
    for (const [dtype, words] of [
      ['BF16', [0x3fc0, 0xc000]],
      ['F16', [0x3e00, 0xc000]],
    ] as const) {
      const header = new TextEncoder().encode(JSON.stringify({ a: { dtype, shape: [2, 1], data_offsets: [0, 4] } }))
      const file = new Uint8Array(8 + header.length + 4)
      file[0] = header.length
      file.set(header, 8)
      for (const [i, word] of words.entries()) file.set([word & 255, word >> 8], 8 + header.length + 2 * i)
      const read = readFrom({ 'model.safetensors': file })
      const entries = await listTensors(read, { sharded: false })
      expect([...(await readTensor(read, entries, 'a', [2, 1]))]).toEqual([1.5, -2])
    }
  })

  it('reads of a large file only what is asked for', async () => {
    // One matrix of 72 MB stands for a file too large for the heap.
    const width = 68_200
    const small = randomFiles()
    const config = JSON.parse(new TextDecoder().decode(small['config.json'])) as Record<string, unknown>
    const files = {
      ...small,
      'config.json': new TextEncoder().encode(JSON.stringify({ ...config, hidden_size: width, num_hidden_layers: 0 })),
      'model.safetensors': writeSafetensors(
        [
          { name: 'model.embed_tokens.weight', shape: [BYTE_VOCABULARY, width] },
          { name: 'model.norm.weight', shape: [width] },
        ].map((tensor) => ({ ...tensor, data: new Float32Array(tensor.shape.reduce((a, b) => a * b)) })),
        'F32',
      ),
    }
    const { read, asked } = byRange(files)
    const model = await openModel(Object.assign(read, { digest: async () => 'known' }), 'large')
    const opened = asked()
    expect(opened).toBeLessThan(2000)
    await model.rows('model.embed_tokens.weight', 100, 101)
    expect(asked() - opened).toBe(width * 4)
    // Without a digest from its source every byte is read once, in parts.
    const whole = byRange(files)
    const hashed = await openModel(whole.read, 'large')
    expect(whole.asked()).toBe(files['model.safetensors'].length + opened)
    expect(hashed.hash).not.toBe(model.hash)
  })
})

describe('rotary frequencies', () => {
  const config = {
    model_type: 'llama',
    vocab_size: 8,
    hidden_size: 12,
    num_hidden_layers: 1,
    num_attention_heads: 2,
    intermediate_size: 8,
    rope_theta: 1000,
  }

  it('fall from one by the base', () => {
    // d = 6, so θ^(−2i/6) = 1000^(−i/3) = 10^−i.
    const [a, b, c] = ropeFrequencies(readCard(config))
    expect([a, b, c].map((value) => Number(value.toPrecision(12)))).toEqual([1, 0.1, 0.01])
  })

  it.each(['rope_scaling', 'rope_parameters'])('are stretched as Llama 3 does it, from %s', (field) => {
    const scaling = {
      rope_type: 'llama3',
      rope_theta: 1000,
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 128,
    }
    const [a, b, c] = ropeFrequencies(readCard({ ...config, [field]: scaling }))
    // Turns over 128 positions: 128·1/2π = 20.4 > 4, so the first is left alone; 128·0.01/2π = 0.204 < 1, so the last is
    // divided by 8. The middle one turns 12.8/2π = 2.0371833 times: (2.0371833 − 1)/(4 − 1) = 0.3457278 of it is kept,
    // 0.3457278·0.1 + 0.6542722·0.1/8 = 0.03457278 + 0.00817840 = 0.04275118.
    expect(a).toBe(1)
    expect(b).toBeCloseTo(0.04275118, 8)
    expect(c).toBeCloseTo(0.00125, 12)
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
