// The decoder for rows that each belong to a slot of the cache: one token of many sequences while decoding, many tokens of
// a few while a prompt is read in. Both run the same sums in the same order, so that a token's numbers never depend on how
// it was batched.

import { alternatives, MOST_ALTERNATIVES } from '../../gpu/kernels/alternatives.ts'
import { attendCache, attendCacheFused, attendCacheWorkgroups } from '../../gpu/kernels/attendCache.ts'
import { copyCache, copyCacheWorkgroups } from '../../gpu/kernels/copyCache.ts'
import { draw, ranks, SLOT_WORDS, seenWords } from '../../gpu/kernels/draw.ts'
import { embed, embedWorkgroups } from '../../gpu/kernels/embed.ts'
import { ropeCache, ropeCacheWorkgroups } from '../../gpu/kernels/ropeCache.ts'
import { type Bound, type Dispatch, Plan } from '../../gpu/plan.ts'
import type { SamplingOptions } from '../policy.ts'
import { type Engine, rotaryTurns } from './engine.ts'
import { productDispatches } from './product.ts'
import { PRODUCTS, type Product, padTo, productWidths } from './shape.ts'
import { region } from './staging.ts'
import { samplingOrder, samplingTile } from './tiles.ts'
import { type WholeDecoder, wholeDraws } from './whole.ts'

/** Tokens that are decoded between two readbacks, at most. */
export const STEPS_PER_BLOCK = 16
/** Blocks on their way at once. */
export const BLOCKS_IN_FLIGHT = 2
/** Rows of one prefill dispatch. */
export const PREFILL_ROWS = 512

/** What of the sampling options decides which kernels draw. */
export type Drawing = Pick<SamplingOptions, 'topK' | 'topP' | 'alternatives'>

/** Tokens that are named for each row; an even number, so that each step's lie where they can be bound. */
export function namedPerRow({ alternatives = 0 }: Drawing): number {
  return padTo(alternatives, 2)
}

export interface CacheSize {
  slots: number
  /** S, positions per slot. */
  positions: number
}

/** Everything on the GPU that sampling needs beside the weights; made anew when the cache must grow. */
export class SamplingPlans {
  /** [slots + 1, SLOT_WORDS]; the last slot is never open and takes the rows that pad a batch. */
  readonly slots: GPUBuffer
  readonly rule: GPUBuffer
  readonly seen: GPUBuffer
  /** [STEPS_PER_BLOCK, rows] of (token, log-probability, entropy, open). */
  readonly drawn: GPUBuffer
  readonly rowTable: GPUBuffer
  readonly prefillRows: GPUBuffer
  readonly prefillIds: GPUBuffer
  readonly copies: GPUBuffer
  readonly maxRows: number
  /** Whose sequences lie in the cache. */
  holder: object | null = null
  #named: GPUBuffer | null = null
  readonly #buffers: GPUBuffer[] = []
  readonly #keys: Bound[]
  readonly #values: Bound[]
  readonly #turns: GPUBuffer
  readonly #x: GPUBuffer
  readonly #between: GPUBuffer
  readonly #qkv: GPUBuffer
  readonly #queries: GPUBuffer
  readonly #attended: GPUBuffer
  readonly #h: GPUBuffer
  readonly #u: GPUBuffer
  readonly #scratch: GPUBuffer
  readonly #logits: GPUBuffer
  readonly #bodies = new Map<number, Plan>()
  readonly #draws = new Map<string, Plan[]>()
  readonly #prefills = new Map<number, Plan>()
  readonly #wholes = new Map<number, Plan>()
  readonly #copyings = new Map<string, Plan>()

