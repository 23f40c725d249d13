// Frozen weights from the checkpoint's number format into that of the kernels, on the GPU; and the same in plain numbers.

import { floatLiteral, type Kernel, specialise } from '../kernel.ts'
import head from './pack.wgsl?raw'
import blocks from './packBlocks.wgsl?raw'
import toHalves from './packF16.wgsl?raw'
import int4Scale from './packInt4.wgsl?raw'
import int8Scale from './packInt8.wgsl?raw'
import plain from './packPlain.wgsl?raw'
import { unroll } from './unroll.ts'
import { BLOCK, isQuantised, type PackedWeights, type WeightFormat } from './weightFormat.ts'

/** What a checkpoint stores numbers as, little-endian. */
export type SourceFormat = 'F32' | 'F16' | 'BF16'

export interface PackSpec {
  source: SourceFormat
  format: WeightFormat
  /** Of a row in the source. */
  columns: number
  /** Of a packed row: `columns` and zeros, a multiple of 32. */
  paddedColumns: number
}

// int4: the scale is the block's largest magnitude times one of these over 2¹³.
const STEPS = Array.from({ length: 13 }, (_, k) => 840 + 31 * k)
/** One over the steps, in single precision. */
const PER_STEP = STEPS.map((step) => Math.fround(1 / step))
const INT8_RANGE = [-127, 127]
const INT4_RANGE = [-8, 7]
const INT8_SCALE = Math.fround(1 / 127)
/** Blocks with no magnitude from 2⁻¹⁰⁰ on are zero; one with a magnitude from 2¹²⁵ on, or with no number, has no scale. */
const TINY = 2 ** -100
const HUGE = 2 ** 125

/**
 * Bound in this order: source u32 [rows · columns numbers, rounded up to words]; place (`packPlace`), uniform; words u32 of
 * the whole matrix; for int8 and int4 scales f32 of the whole matrix. Equal to `packWeights` bit for bit where products of
 * two numbers are rounded to nearest, as WGSL asks: a compiler that reorders them may move a number that lies halfway
 * between two levels by one. Dispatch `packWorkgroups`.
 */
export function pack({ source, format, columns, paddedColumns }: PackSpec): Kernel {
  if (paddedColumns % BLOCK !== 0 || paddedColumns < columns)
    throw new Error(`internal: pack wants whole blocks of ${BLOCK} columns, got ${columns} in ${paddedColumns}`)
  const text = [head, ...reader(source, columns), ...writer(format)].join('\n')
  return {
    name: `pack.${source}.${format}`,
    code: specialise(text, { COLUMNS: columns, QUADS: paddedColumns / 4 }),
    bindings: ['read', 'uniform', 'write', ...(isQuantised(format) ? (['write'] as const) : [])],
  }
}

/** Row r of the source becomes row `first + r · step` of the matrix. */
export function packPlace(rows: number, first: number, step: number): Uint32Array<ArrayBuffer> {
  return new Uint32Array([rows, first, step, 0])
}

export function packWorkgroups({ format, paddedColumns }: PackSpec, rows: number): [number] {
  return [Math.ceil((rows * paddedColumns) / (isQuantised(format) ? BLOCK : 4) / 64)]
}

/** `rawQuad`: four numbers from an element on, as they are stored; `widened`: their bits as f32. */
function reader(source: SourceFormat, columns: number): string[] {
  if (source === 'F32') {
    return [
      'fn rawQuad(at: u32) -> vec4u { return vec4u(source[at], source[at + 1u], source[at + 2u], source[at + 3u]); }',
      'fn widened(raw: vec4u) -> vec4u { return raw; }',
    ]
  }
  const whole = `let pair = vec2u(source[at / 2u], source[at / 2u + 1u]);
  return vec4u(pair.x & 0xffffu, pair.x >> 16u, pair.y & 0xffffu, pair.y >> 16u);`
  const single = (i: number) => `(source[(at + ${i}u) / 2u] >> (16u * ((at + ${i}u) & 1u))) & 0xffffu`
  const one = `return vec4u(${[0, 1, 2, 3].map(single).join(', ')});`
  const bf16 = 'return raw << vec4u(16u);'
  const f16 = `let sign = (raw & vec4u(0x8000u)) << vec4u(16u);
  let magnitude = raw & vec4u(0x7fffu);
  let subnormal = bitcast<vec4u>(vec4f(magnitude) * 0x1p-24);
  let normal = select(subnormal, (magnitude << vec4u(13u)) + vec4u(0x38000000u), magnitude >= vec4u(0x400u));
  return sign | select(normal, (magnitude << vec4u(13u)) | vec4u(0x7f800000u), magnitude >= vec4u(0x7c00u));`
  return [
    // A row may begin within a word.
    `fn rawQuad(at: u32) -> vec4u {\n  ${columns % 4 === 0 ? whole : one}\n}`,
    `fn widened(raw: vec4u) -> vec4u {\n  ${source === 'F16' ? f16 : bf16}\n}`,
  ]
}

