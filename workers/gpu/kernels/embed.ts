// Rows of the embedding table by token.

import { type Kernel, specialise } from '../kernel.ts'
import { SLOT_WORDS } from './draw.ts'
import source from './embed.wgsl?raw'
import { flatWorkgroups } from './sumParts.ts'
import { isQuantised, quadReader, type WeightFormat, wordType } from './weightFormat.ts'

export interface EmbedSpec {
  vocabulary: number
  /** Padded width of a row, of the table and of x; a multiple of 4, of `BLOCK` for int8 and int4. */
  width: number
  format: WeightFormat
  /** 'slots': the token that the row's slot drew last; 'ids': a buffer of tokens. */
  tokens: 'slots' | 'ids'
}

const TOKENS = {
  slots: {
    bindings: ['rows: array<vec2u>', 'slots: array<u32>'],
    tokenOf: `return slots[rows[row].x * ${SLOT_WORDS}u];`,
  },
  ids: { bindings: ['ids: array<u32>'], tokenOf: 'return ids[row];' },
}

/**
 * Bound in this order: table [V, width] in its format, [scales], then rows vec2u [M] (slot, unused) and slots
 * u32 [slots, SLOT_WORDS], or ids u32 [M]; x f32 [M, width]. Exact.
 */
export function embed({ vocabulary, width, format, tokens }: EmbedSpec): Kernel {
  const { bindings, tokenOf } = TOKENS[tokens]
  const read = [
    `words: array<${wordType(format)}>`,
    ...(isQuantised(format) ? ['scales: array<f32>'] : []),
    ...bindings,
  ]
  const code = specialise(
    [
      ...read.map((binding, i) => `@group(0) @binding(${i}) var<storage, read> ${binding};`),
      `@group(0) @binding(${read.length}) var<storage, read_write> x: array<vec4f>;`,
      quadReader('weightQuad', format, 'words', 'scales'),
      `fn tokenOf(row: u32) -> u32 { ${tokenOf} }`,
      source,
    ].join('\n'),
    { VOCABULARY: vocabulary, WIDTH_QUADS: width / 4 },
  )
  return { name: `embed.${tokens}`, code, bindings: [...read.map(() => 'read' as const), 'write'] }
}

export function embedWorkgroups({ width }: EmbedSpec, M: number): [number, number] {
  return flatWorkgroups((M * width) / 4, 256)
}

/** The plain reference: x of `table` [V, width] and one token per row. */
export function embedReference(table: ArrayLike<number>, tokens: ArrayLike<number>, width: number): Float64Array {
  return Float64Array.from(
    { length: tokens.length * width },
    (_, i) => table[tokens[Math.floor(i / width)] * width + (i % width)],
  )
}