  constructor(
    readonly engine: Engine,
    readonly size: CacheSize,
    readonly whole: WholeDecoder | null = null,
  ) {
    const { shape, memory, staging } = engine
    const { card } = shape
    const rows = padTo(Math.max(size.slots, 16), 64)
    this.maxRows = rows
    const wide = padTo(Math.max(rows, PREFILL_ROWS), 128)
    const make = (owner: 'cache' | 'activations' | 'tables', floats: number, label: string) => {
      const buffer = memory.storage(owner, floats * 4, label)
      this.#buffers.push(buffer)
      return buffer
    }
    const cacheFloats = size.slots * size.positions * card.kvHeads * card.headWidth
    const layers = Array.from({ length: card.layers }, (_, i) => i)
    // The kernel that decodes blocks of tokens reaches all layers in one buffer.
    const cache = (label: string): Bound[] => {
      if (!whole) return layers.map((i) => make('cache', cacheFloats, `${label} ${i}`))
      const buffer = make('cache', cacheFloats * card.layers, label)
      return layers.map((i) => ({ buffer, offset: i * cacheFloats * 4, size: cacheFloats * 4 }))
    }
    this.#keys = cache('keys')
    this.#values = cache('values')
    this.slots = make('tables', (size.slots + 1) * SLOT_WORDS, 'slots')
    this.seen = make('tables', (size.slots + 1) * seenWords(card.vocabulary), 'seen')
    this.rule = memory.uniform('tables', 128, 'rule')
    this.#buffers.push(this.rule)
    this.drawn = make('tables', STEPS_PER_BLOCK * rows * 4, 'drawn')
    this.rowTable = make('tables', rows * 2, 'rows')
    this.prefillRows = make('tables', wide * 2, 'prefill rows')
    this.prefillIds = make('tables', wide, 'prefill ids')
    this.copies = make('tables', rows * 4, 'copies')
    const turns = rotaryTurns(engine, size.positions)
    this.#turns = make('tables', turns.length, 'turns')
    engine.device.queue.writeBuffer(this.#turns, 0, turns)
    const widest = Math.max(...staging.layers.flatMap((layer) => PRODUCTS.map((product) => layer[product].rank)), 16)
    this.#x = make('activations', wide * shape.width, 'x')
    this.#between = make('activations', wide * shape.width, 'x between')
    this.#qkv = make('activations', wide * shape.qkv, 'qkv')
    this.#queries = make('activations', wide * card.heads * card.headWidth, 'queries')
    this.#attended = make('activations', wide * shape.attended, 'attended')
    this.#h = make('activations', wide * shape.ffn, 'h')
    this.#u = make('activations', wide * widest, 'u')
    const splits = Math.max(
      ...PRODUCTS.map((product) => {
        const { input, output } = productWidths(shape, product)
        return this.#order(output, input).splits > 1 ? this.#order(output, input).splits * output : 0
      }),
    )
    this.#scratch = make('activations', Math.max(16, wide * splits), 'parts of sums')
    this.#logits = make('activations', rows * shape.vocabulary, 'logits')
  }

  /** `steps` tokens for the rows of the table, STEPS_PER_BLOCK at most; a closed slot draws nothing. */
  block(rows: number, steps: number, options: SamplingOptions): Plan[] {
    const { whole } = this
    // The kernel of whole sequences keeps no row of logits to name others from.
    const named = namedPerRow(options) > 0
    if (whole && !named && wholeDraws(options, this.engine.shape.card.vocabulary)) {
      return [this.#remember(this.#wholes, rows, () => whole.plan(rows, this.#wholeSize(), this.#wholeBuffers()))]
    }
    const body = this.body(rows)
    return Array.from({ length: steps }, (_, step) => [body, this.draw(rows, step, options)]).flat()
  }

  #wholeSize() {
    return { ...this.size, steps: STEPS_PER_BLOCK }
  }

  #wholeBuffers() {
    const { rowTable, slots, drawn, rule } = this
    return {
      rowTable,
      slots,
      drawn,
      rule,
      turns: this.#turns,
      keys: bufferOf(this.#keys[0]),
      values: bufferOf(this.#values[0]),
    }
  }

  /** One token for each row of the table: everything up to the logits. */
  body(rows: number): Plan {
    return this.#remember(this.#bodies, rows, () => new Plan(this.engine.pipelines, this.bodyDispatches(rows)))
  }

  bodyDispatches(rows: number): Dispatch[] {
    const { shape, weights, variants } = this.engine
    return [
      ...this.#embed(rows, 'slots'),
      ...this.#layers(rows, 'slots'),
      ...productDispatches({
        name: 'head',
        direction: 'forward',
        M: rows,
        input: this.#x,
        matrix: weights.head,
        tile: samplingTile(this.#order(shape.vocabulary, shape.width), rows, shape.vocabulary),
        variants,
        norm: { gain: weights.finalNorm, width: shape.card.width, epsilon: shape.card.normEpsilon },
        scratch: this.#scratch,
        output: this.#logits,
      }),
    ]
  }

  /** Draws one token per row, as the block's step `step`, and names others where that is asked for. */
  draw(rows: number, step: number, drawing: Drawing): Plan {
    const key = [rows, ranks(drawing), namedPerRow(drawing)].join()
    const plans = this.#remember(this.#draws, key, () =>
      Array.from({ length: STEPS_PER_BLOCK }, (_, index) => {
        const named = namedPerRow(drawing) > 0 ? [this.#naming(rows, index, namedPerRow(drawing))] : []
        return new Plan(this.engine.pipelines, [this.drawDispatch(rows, index, ranks(drawing)), ...named])
      }),
    )
    return plans[step]
  }

  drawDispatch(rows: number, step: number, ranked = false): Dispatch {
    const { shape } = this.engine
    const kernel = draw({ vocabulary: shape.card.vocabulary, stride: shape.vocabulary, ranks: ranked })
    return {
      kernel,
      buffers: [this.#logits, this.rowTable, this.rule, this.slots, this.seen, this.#drawnAt(rows, step)],
      workgroups: [rows],
    }
  }

  /** [STEPS_PER_BLOCK, rows, named] of (token, log-probability). */
  named(): GPUBuffer {
    if (this.#named === null) {
      const words = STEPS_PER_BLOCK * this.maxRows * MOST_ALTERNATIVES * 2
      this.#named = this.engine.memory.storage('tables', words * 4, 'alternatives')
      this.#buffers.push(this.#named)
    }
    return this.#named
  }

  #naming(rows: number, step: number, count: number): Dispatch {
    const { shape } = this.engine
    const kernel = alternatives({ vocabulary: shape.card.vocabulary, stride: shape.vocabulary, count })
    const size = rows * count * 8
    const named = { buffer: this.named(), offset: step * size, size }
    return { kernel, buffers: [this.#logits, this.rule, this.#drawnAt(rows, step), named], workgroups: [rows] }
  }

  #drawnAt(rows: number, step: number): Bound {
    return { buffer: this.drawn, offset: step * rows * 16, size: rows * 16 }
  }

  /** Reads in `rows` tokens of `prefillIds` at the places of `prefillRows`: keys and values only. */
  prefill(rows: number): Plan {
    return this.#remember(this.#prefills, rows, () => new Plan(this.engine.pipelines, this.prefillDispatches(rows)))
  }

  prefillDispatches(rows: number): Dispatch[] {
    return [...this.#embed(rows, 'ids'), ...this.#layers(rows, 'rows')]
  }

  /** Writes the table of copies, (from slot, to slot, count) each and at most `maxRows`, for the plan that it gives. */
  copy(copies: [number, number, number][]): Plan {
    const { pipelines, device, shape } = this.engine
    const { kvHeads, headWidth } = shape.card
    // Sizes are bucketed, so that few plans are made; an entry to spare copies nothing.
    const entries = Math.min(this.maxRows, padTo(copies.length, 16))
    const count = padTo(Math.max(...copies.map(([, , positions]) => positions)), 64)
    const table = new Uint32Array(entries * 4)
    for (const [i, [from, to, positions]] of copies.entries()) table.set([from, to, 0, positions], 4 * i)
    device.queue.writeBuffer(this.copies, 0, table)
    return this.#remember(this.#copyings, `${entries} ${count}`, () => {
      const cache = { kvHeads, headWidth, positions: this.size.positions }
      const kernel = copyCache(cache)
      const workgroups = copyCacheWorkgroups(cache, entries, count)
      const buffersOf = (keys: Bound, layer: number) => [keys, this.#values[layer], this.copies]
      return new Plan(
        pipelines,
        this.#keys.map((keys, layer) => ({ kernel, buffers: buffersOf(keys, layer), workgroups })),
      )
    })
  }

  dispose(): void {
    this.engine.memory.free(...this.#buffers)
  }

  #remember<K, T>(known: Map<K, T>, key: K, make: () => T): T {
    let value = known.get(key)
    if (value === undefined) {
      value = make()
      known.set(key, value)
    }
    return value
  }

  #order(N: number, K: number, rank = 0) {
    return samplingOrder(N, K, rank, this.engine.limits)
  }

  #embed(rows: number, tokens: 'slots' | 'ids'): Dispatch[] {
    const { weights, shape } = this.engine
    const { embedding } = weights
    const spec = { vocabulary: shape.card.vocabulary, width: shape.width, format: embedding.format, tokens }
    const table = embedding.scales ? [embedding.words, embedding.scales] : [embedding.words]
    const ids = tokens === 'slots' ? [this.rowTable, this.slots] : [this.prefillIds]
    return [{ kernel: embed(spec), buffers: [...table, ...ids, this.#x], workgroups: embedWorkgroups(spec, rows) }]
  }

  #layers(rows: number, place: 'slots' | 'rows'): Dispatch[] {
    const { shape, weights } = this.engine
    return weights.layers.flatMap((_, layer) => this.#layer(layer, rows, place, shape.card.queryKeyValueBias))
  }

  #layer(index: number, rows: number, place: 'slots' | 'rows', biased: boolean): Dispatch[] {
    const { weights, shape } = this.engine
    const layer = weights.layers[index]
    const norm = (gain: GPUBuffer) => ({ gain, width: shape.card.width, epsilon: shape.card.normEpsilon })
    return [
      ...this.#product(index, 'qkv', rows, this.#x, this.#qkv, {
        norm: norm(layer.inputNorm),
        ...(biased ? { epilogue: 'bias' as const, addend: layer.qkvBias } : {}),
      }),
      ...this.#attention(index, rows, place),
      ...this.#product(index, 'o', rows, this.#attended, this.#between, { epilogue: 'residual', addend: this.#x }),
      ...this.#product(index, 'gateUp', rows, this.#between, this.#h, {
        norm: norm(layer.outputNorm),
        epilogue: 'swiglu',
      }),
      ...this.#product(index, 'down', rows, this.#h, this.#x, { epilogue: 'residual', addend: this.#between }),
    ]
  }

