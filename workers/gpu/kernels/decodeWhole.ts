// Decoding with no dispatch between the tokens: one workgroup per few sequences, for models that fit a large GPU's cache.
// The sums are those of the plans of samplingPlans.ts in another order; the keys, values and slots are the same buffers.

import { type Declared, declare, type Kernel, specialise } from '../kernel.ts'
import source from './decodeWhole.wgsl?raw'
import attendSource from './decodeWholeAttend.wgsl?raw'
import drawSource from './decodeWholeDraw.wgsl?raw'
import { WHOLE_PRODUCTS, type WholeShape, wholeLayout } from './decodeWholeLayout.ts'
import { type ProductText, productText } from './decodeWholeProduct.ts'
import noise from './drawNoise.wgsl?raw'
import rule from './drawRule.wgsl?raw'
import { ropeConstants, ropeText } from './ropeHead.ts'
import { ENABLE_SUBGROUPS, shuffled } from './shuffle.ts'
import slot from './slot.wgsl?raw'
import { unroll } from './unroll.ts'

export interface WholeTiling {
  /** Sequences of one workgroup: 1, 2 or 4. */
  rows: number
  threads: number
  /** Neighbouring threads that share a key, by subgroup shuffles; 1 for none. */
  lanes: number
  /** Weights are asked for one step ahead. */
  pipelined: boolean
}

type Tiled = WholeShape & { tiling: WholeTiling }

export interface WholeSpec extends Tiled {
  slots: number
  /** Tokens of one dispatch, at most. */
  steps: number
}

/** Vectors of workgroup memory in which parts of sums meet. */
const AREA = 1024
/** Vectors of accumulators that attention keeps in a thread's registers. */
const MIXED = 16
/** Keys in flight in a team of several threads. */
const UNROLL = 4

interface Attention {
  chunk: number
  vectors: number
  parts: number
  unroll: number
}

function attentionOf({ heads, kvHeads, headWidth, tiling }: Tiled): Attention | null {
  const { rows, threads, lanes } = tiling
  const vectors = headWidth / 4 / lanes
  if (!Number.isInteger(vectors)) return null
  const group = heads / kvHeads
  let chunk = group
  while (chunk > 1 && (group % chunk !== 0 || chunk * vectors > MIXED)) chunk--
  const units = rows * kvHeads * (group / chunk)
  const parts = Math.floor(threads / lanes / units)
  if (parts < 1 || chunk * vectors > MIXED) return null
  return { chunk, vectors, parts, unroll: lanes > 1 ? UNROLL : 1 }
}

/** Bytes of workgroup memory; null when the shape cannot be cut so. */
export function wholeWorkgroupBytes(spec: Tiled): number | null {
  const attention = attentionOf(spec)
  if (!attention) return null
  const { tiling, kvHeads, heads, headWidth } = spec
  const { rows } = tiling
  const { width, narrow, wide, lora } = widthsOf(spec)
  const units = (rows * kvHeads * heads) / kvHeads / attention.chunk
  const vectors = rows * (width + narrow + wide + lora) + AREA + headWidth / 2
  const floats =
    rows * (width + width / 4) + units * attention.chunk * (2 * attention.parts + 1) + rows * (4 * drawers(spec) + 12)
  return vectors * 16 + floats * 4 + 64
}

/** In vectors of four. */
function widthsOf({ width, attended, qkv, ffn, vocabulary, ranks }: Tiled) {
  const logits = Math.ceil(vocabulary / 4)
  return {
    width: width / 4,
    narrow: Math.max(width, attended) / 4,
    wide: Math.max(qkv / 4, ffn / 4, logits),
    logits,
    lora: Math.max(4, ...WHOLE_PRODUCTS.map((product) => ranks[product])) / 4,
  }
}

function drawers({ tiling }: Tiled): number {
  return Math.min(64, Math.floor(tiling.threads / tiling.rows))
}

/**
 * Up to `steps` tokens for every open slot of the rows; a workgroup whose sequences are all closed leaves.
 * Bound in this order: weights (`wholeLayout`), adapters, rows vec2u [M] (slot, unused), turns [positions, d/2] (cos, sin),
 * the rule (`packRule`, whose truncation and penalty are not looked at), slots u32 [slots, SLOT_WORDS], keys and values
 * [layers, slots, S, K·d] in buffers of that size, drawn vec4u [steps, M] as `draw` writes it. M is a multiple of `rows`; a closed slot may stand in
 * several rows.
 * @throws Error when the shape cannot be cut so
 */