function writer(format: WeightFormat): string[] {
  const words = (type: string) => `@group(0) @binding(2) var<storage, read_write> words: array<${type}>;`
  if (format === 'f32') return [words('vec4u'), 'fn packed(bits: vec4u) -> vec4u { return bits; }', plain]
  if (format === 'f16') return [words('vec2u'), toHalves, plain]
  const tables = [
    `const STEP_COUNT = ${STEPS.length}u;`,
    `const STEPS = array<f32, ${STEPS.length}>(${STEPS.map(floatLiteral).join(', ')});`,
    `const PER_STEP = array<f32, ${STEPS.length}>(${PER_STEP.map(floatLiteral).join(', ')});`,
  ]
  const scales = '@group(0) @binding(3) var<storage, read_write> scales: array<u32>;'
  const range = ([bottom, top]: number[]) =>
    `const BOTTOM = ${floatLiteral(bottom)};\nconst TOP = ${floatLiteral(top)};`
  const filled = (choose: string, store: string) =>
    unroll(blocks.replace('CHOOSE', choose).replace('STORE', store), { EIGHT: 8, FOUR: 4 })
  if (format === 'int8')
    return [
      words('u32'),
      scales,
      range(INT8_RANGE),
      `const INT8_SCALE = ${floatLiteral(INT8_SCALE)};`,
      filled(int8Scale, STORE_INT8),
    ]
  return [words('u32'), scales, range(INT4_RANGE), ...tables, filled(int4Scale, STORE_INT4)]
}

const joined = (levels: string, bits: number) => {
  const parts = ['x', 'y', 'z', 'w'].map((axis, i) => `((${levels}.${axis} & ${2 ** bits - 1}u) << ${bits * i}u)`)
  return parts.join(' | ')
}
const STORE_INT8 = Array.from({ length: 8 }, (_, i) => `words[8u * block + ${i}u] = ${joined(`levels${i}u`, 8)};`).join(
  '\n  ',
)
const STORE_INT4 = Array.from(
  { length: 4 },
  (_, i) =>
    `words[4u * block + ${i}u] = ${joined(`levels${2 * i}u`, 4)} | ((${joined(`levels${2 * i + 1}u`, 4)}) << 16u);`,
).join('\n  ')

/**
 * The kernel's plain reference.
 * @param values [rows, columns]
 * @param paddedColumns columns in the result, a multiple of `BLOCK` for int8 and int4, of 4 otherwise
 */
export function packWeights(
  values: Float32Array,
  columns: number,
  paddedColumns: number,
  format: WeightFormat,
): PackedWeights {
  const padded = paddedColumns === columns ? values : padRows(values, columns, paddedColumns)
  const none = new Float32Array()
  if (format === 'f32')
    return { format, words: new Uint32Array(padded.buffer, padded.byteOffset, padded.length), scales: none }
  if (format === 'f16') {
    const words = new Uint32Array(padded.length / 2)
    for (let i = 0; i < words.length; i++) words[i] = halfBits(padded[2 * i]) | (halfBits(padded[2 * i + 1]) << 16)
    return { format, words, scales: none }
  }
  const scales = new Float32Array(padded.length / BLOCK)
  const perWord = format === 'int8' ? 4 : 8
  const bits = 32 / perWord
  const words = new Uint32Array(padded.length / perWord)
  const range = format === 'int8' ? INT8_RANGE : INT4_RANGE
  for (let block = 0; block < scales.length; block++) {
    const part = padded.subarray(block * BLOCK, (block + 1) * BLOCK)
    const { scale, perLevel } = format === 'int8' ? scaleOfInt8(part) : scaleOfInt4(part)
    scales[block] = scale
    if (!(scale !== 0)) continue
    for (let i = 0; i < BLOCK; i++) {
      const level = clamp(roundHalfEven(Math.fround(part[i] * perLevel)), range)
      const at = block * BLOCK + i
      words[Math.floor(at / perWord)] |= (level & (2 ** bits - 1)) << (bits * (at % perWord))
    }
  }
  return { format, words, scales }
}

