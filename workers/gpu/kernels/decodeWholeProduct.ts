// The products of `decodeWhole` as text. A thread sums a stretch of K for some quads of columns and all rows of its
// workgroup: a weight is read once for all rows, one of the row's numbers once for all quads. The parts of a sum then meet
// in workgroup memory. What an adapter adds is one more stretch, over its rank.

import type { WholeMatrix } from './decodeWholeLayout.ts'

export interface ProductText {
  name: string
  /** In the buffer of frozen weights, from `frozen` on. */
  matrix: WholeMatrix
  format: 'f32' | 'f16'
  /** In the buffer of adapters, from `adapted` on. */
  adapter: { a: WholeMatrix; b: WholeMatrix } | null
  /** Workgroup array of vectors and its stride. */
  source: 'narrow' | 'qkv'
  stride: string
  /** The source is a norm's: its scale per row is gathered before the results are made. */
  normed: boolean
  /** `value` of `row` at quad `column` becomes a result; with `pairs`, `gate` and `up` at quad `column`. */
  finish: string
  pairs?: boolean
}

export interface ProductTiling {
  threads: number
  rows: number
  /** Vectors of the area. */
  area: number
  pipelined: boolean
}

/** How one product is cut among threads. */
export interface Cut {
  /** Stretches of K, and fours of K in each. */
  splits: number
  stretch: number
  /** Quads of columns side by side, and how many of them a thread has. */
  across: number
  passes: number
  /** Fours of K whose weights are read together. */
  unroll: number
}

const MOST_SPLITS = 32
/** Vectors of weights on their way to a workgroup at once: as many as the latency of a large GPU's cache wants. */
const IN_FLIGHT = 4096

export function cutOf({ K, quads }: WholeMatrix, threads: number, format: 'f32' | 'f16', even: boolean): Cut {
  const fours = K / 4
  let best: Cut | null = null
  let least = Number.POSITIVE_INFINITY
  for (let splits = 1; splits <= Math.min(MOST_SPLITS, threads, fours); splits++) {
    let across = Math.min(quads, Math.floor(threads / splits))
    if (even) across -= across % 2
    if (across === 0) continue
    const passes = Math.ceil(quads / across)
    // Even shares leave fewer columns that nobody wants.
    across = Math.ceil(quads / passes)
    if (even) across += across % 2
    if (passes > 8 || across * splits > threads) continue
    const stretch = Math.ceil(fours / splits)
    // Reading the weights, and adding the parts up. Narrow stretches of columns use a part of each line.
    const cost = 4 * passes * stretch * (across < 8 ? 2 : 1) + Math.ceil((splits * quads) / threads) + splits / 4
    if (cost >= least) continue
    least = cost
    const unroll = unrollOf(fours, splits, passes * (format === 'f16' ? 2 : 4), threads)
    best = { splits, stretch, across, passes, unroll }
  }
  if (!best) throw new Error(`internal: a product of ${quads} quads of columns does not fit ${threads} threads`)
  return best
}

// Fours of K read together; a stretch that is not whole is read one by one.
function unrollOf(fours: number, splits: number, perFour: number, threads: number): number {
  const stretch = Math.ceil(fours / splits)
  if (fours % splits !== 0) return 1
  let unroll = Math.max(1, Math.floor(IN_FLIGHT / threads / perFour))
  while (stretch % unroll !== 0) unroll--
  return unroll
}

/** `fn product<Name>(frozen, adapted, gain, thread)`; begins and ends where all threads are together. */
export function productText(product: ProductText, tiling: ProductTiling): string {
  const { name, matrix, format, adapter, source, stride, normed, finish, pairs = false } = product
  const { threads, rows } = tiling
  const cut = cutOf(matrix, threads, format, pairs)
  const lines = [
    `fn product${name[0].toUpperCase()}${name.slice(1)}(frozen: u32, adapted: u32, gain: u32, thread: u32) {`,
    ...(normed ? ['gatherSpreads(thread);'] : []),
    `let split = thread / ${cut.across}u;`,
    `let column = thread % ${cut.across}u;`,
    ...accumulators('c', cut.passes, rows),
    ...sum({
      prefix: 'c',
      cut,
      fours: matrix.K / 4,
      tiling,
      format,
      buffer: 'weights',
      base: `frozen + ${matrix.offset}u`,
      quads: matrix.quads,
      source: (row, four) => `${source}[${row}u * ${stride} + ${four}]`,
    }),
  ]
  if (adapter) {
    const { a, b } = adapter
    const inner = cutOf(a, threads, 'f32', false)
    const fours = b.K / 4
    const unroll = unrollOf(fours, cut.splits, 4 * cut.passes, threads)
    const own = { ...cut, stretch: Math.ceil(fours / cut.splits), unroll }
    lines.push(
      '{',
      `let split = thread / ${inner.across}u;`,
      `let column = thread % ${inner.across}u;`,
      ...accumulators('u', inner.passes, rows),
      ...sum({
        prefix: 'u',
        cut: inner,
        fours: a.K / 4,
        tiling,
        format: 'f32',
        buffer: 'adapters',
        base: `adapted + ${a.offset}u`,
        quads: a.quads,
        source: (row, four) => `${source}[${row}u * ${stride} + ${four}]`,
      }),
      ...meet('u', inner, a.quads, tiling, 'lora[row * LORA + column] = value;', false),
      '}',
      ...sum({
        prefix: 'c',
        cut: own,
        fours,
        tiling,
        format: 'f32',
        buffer: 'adapters',
        base: `adapted + ${b.offset}u`,
        quads: b.quads,
        source: (row, four) => `lora[${row}u * LORA + ${four}]`,
      }),
    )
  }
  lines.push(...meet('c', cut, matrix.quads, tiling, finish, pairs), '}')
  return lines.join('\n')
}

