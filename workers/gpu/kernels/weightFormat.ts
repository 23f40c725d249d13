// How a frozen matrix [rows, columns] lies on the GPU: f32, packed f16, or int8 and int4 in blocks of 32 columns with one
// f32 scale each. Rows are padded with zeros to whole blocks. Kernels read four consecutive columns, a quad, at a time;
// unpacking needs nothing but core WGSL, so that every adapter can; f16 may also be read as what it is.

import type { Declared } from '../kernel.ts'

export const FORMATS = ['f32', 'f16', 'int8', 'int4'] as const
export type WeightFormat = (typeof FORMATS)[number]

/** Columns that share a scale. */
export const BLOCK = 32

export interface PackedWeights {
  format: WeightFormat
  words: Uint32Array
  /** One per block, rows in order; empty for f32 and f16. */
  scales: Float32Array
}

export function bytesPerWeight(format: WeightFormat): number {
  const scale = 4 / BLOCK
  return { f32: 4, f16: 2, int8: 1 + scale, int4: 0.5 + scale }[format]
}

/** 32-bit words of one row of `columns` numbers. */
export function wordsPerRow(format: WeightFormat, columns: number): number {
  return columns / { f32: 1, f16: 2, int8: 4, int4: 8 }[format]
}

export function isQuantised(format: WeightFormat): boolean {
  return format === 'int8' || format === 'int4'
}

/** What the kernels see: the packed numbers as f32, [rows, paddedColumns]. */
export function unpackWeights({ format, words, scales }: PackedWeights): Float32Array {
  if (format === 'f32') return new Float32Array(words.buffer, words.byteOffset, words.length)
  if (format === 'f16')
    return Float32Array.from({ length: words.length * 2 }, (_, i) =>
      halfValue((words[i >> 1] >>> (16 * (i & 1))) & 0xffff),
    )
  const perWord = format === 'int8' ? 4 : 8
  const bits = 32 / perWord
  return Float32Array.from({ length: words.length * perWord }, (_, i) => {
    const word = words[Math.floor(i / perWord)]
    const level = (word << (32 - bits * ((i % perWord) + 1))) >> (32 - bits)
    return level * scales[Math.floor(i / BLOCK)]
  })
}

export function halfValue(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >>> 10) & 31
  const fraction = bits & 1023
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}

export const ENABLE_HALF = 'enable f16;'

/** The buffers of a packed matrix: `weights`, and `scales` where it is quantised. */
export function weightBindings(format: WeightFormat, half = false): Declared[] {
  const word = { f32: 'vec4f', f16: half ? 'vec4<f16>' : 'vec2u', int8: 'u32', int4: 'u32' }[format]
  const weights: Declared = ['weights', 'read', `array<${word}>`]
  return isQuantised(format) ? [weights, ['scales', 'read', 'array<f32>']] : [weights]
}

/**
 * `fn weightQuad(quad: u32) -> vec4f` over `weightBindings`: four consecutive weights, `quad` counting fours from the start
 * of the matrix.
 * @param half f16 is read as such, which wants `ENABLE_HALF` at the head of the text; the numbers are the same
 */
export function quadReader(format: WeightFormat, half = false): string {
  const body = {
    f32: 'return weights[quad];',
    f16: half
      ? 'return vec4f(weights[quad]);'
      : `let w = weights[quad];
  return vec4f(unpack2x16float(w.x), unpack2x16float(w.y));`,
    int8: `return vec4f(unpack4xI8(weights[quad])) * scales[quad / ${BLOCK / 4}u];`,
    int4: `let w = weights[quad / 2u] >> (16u * (quad & 1u));
  let levels = (vec4<i32>(vec4u(w << 28u, w << 24u, w << 20u, w << 16u))) >> vec4u(28u);
  return vec4f(levels) * scales[quad / ${BLOCK / 4}u];`,
  }[format]
  return `fn weightQuad(quad: u32) -> vec4f {\n  ${body}\n}`
}