interface BlockScale {
  scale: number
  perLevel: number
}

function scaleOfInt8(part: Float32Array): BlockScale {
  const largest = largestOf(part)
  const unusual = scaleless(largest)
  if (unusual !== null) return { scale: unusual, perLevel: 0 }
  return { scale: Math.fround(largest * INT8_SCALE), perLevel: Math.fround(Math.fround(1 / largest) * 127) }
}

// The largest magnitude stands at level −8 whatever its sign. Around that scale the one with the smallest squared error is
// searched, in units of 2⁻¹³ of that magnitude.
function scaleOfInt4(part: Float32Array): BlockScale {
  const largest = largestOf(part)
  const unusual = scaleless(largest)
  if (unusual !== null) return { scale: unusual, perLevel: 0 }
  const toward = part.includes(largest) ? -1 : 1
  const inverse = toward * Math.fround(1 / largest)
  const parts = part.map((value) => roundHalfEven(Math.fround(value * inverse) * 8192))
  let best = 0
  let least = Number.POSITIVE_INFINITY
  for (const [k, step] of STEPS.entries()) {
    let error = 0
    for (const value of parts) {
      const level = clamp(roundHalfEven(Math.fround(value * PER_STEP[k])), INT4_RANGE)
      error += (value - level * step) ** 2
    }
    if (error < least) {
      least = error
      best = k
    }
  }
  return {
    scale: toward * Math.fround(largest * (STEPS[best] * 2 ** -13)),
    perLevel: Math.fround(inverse * (PER_STEP[best] * 8192)),
  }
}

/** What is no number is larger than any. */
function largestOf(part: Float32Array): number {
  let largest = 0
  for (const value of part) {
    if (Number.isNaN(value)) return value
    largest = Math.max(largest, Math.abs(value))
  }
  return largest
}

function scaleless(magnitude: number): number | null {
  if (magnitude < TINY) return 0
  return magnitude < HUGE ? null : Number.NaN
}

function clamp(value: number, [bottom, top]: number[]): number {
  return Math.max(bottom, Math.min(top, value))
}

function padRows(values: Float32Array, columns: number, paddedColumns: number): Float32Array {
  const rows = values.length / columns
  const result = new Float32Array(rows * paddedColumns)
  for (let row = 0; row < rows; row++)
    result.set(values.subarray(row * columns, (row + 1) * columns), row * paddedColumns)
  return result
}

function roundHalfEven(value: number): number {
  const floor = Math.floor(value)
  const rest = value - floor
  return rest > 0.5 || (rest === 0.5 && floor % 2 !== 0) ? floor + 1 : floor
}

const floatView = new Float32Array(1)
const bitView = new Uint32Array(floatView.buffer)

/** IEEE half precision, ties to even; larger magnitudes than 65504 become the largest, what is no number none. */
export function halfBits(value: number): number {
  floatView[0] = value
  const bits = bitView[0]
  const sign = (bits >>> 16) & 0x8000
  const magnitude = bits & 0x7fffffff
  if (magnitude > 0x477fe000) return sign | (magnitude >= 0x7f800000 ? 0x7e00 : 0x7bff)
  // Below 2⁻¹⁴ the unit is 2⁻²⁴.
  if (magnitude < 0x38800000) return sign | roundHalfEven(Math.abs(floatView[0]) * 2 ** 24)
  const rounded = magnitude + 0xfff + ((magnitude >>> 13) & 1)
  return sign | ((rounded - 0x38000000) >>> 13)
}