function range(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i)
}

function accumulators(prefix: string, passes: number, rows: number): string[] {
  return range(passes).flatMap((p) => range(rows).map((row) => `var ${prefix}${p}_${row} = vec4f();`))
}

interface Sum {
  prefix: string
  cut: Cut
  fours: number
  tiling: ProductTiling
  format: 'f32' | 'f16'
  buffer: 'weights' | 'adapters'
  base: string
  quads: number
  source: (row: number, four: string) => string
}

// A stretch of K: for each four of K, its weights, then every row's four numbers.
function sum({ prefix, cut, fours, tiling, format, buffer, base, quads, source }: Sum): string[] {
  const { stretch, across, passes, unroll } = cut
  const perFour = format === 'f16' ? 2 : 4
  const loads = range(unroll).flatMap((u) =>
    range(perFour).flatMap((i) =>
      range(passes).map((p) => ({
        name: `w${u}_${i}_${p}`,
        at: `${buffer}[at + ${(u * perFour + i) * quads + p * across}u]`,
      })),
    ),
  )
  const read = (at: string) => (format === 'f32' && buffer === 'weights' ? `bitcast<vec4f>(${at})` : at)
  const word = format === 'f16' ? 'vec4u' : 'vec4f'
  const adds = (four: string) =>
    range(unroll).flatMap((u) => [
      ...range(tiling.rows).map((row) => `let x${u}_${row} = ${source(row, `${four} + ${u}u`)};`),
      ...range(4).flatMap((i) =>
        range(passes).flatMap((p) => {
          const held = `w${u}_${format === 'f16' ? i >> 1 : i}_${p}`
          const pair = i % 2 === 0 ? ['x', 'y'] : ['z', 'w']
          const weight =
            format === 'f16' ? `vec4f(unpack2x16float(${held}.${pair[0]}), unpack2x16float(${held}.${pair[1]}))` : held
          return [
            '{',
            `let weight = ${weight};`,
            ...range(tiling.rows).map(
              (row) => `${prefix}${p}_${row} = fma(vec4f(x${u}_${row}.${'xyzw'[i]}), weight, ${prefix}${p}_${row});`,
            ),
            '}',
          ]
        }),
      ),
    ])
  const step = `${unroll * perFour * quads}u`
  const open = [
    '{',
    `let end = min((split + 1u) * ${stretch}u, ${fours}u);`,
    `var four = split * ${stretch}u;`,
    `var at = ${base} + four * ${perFour * quads}u + column;`,
  ]
  if (!tiling.pipelined || buffer === 'adapters') {
    return [
      ...open,
      `for (; four < end; four += ${unroll}u) {`,
      ...loads.map(({ name, at }) => `let ${name} = ${read(at)};`),
      ...adds('four'),
      `at += ${step};`,
      '}',
      '}',
    ]
  }
  // The next weights are asked for before these are used.
  return [
    ...open,
    ...loads.map(({ name }) => `var n${name} = ${word}();`),
    'if (four < end) {',
    ...loads.map(({ name, at }) => `n${name} = ${read(at)};`),
    '}',
    'while (four < end) {',
    `at += ${step};`,
    ...loads.map(({ name }) => `let ${name} = n${name};`),
    `if (four + ${unroll}u < end) {`,
    ...loads.map(({ name, at }) => `n${name} = ${read(at)};`),
    '}',
    ...adds('four'),
    `four += ${unroll}u;`,
    '}',
    '}',
  ]
}

// The parts of every sum are laid out, as many at a time as the area holds, and added up in the order of K.
function meet(
  prefix: string,
  { splits, across, passes }: Cut,
  quads: number,
  { threads, rows, area }: ProductTiling,
  finish: string,
  pairs: boolean,
): string[] {
  const members = splits * across
  const all = range(passes).flatMap((p) => range(rows).map((row) => `${prefix}${p}_${row}`))
  const perRound = Math.max(1, Math.floor(area / members))
  const columns = pairs ? across / 2 : across
  const total = (at: string) =>
    splits <= 8
      ? range(splits)
          .map((s) => `area[${at} + ${s * across}u]`)
          .join(' + ')
      : null
  const added = (name: string, at: string) => {
    const text = total(at)
    if (text) return [`let ${name} = ${text};`]
    return [
      `var ${name} = area[${at}];`,
      `for (var s = 1u; s < ${splits}u; s++) { ${name} += area[${at} + s * ${across}u]; }`,
    ]
  }
  return range(Math.ceil(all.length / perRound)).flatMap((round) => {
    const held = all.slice(round * perRound, (round + 1) * perRound)
    return [
      members === threads ? '{' : `if (thread < ${members}u) {`,
      ...held.map((value, i) => `area[${i * members}u + thread] = ${value};`),
      '}',
      'workgroupBarrier();',
      `for (var item = thread; item < ${held.length * columns}u; item += THREADS) {`,
      `let nth = ${round * perRound}u + item / ${columns}u;`,
      `let row = nth % ${rows}u;`,
      `let own = ${pairs ? `2u * (item % ${columns}u)` : `item % ${columns}u`};`,
      `let column = nth / ${rows}u * ${across}u + own;`,
      `if (column < ${quads}u) {`,
      `let from_ = item / ${columns}u * ${members}u + own;`,
      ...(pairs ? [...added('gate', 'from_'), ...added('up', 'from_ + 1u')] : added('value', 'from_')),
      finish,
      '}',
      '}',
      'workgroupBarrier();',
    ]
  })
}
