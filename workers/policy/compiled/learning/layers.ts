// One layer, forwards and backwards, as dispatches over M packed tokens.

import type { Kernel } from '../../../gpu/kernel.ts'
import { norm, normBackward, normWorkgroups } from '../../../gpu/kernels/norm.ts'
import { outer, outerWorkgroups } from '../../../gpu/kernels/outer.ts'
import { sumParts, sumPartsWorkgroups } from '../../../gpu/kernels/sumParts.ts'
import { swiglu, swigluBackward, swigluWorkgroups } from '../../../gpu/kernels/swiglu.ts'
import type { Bound, Dispatch } from '../../../gpu/plan.ts'
import type { Engine } from '../engine.ts'
import { productDispatches } from '../product.ts'
import type { Product } from '../shape.ts'
import { type Region, region } from '../staging.ts'
import { learningTile } from '../tiles.ts'
import type { Activations, LayerBuffers } from './activations.ts'
import { attentionBackward, attentionForward, type RowTables } from './attention.ts'

export interface LearningContext {
  engine: Engine
  activations: Activations
  tables: RowTables
  /** Gradient of the staged adapters, added to by every pass. */
  stagedGradient: GPUBuffer
  /** Parts of one factor's gradient, a chunk of rows each. */
  parts: GPUBuffer
  /** Rows of a chunk. */
  chunk: number
}

/** x → the next layer's x. */
export function layerForward(context: LearningContext, index: number, M: number, next: GPUBuffer): Dispatch[] {
  const { h, between } = context.activations.layers[index]
  return [...layerUpToH(context, index, M), ...fullProduct(context, index, M, 'down', h, next, between)]
}

/** Everything of a layer but its last full product, which backward does not need. */
export function layerUpToH(context: LearningContext, index: number, M: number): Dispatch[] {
  const { activations } = context
  const b = activations.layers[index]
  return [
    normed(context, index, M, 'input'),
    ...forwardProduct(context, index, M, 'qkv', b.y1, b.qkv),
    ...attentionForward(context, index, M),
    ...forwardProduct(context, index, M, 'o', b.attended, b.between, b.x),
    normed(context, index, M, 'output'),
    ...forwardProduct(context, index, M, 'gateUp', b.y2, b.gateUp),
    gated(context, b, M),
    ...lowRank(context, index, M, 'down', b.h),
  ]
}

/** Gradients of a layer's adapters, and `work.dx` from that of its output to that of its input. */
export function layerBackward(context: LearningContext, index: number, M: number): Dispatch[] {
  const { activations, engine } = context
  const { recompute, work } = activations
  const { weights, shape } = engine
  const b = activations.layers[index]
  const layer = weights.layers[index]
  const list: Dispatch[] = []
  if (recompute === 'layer') list.push(...layerUpToH(context, index, M))
  if (recompute === 'elementwise') list.push(gated(context, b, M))

  list.push(...backwardProduct(context, index, M, 'down', work.dx, b.h, work.dh))
  list.push({
    kernel: swigluBackward(),
    buffers: [work.dh, b.gateUp, work.dGateUp],
    workgroups: swigluWorkgroups(M * shape.ffn),
  })
  if (recompute === 'elementwise') list.push(normed(context, index, M, 'output'))
  list.push(...backwardProduct(context, index, M, 'gateUp', work.dGateUp, b.y2, work.dy))
  list.push(normGradient(context, M, work.dy, b.between, layer.outputNorm, b.s2))

  list.push(...backwardProduct(context, index, M, 'o', work.dx, b.attended, work.dy))
  list.push(...attentionBackward(context, index, M, recompute === 'elementwise'))
  // In 'layer' the place of y1 holds y2 by now.
  if (recompute !== 'none') list.push(normed(context, index, M, 'input'))
  // Nobody asks for the gradient of the embeddings.
  list.push(...backwardProduct(context, index, M, 'qkv', work.dqkv, b.y1, index === 0 ? null : work.dy))
  if (index > 0) list.push(normGradient(context, M, work.dy, b.x, layer.inputNorm, b.s1))
  return list
}

function normed(
  { engine, activations }: LearningContext,
  index: number,
  M: number,
  which: 'input' | 'output',
): Dispatch {
  const { weights } = engine
  const b = activations.layers[index]
  const { inputNorm, outputNorm } = weights.layers[index]
  const kernel = normKernel(engine)
  const buffers = which === 'input' ? [b.x, inputNorm, b.y1, b.s1] : [b.between, outputNorm, b.y2, b.s2]
  return { kernel, buffers, workgroups: normWorkgroups(M) }
}

export function normKernel({ shape, variants }: Engine): Kernel {
  const { width, normEpsilon: epsilon } = shape.card
  return norm({ columns: width, width: shape.width, epsilon, lanes: variants.lanes(`norm/${shape.width}`) })
}

function gated({ engine }: LearningContext, b: LayerBuffers, M: number): Dispatch {
  return { kernel: swiglu(), buffers: [b.gateUp, b.h], workgroups: swigluWorkgroups(M * engine.shape.ffn) }
}

