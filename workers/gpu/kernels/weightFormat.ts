// How a frozen matrix [rows, columns] lies on the GPU: f32, packed f16, or int8 and int4 in blocks of 32 columns with one
// f32 scale each. Rows are padded with zeros to whole blocks. Kernels read four consecutive columns, a quad, at a time;
// unpacking needs nothing but core WGSL, so that software adapters run the same text.

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

/**
 * @param values [rows, columns]
 * @param paddedColumns columns in the result, a multiple of `BLOCK` for int8 and int4, of 4 otherwise
 */
export function packWeights(
  values: Float32Array,
  columns: number,
  paddedColumns: number,
  format: WeightFormat,
): PackedWeights {
  const rows = values.length / columns
  const padded = paddedColumns === columns ? values : padRows(values, columns, paddedColumns)
  if (format === 'f32')
    return {
      format,
      words: new Uint32Array(padded.buffer, padded.byteOffset, padded.length),
      scales: new Float32Array(),
    }
  if (format === 'f16') {
    const words = new Uint32Array(padded.length / 2)
    for (let i = 0; i < words.length; i++) words[i] = halfBits(padded[2 * i]) | (halfBits(padded[2 * i + 1]) << 16)
    return { format, words, scales: new Float32Array() }
  }
  const scales = new Float32Array((rows * paddedColumns) / BLOCK)
  const perWord = format === 'int8' ? 4 : 8
  const bits = 32 / perWord
  const words = new Uint32Array(padded.length / perWord)
  for (let block = 0; block < scales.length; block++) {
    const from = block * BLOCK
    const part = padded.subarray(from, from + BLOCK)
    const scale = format === 'int8' ? roundToNearestScale(part, 127) : bestInt4Scale(part)
    scales[block] = scale
    const top = format === 'int8' ? 127 : 7
    const bottom = format === 'int8' ? -127 : -8
    for (let i = 0; i < BLOCK; i++) {
      const level = scale === 0 ? 0 : Math.max(bottom, Math.min(top, Math.round(part[i] / scale)))
      const at = from + i
      words[Math.floor(at / perWord)] |= (level & (2 ** bits - 1)) << (bits * (at % perWord))
    }
  }
  return { format, words, scales }
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

function padRows(values: Float32Array, columns: number, paddedColumns: number): Float32Array {
  const rows = values.length / columns
  const result = new Float32Array(rows * paddedColumns)
  for (let row = 0; row < rows; row++)
    result.set(values.subarray(row * columns, (row + 1) * columns), row * paddedColumns)
  return result
}

function roundToNearestScale(part: Float32Array, top: number): number {
  let largest = 0
  for (const value of part) largest = Math.max(largest, Math.abs(value))
  return Math.fround(largest / top)
}

// Levels −8 … 7. The value furthest from zero takes level −8 whatever its sign; around that scale the one with the
// smallest squared error is searched.
function bestInt4Scale(part: Float32Array): number {
  let extreme = 0
  for (const value of part) if (Math.abs(value) > Math.abs(extreme)) extreme = value
  if (extreme === 0) return 0
  let best = 0
  let least = Number.POSITIVE_INFINITY
  for (let step = 0; step <= 12; step++) {
    const scale = Math.fround((extreme / -8) * (0.82 + step * 0.03))
    let error = 0
    for (const value of part) {
      const level = Math.max(-8, Math.min(7, Math.round(value / scale)))
      error += (value - level * scale) ** 2
    }
    if (error < least) {
      least = error
      best = scale
    }
  }
  return best
}

const floatView = new Float32Array(1)
const bitView = new Uint32Array(floatView.buffer)

/** IEEE half precision, ties to even; larger magnitudes than 65504 become the largest. */
export function halfBits(value: number): number {
  floatView[0] = value
  const bits = bitView[0]
  const sign = (bits >>> 16) & 0x8000
  const magnitude = bits & 0x7fffffff
  if (magnitude > 0x477fe000) return sign | (magnitude > 0x7f800000 ? 0x7e00 : 0x7bff)
  if (magnitude < 0x38800000) {
    // Subnormal: the unit is 2⁻²⁴.
    floatView[0] = Math.abs(value)
    return sign | roundHalfEven(floatView[0] * 16777216)
  }
  const rounded = magnitude + 0xfff + ((magnitude >>> 13) & 1)
  return sign | ((rounded - 0x38000000) >>> 13)
}

function roundHalfEven(value: number): number {
  const floor = Math.floor(value)
  const rest = value - floor
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor
}

export function halfValue(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >>> 10) & 31
  const fraction = bits & 1023
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}

/** The buffers of a packed matrix: `weights`, and `scales` where it is quantised. */
export function weightBindings(format: WeightFormat): Declared[] {
  const word = { f32: 'vec4f', f16: 'vec2u', int8: 'u32', int4: 'u32' }[format]
  const weights: Declared = ['weights', 'read', `array<${word}>`]
  return isQuantised(format) ? [weights, ['scales', 'read', 'array<f32>']] : [weights]
}

/**
 * `fn weightQuad(quad: u32) -> vec4f` over `weightBindings`: four consecutive weights, `quad` counting fours from the start
 * of the matrix.
 */
export function quadReader(format: WeightFormat): string {
  const body = {
    f32: 'return weights[quad];',
    f16: `let w = weights[quad];
  return vec4f(unpack2x16float(w.x), unpack2x16float(w.y));`,
    int8: `return vec4f(unpack4xI8(weights[quad])) * scales[quad / ${BLOCK / 4}u];`,
    int4: `let w = weights[quad / 2u] >> (16u * (quad & 1u));
  let levels = (vec4<i32>(vec4u(w << 28u, w << 24u, w << 20u, w << 16u))) >> vec4u(28u);
  return vec4f(levels) * scales[quad / ${BLOCK / 4}u];`,
  }[format]
  return `fn weightQuad(quad: u32) -> vec4f {\n  ${body}\n}`
}