  #product(
    layer: number,
    product: Product,
    rows: number,
    input: GPUBuffer,
    output: GPUBuffer,
    options: {
      norm?: { gain: GPUBuffer; width: number; epsilon: number }
      epilogue?: 'bias' | 'residual' | 'swiglu'
      addend?: GPUBuffer | null
    },
  ): Dispatch[] {
    const { weights, staging, staged, variants } = this.engine
    const matrix = weights.layers[layer].products[product]
    const { rank, a, b } = staging.layers[layer][product]
    const dispatches: Dispatch[] = []
    if (rank > 0) {
      const factor = { format: 'f32' as const, rows: rank, columns: matrix.columns, words: staged, scales: null }
      dispatches.push(
        ...productDispatches({
          name: `${product}.loraA`,
          direction: 'forward',
          M: rows,
          input,
          matrix: factor,
          part: { words: region(staged, a), scales: null, rows: rank },
          tile: samplingTile(this.#order(rank, matrix.columns), rows, rank),
          variants,
          // The row's scale multiplies base and extension together, so it is left to the product.
          norm: options.norm ? { gain: options.norm.gain } : undefined,
          scratch: this.#scratch,
          output: this.#u,
        }),
      )
    }
    dispatches.push(
      ...productDispatches({
        name: product,
        direction: 'forward',
        M: rows,
        input,
        matrix,
        tile: samplingTile(this.#order(matrix.rows, matrix.columns, rank), rows, matrix.rows),
        variants,
        extension: rank > 0 ? { rank, u: this.#u, e: region(staged, b) } : null,
        ...options,
        scratch: this.#scratch,
        output,
      }),
    )
    return dispatches
  }

  #attention(index: number, rows: number, place: 'slots' | 'rows'): Dispatch[] {
    const { card, qkv: stride, attended: outStride } = this.engine.shape
    const { queryNorm, keyNorm } = this.engine.weights.layers[index]
    const shape = {
      heads: card.heads,
      kvHeads: card.kvHeads,
      headWidth: card.headWidth,
      stride,
      norm: card.queryKeyNorm,
      epsilon: card.normEpsilon,
      positions: this.size.positions,
      outStride,
      place,
      shuffles: this.engine.variants.lanes(`attend.cache/${card.heads}x${card.kvHeads}x${card.headWidth}`),
    }
    const norms = card.queryKeyNorm ? [queryNorm!, keyNorm!] : []
    const [keys, values] = [this.#keys[index], this.#values[index]]
    if (place === 'slots') {
      return [
        {
          kernel: attendCacheFused(shape),
          buffers: [this.#qkv, this.rowTable, this.slots, this.#turns, ...norms, keys, values, this.#attended],
          workgroups: attendCacheWorkgroups(shape, rows),
        },
      ]
    }
    return [
      {
        kernel: ropeCache(shape),
        buffers: [this.#qkv, this.prefillRows, this.#turns, ...norms, keys, values, this.#queries],
        workgroups: ropeCacheWorkgroups(shape, rows),
      },
      {
        kernel: attendCache(shape),
        buffers: [this.#queries, this.prefillRows, keys, values, this.#attended],
        workgroups: attendCacheWorkgroups(shape, rows),
      },
    ]
  }
}

function bufferOf(bound: Bound): GPUBuffer {
  return 'buffer' in bound ? bound.buffer : bound
}