export function decodeWhole(spec: WholeSpec): Kernel {
  const attention = attentionOf(spec)
  if (!attention) throw new Error('internal: this model does not fit the kernel that decodes whole sequences')
  const { tiling, heads, kvHeads, headWidth, queryKeyNorm, format } = spec
  const { threads, lanes } = tiling
  const layout = wholeLayout(spec)
  const { width, narrow, wide, logits, lora } = widthsOf(spec)
  const { text: declarations, bindings } = declare([
    ['weights', 'read', `array<vec4u, ${layout.size}>`],
    ['adapters', 'read', `array<vec4f, ${layout.adapters.size}>`],
    ['rows', 'read', 'array<vec2u>'],
    ['turns', 'read', 'array<vec4f>'],
    ['slots', 'write', 'array<Slot>'],
    ['keys', 'write', 'array<vec4f>'],
    ['values', 'write', 'array<vec4f>'],
    ['drawn', 'write', 'array<vec4u>'],
  ] satisfies Declared[])
  const group = heads / kvHeads
  const merged = Math.max(1, Math.floor(AREA / threads))
  const { chunk, vectors, parts, unroll: keys } = attention
  const attend = unroll(attendSource, {
    CHUNK: chunk,
    VECTORS: vectors,
    UNROLL: keys,
    MERGED: Math.min(merged, chunk * vectors),
    ROUNDS: Math.ceil((chunk * vectors) / merged),
  })
  const code = specialise(
    [
      declarations,
      `@group(0) @binding(${bindings.length}) var<uniform> rule: Rule;`,
      slot,
      rule,
      ropeText({ heads, kvHeads, headWidth, stride: 4 * wide, norm: queryKeyNorm, epsilon: spec.epsilon }),
      noise,
      source,
      shuffled({ name: 'sumOfTeam', type: 'f32', threads, team: lanes, lanes, combine: (a, b) => `${a} + ${b}` }),
      attend,
      drawSource,
      ...products(spec).map((product) => productText(product, { ...tiling, area: AREA })),
    ].join('\n'),
    {
      ...ropeConstants({ heads, kvHeads, headWidth, stride: 4 * wide, norm: queryKeyNorm, epsilon: spec.epsilon }),
      THREADS: threads,
      ROWS: tiling.rows,
      STEPS: spec.steps,
      LAYERS: spec.layers,
      WIDTH_QUADS: width,
      COLUMNS: { float: spec.columns },
      SPREADS: width / 4,
      NARROW: narrow,
      WIDE: wide,
      AREA,
      LORA: lora,
      ATTENDED_QUADS: spec.attended / 4,
      SLOTS: spec.slots,
      VOCABULARY: spec.vocabulary,
      LOGIT_QUADS: logits,
      DRAWERS: drawers(spec),
      HALF: format === 'f16',
      QUERY_KEY_NORM: queryKeyNorm,
      LANES: lanes,
      CHUNK: chunk,
      CHUNKS: group / chunk,
      VECTORS: vectors,
      PARTS: parts,
      UNROLL: keys,
      MERGED: Math.min(merged, chunk * vectors),
      LAYER_STRIDE: layout.layer.stride,
      ADAPTER_STRIDE: layout.adapters.stride,
      INPUT_NORM: layout.layer.inputNorm,
      OUTPUT_NORM: layout.layer.outputNorm,
      QUERY_NORM: layout.layer.queryNorm,
      KEY_NORM: layout.layer.keyNorm,
      BIAS: layout.layer.bias,
      FINAL_NORM: layout.finalNorm,
      EMBEDDING: layout.embedding.offset,
      EMBEDDING_COLUMNS: layout.embedding.quads,
    },
    lanes > 1 ? [ENABLE_SUBGROUPS] : [],
  )
  return { name: 'decode.whole', code, bindings: [...bindings, 'uniform'] }
}

function products(spec: Tiled): ProductText[] {
  const { layer, adapters, head } = wholeLayout(spec)
  const { format, ranks, biased } = spec
  const bias = biased ? ' + vectorAt(frozen + BIAS + column)' : ''
  const residual = 'settle(row, column, stream[row * WIDTH_QUADS + column] + value, gain);'
  const texts: Record<(typeof WHOLE_PRODUCTS)[number], Pick<ProductText, 'source' | 'finish' | 'normed' | 'pairs'>> = {
    qkv: { source: 'narrow', normed: true, finish: `qkv[row * WIDE + column] = value * scaleOf(row)${bias};` },
    o: { source: 'narrow', normed: false, finish: residual },
    gateUp: {
      source: 'narrow',
      normed: true,
      pairs: true,
      finish: `let scale = scaleOf(row);
let g = gate * scale;
qkv[row * WIDE + column / 2u] = g / (1.0f + exp(-g)) * (up * scale);`,
    },
    down: { source: 'qkv', normed: false, finish: residual },
  }
  return [
    ...WHOLE_PRODUCTS.map(
      (name): ProductText => ({
        name,
        matrix: layer.products[name],
        format,
        adapter: ranks[name] > 0 ? { a: adapters.a[name], b: adapters.b[name] } : null,
        stride: texts[name].source === 'narrow' ? 'NARROW' : 'WIDE',
        ...texts[name],
      }),
    ),
    {
      name: 'head',
      matrix: head,
      format,
      adapter: null,
      source: 'narrow',
      stride: 'NARROW',
      normed: true,
      finish: 'qkv[row * WIDE + column] = value * scaleOf(row);',
    },
  ]
}
