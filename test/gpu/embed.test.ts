import { describe, expect, it } from 'vitest'
import { SLOT_WORDS } from '../../workers/gpu/kernels/draw.ts'
import { type EmbedSpec, embed, embedReference, embedWorkgroups } from '../../workers/gpu/kernels/embed.ts'
import { packWeights } from '../../workers/gpu/kernels/pack.ts'
import { FORMATS, unpackWeights } from '../../workers/gpu/kernels/weightFormat.ts'
import { RandomStream } from '../../workers/random.ts'
import { runKernel } from './runKernel.ts'

const VOCABULARY = 37

describe.each(FORMATS)('embed with a table in %s', (format) => {
  const random = new RandomStream(5)
  const [columns, width] = [52, 64]
  const values = Float32Array.from({ length: VOCABULARY * columns }, () => random.normal())
  const packed = packWeights(values, columns, width, format)
  const table = packed.scales.length ? [packed.words, packed.scales] : [packed.words]
  const tokens = Uint32Array.from([36, 0, 5, 5, 17, 29, 1])
  const expected = [...embedReference(unpackWeights(packed), tokens, width)]

  it('reads tokens from a buffer', async () => {
    const spec: EmbedSpec = { vocabulary: VOCABULARY, width, format, tokens: 'ids' }
    const x = new Float32Array(tokens.length * width).fill(9)
    const [got] = await runKernel(embed(spec), [...table, tokens, x], embedWorkgroups(spec, tokens.length))
    expect([...got]).toEqual(expected)
  })

  it("reads the last token of each row's slot", async () => {
    const spec: EmbedSpec = { vocabulary: VOCABULARY, width, format, tokens: 'slots' }
    const rows = new Uint32Array(2 * tokens.length)
    const slots = new Uint32Array(9 * SLOT_WORDS).fill(11)
    tokens.forEach((token, row) => {
      rows[2 * row] = 8 - row
      slots[(8 - row) * SLOT_WORDS] = token
    })
    const x = new Float32Array(tokens.length * width)
    const [got] = await runKernel(embed(spec), [...table, rows, slots, x], embedWorkgroups(spec, tokens.length))
    expect([...got]).toEqual(expected)
  })
})
