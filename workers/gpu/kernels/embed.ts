// Rows of the embedding table by token.

import { type Declared, declare, type Kernel, specialise } from '../kernel.ts'
import source from './embed.wgsl?raw'
import slotText from './slot.wgsl?raw'
import { flatWorkgroups } from './sumParts.ts'
import { quadReader, type WeightFormat, weightBindings } from './weightFormat.ts'

export interface EmbedSpec {
  vocabulary: number
  /** Padded width of a row, of the table and of x; a multiple of 4, of `BLOCK` for int8 and int4. */
  width: number
  format: WeightFormat
  /** 'slots': the token that the row's slot drew last; 'ids': a buffer of tokens. */
  tokens: 'slots' | 'ids'
}

const TOKENS: Record<EmbedSpec['tokens'], { bindings: Declared[]; text: string }> = {
  slots: {
    bindings: [
      ['rows', 'read', 'array<vec2u>'],
      ['slots', 'read', 'array<Slot>'],
    ],
    text: `${slotText}\nfn tokenOf(row: u32) -> u32 { return slots[rows[row].x].token; }`,
  },
  ids: {
    bindings: [['ids', 'read', 'array<u32>']],
    text: 'fn tokenOf(row: u32) -> u32 { return ids[row]; }',
  },
}

/**
 * Bound in this order: table [V, width] in its format, [scales], then rows vec2u [M] (slot, unused) and slots
 * u32 [slots, SLOT_WORDS], or ids u32 [M]; x f32 [M, width]. Exact.
 */
export function embed({ vocabulary, width, format, tokens }: EmbedSpec): Kernel {
  const { bindings: own, text } = TOKENS[tokens]
  const { text: declarations, bindings } = declare([...weightBindings(format), ...own, ['x', 'write', 'array<vec4f>']])
  const code = specialise([declarations, quadReader(format), text, source].join('\n'), {
    VOCABULARY: vocabulary,
    WIDTH_QUADS: width / 4,
  })
  return { name: `embed.${tokens}`, code, bindings }
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