export function normGradient(
  { engine, activations }: LearningContext,
  M: number,
  dy: GPUBuffer,
  x: GPUBuffer,
  gain: GPUBuffer,
  scale: GPUBuffer,
  add = true,
): Dispatch {
  const { shape, variants } = engine
  const lanes = variants.lanes(`norm.backward/${shape.width}`)
  const kernel = normBackward({ columns: shape.card.width, width: shape.width, lanes }, add)
  return { kernel, buffers: [dy, x, gain, scale, activations.work.dx], workgroups: normWorkgroups(M) }
}

function factor(engine: Engine, rows: number, columns: number, place: Region) {
  const words = region(engine.staged, place)
  return {
    matrix: { format: 'f32' as const, rows, columns, words: engine.staged, scales: null },
    part: { words, scales: null, rows },
  }
}

function forwardProduct(
  context: LearningContext,
  index: number,
  M: number,
  product: Product,
  input: GPUBuffer,
  output: GPUBuffer,
  residual?: GPUBuffer,
): Dispatch[] {
  return [
    ...lowRank(context, index, M, product, input),
    ...fullProduct(context, index, M, product, input, output, residual),
  ]
}

/** U = input · Aᵀ of all adapters of a product. */
function lowRank(
  { engine, activations }: LearningContext,
  index: number,
  M: number,
  product: Product,
  input: GPUBuffer,
): Dispatch[] {
  const { columns } = engine.weights.layers[index].products[product]
  const { rank, a } = engine.staging.layers[index][product]
  if (rank === 0) return []
  const u = activations.layers[index].u[product]
  return productDispatches({
    name: 'learn.loraA',
    direction: 'forward',
    M,
    input,
    ...factor(engine, rank, columns, a),
    tile: learningTile(M, rank, columns, 0, engine.limits, true),
    variants: engine.variants,
    scratch: u,
    output: u,
  })
}

function fullProduct(
  { engine, activations }: LearningContext,
  index: number,
  M: number,
  product: Product,
  input: GPUBuffer,
  output: GPUBuffer,
  residual?: GPUBuffer,
): Dispatch[] {
  const { weights, staging, limits, staged, variants } = engine
  const layer = weights.layers[index]
  const matrix = layer.products[product]
  const { rank, b } = staging.layers[index][product]
  const bias = product === 'qkv' ? layer.qkvBias : null
  return productDispatches({
    name: `learn.${product}`,
    direction: 'forward',
    M,
    input,
    matrix,
    tile: learningTile(M, matrix.rows, matrix.columns, rank, limits, true),
    variants,
    extension: rank > 0 ? { rank, u: activations.layers[index].u[product], e: region(staged, b) } : null,
    epilogue: residual ? 'residual' : bias ? 'bias' : 'store',
    addend: residual ?? bias,
    scratch: output,
    output,
  })
}

/** Gradients of a product's factors and, unless nobody asks, of its input. */
function backwardProduct(
  context: LearningContext,
  index: number,
  M: number,
  product: Product,
  dOut: GPUBuffer,
  input: GPUBuffer,
  dInput: GPUBuffer | null,
): Dispatch[] {
  const { engine, activations } = context
  const { weights, staging, limits, staged, variants } = engine
  const matrix = weights.layers[index].products[product]
  const { rank, a, b } = staging.layers[index][product]
  const { dU } = activations
  const list: Dispatch[] = []
  if (rank > 0) {
    list.push(
      ...productDispatches({
        name: 'learn.loraB.backward',
        direction: 'gradient',
        M,
        input: dOut,
        ...factor(engine, matrix.rows, rank, b),
        tile: learningTile(M, rank, matrix.rows, 0, limits, false),
        variants,
        scratch: dU,
        output: dU,
      }),
      ...factorGradient(context, M, dOut, matrix.rows, activations.layers[index].u[product], rank, b),
      ...factorGradient(context, M, dU, rank, input, matrix.columns, a),
    )
  }
  if (dInput) {
    list.push(
      ...productDispatches({
        name: `learn.${product}.backward`,
        direction: 'gradient',
        M,
        input: dOut,
        matrix,
        tile: learningTile(M, matrix.columns, matrix.rows, rank, limits, false),
        variants,
        extension: rank > 0 ? { rank, u: dU, e: region(staged, a) } : null,
        scratch: dInput,
        output: dInput,
      }),
    )
  }
  return list
}

/** stagedGradient[place] += Pᵀ·Q over M rows. */
function factorGradient(
  { stagedGradient, parts, chunk }: LearningContext,
  M: number,
  p: GPUBuffer,
  N: number,
  q: GPUBuffer,
  R: number,
  place: Region,
): Dispatch[] {
  const spec = { name: 'learn.factorGradient', N, R, chunk }
  const bound: Bound = { buffer: parts, offset: 0, size: Math.ceil(M / chunk) * N * R * 4 }
  const sum = { name: 'learn.factorSum', parts: 0, size: N * R, addend: 'result' as const }
  return [
    { kernel: outer(spec), buffers: [p, q, bound], workgroups: outerWorkgroups(spec, M) },
    {
      kernel: sumParts(sum),
      buffers: [bound, bound, region(stagedGradient, place)],
      workgroups: sumPartsWorkgroups(sum),
    },
  ]
}
