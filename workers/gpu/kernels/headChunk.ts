// Log-probabilities of targets, their entropies and their gradients to the hidden rows, while only a chunk of the
// vocabulary's logits exists: an online softmax (Milakov and Gimelshein 2018) that carries Σ p·W along.
//
// For each chunk of C tokens: a product writes logits [Nt, C]; `headChunk` turns them into unnormalised probabilities; a
// product with 'rescaled' adds their sum of head rows to acc [Nt, D]. Then `headScore`, and `headFinish` where a gradient
// is wanted. Order of sums: C and the width decide, rows never do.

import { declare, type Kernel, specialise } from '../kernel.ts'
import source from './headChunk.wgsl?raw'
import sixteensText from './headChunkSixteens.wgsl?raw'
import finishSource from './headFinish.wgsl?raw'
import scoreSource from './headScore.wgsl?raw'
import { ENABLE_SUBGROUPS, shuffled } from './shuffle.ts'
import { flatWorkgroups } from './sumParts.ts'
import { quadReader, type WeightFormat, weightBindings } from './weightFormat.ts'

/** f32 numbers of one row's state: maximum, Σe^s, Σs·e^s, logit of the target; s is a logit over T less the maximum. */
export const STATE_NUMBERS = 4

export interface HeadChunkSpec {
  vocabulary: number
  /** C, columns of the chunk in memory; a multiple of 4. */
  columns: number
  /** Threads that sum a row by subgroup shuffles, another order of the sum; 0, the default: none. */
  lanes?: number
}

/**
 * Bound in this order: chunk [Nt, C], logits before and e^s afterwards, zero beyond the vocabulary; targets u32 [Nt];
 * 1/T f32 [Nt]; uniform u32 (first column, 0, 0, 0); states [Nt, STATE_NUMBERS]; rescale f32 [Nt], what acc is multiplied by
 * before this chunk is added. Chunks come in order; the one that starts at 0 starts the state anew and writes a rescale of 0.
 * Nt is the length of the states that are bound. A logit that is not finite makes the row's sum NaN.
 */
export function headChunk({ vocabulary, columns, lanes = 0 }: HeadChunkSpec): Kernel {
  const threads = columns > 2048 ? 256 : 64
  const shape = { type: 'vec2f', threads, team: threads, lanes }
  const reductions = lanes
    ? [
        shuffled({ ...shape, name: 'highestOf', combine: (a, b) => `max(${a}, ${b})` }),
        shuffled({ ...shape, name: 'totalOf', combine: (a, b) => `${a} + ${b}` }),
      ]
    : [sixteensText]
  const code = specialise(
    [...reductions, source].join('\n'),
    { THREADS: threads, VOCABULARY: vocabulary, COLUMN_QUADS: columns / 4 },
    lanes ? [ENABLE_SUBGROUPS] : [],
  )
  return { name: 'head.chunk', code, bindings: ['write', 'read', 'read', 'uniform', 'write', 'write'] }
}

export function headChunkWorkgroups(Nt: number): [number, number] {
  const x = Math.min(Nt, 65535)
  return [x, Math.ceil(Nt / x)]
}

/** Bound in this order: states [Nt, STATE_NUMBERS], scores vec2f [Nt] = (logp, entropy). Each within 2e-5 of float64. */
export function headScore(): Kernel {
  return { name: 'head.score', code: scoreSource, bindings: ['read', 'write'] }
}

export function headScoreWorkgroups(Nt: number): [number, number] {
  return flatWorkgroups(Nt, 64)
}

export interface HeadFinishSpec {
  vocabulary: number
  /** Padded width of the head's rows and of acc; a multiple of 4, of `BLOCK` for int8 and int4. */
  width: number
  format: WeightFormat
}

/**
 * ∂logp/∂hidden = (W[target] − Σ p·W) / T, in place of acc = Σ e^s·W.
 * Bound in this order: head W [V, width] in its format, [scales], targets u32 [Nt], 1/T f32 [Nt],
 * states [Nt, STATE_NUMBERS], acc [Nt, width].
 */
export function headFinish({ vocabulary, width, format }: HeadFinishSpec): Kernel {
  const { text, bindings } = declare([
    ...weightBindings(format),
    ['targets', 'read', 'array<u32>'],
    ['temperatureInverses', 'read', 'array<f32>'],
    ['states', 'read', 'array<vec4f>'],
    ['unit', 'write', 'array<vec4f>'],
  ])
  const code = specialise([text, quadReader(format), finishSource].join('\n'), {
    VOCABULARY: vocabulary,
    WIDTH_QUADS: width / 4,
  })
  return { name: 'head.finish', code, bindings }
}

export function headFinishWorkgroups({ width }: HeadFinishSpec, Nt: number): [number, number] {
  return flatWorkgroups((Nt * width) / 4, 256)
}

/**
 * The plain reference of one row, with no chunks: log softmax(logits/T)[target], its entropy, its gradient to the hidden row.
 * @param head [V, width]
 */
export function headReference(
  logits: ArrayLike<number>,
  target: number,
  temperature: number,
  head: ArrayLike<number>,
  width: number,
): { logp: number; entropy: number; unit: Float64Array } {
  const scaled = Float64Array.from(logits, (logit) => logit / temperature)
  const largest = scaled.reduce((a, b) => Math.max(a, b))
  const sum = scaled.reduce((total, logit) => total + Math.exp(logit - largest), 0)
  const p = scaled.map((logit) => Math.exp(logit - largest) / sum)
  const logp = scaled[target] - largest - Math.log(sum)
  const entropy = -p.reduce((total, value) => total + (value > 0 ? value * Math.log(value) : 0), 0)
  const unit = new Float64Array(width)
  p.forEach((value, token) => {
    const slope = ((token === target ? 1 : 0) - value) / temperature
    for (let j = 0; j < width; j++) unit[j] += slope * head[token * width + j]
  })
  return { logp, entropy, unit }
}
