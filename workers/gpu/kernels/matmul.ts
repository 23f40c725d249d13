// The matrix products of a decoder, written out for one shape and tile. C [M, N] = A [M, K] · op(W), where W is frozen and
// packed (weightFormat.ts) as [out, in]: 'forward' reads it as [N, K], 'gradient' (of the input) as [K, N]. A low-rank
// extension adds U [M, R] · E within the same sum.
//
// A workgroup owns a tile of BM × BN results. Its threads form `groups` teams that take every groups-th stretch of BK along
// the sum; the teams' parts are added in order at the end. With `splits` > 1 several workgroups share one tile and write
// their parts side by side (`sumParts` adds them). The order in which a result is summed depends on BK, groups and splits
// alone, never on M, the tile's place or its other rows.

import { type Declared, declare, floatLiteral, type Kernel } from '../kernel.ts'
import { ENABLE_HALF, quadReader, type WeightFormat, weightBindings } from './weightFormat.ts'

/** What fixes the order of a sum: one choice per weight matrix and run. */
export interface SumOrder {
  /** Length of a stretch along K that is in workgroup memory at once; a multiple of 4. */
  BK: number
  groups: number
  splits: number
}

export interface Tile extends SumOrder {
  BM: number
  BN: number
  /** Results per thread: TM rows × TN columns, TN a multiple of 4. */
  TM: number
  TN: number
  /** Two buffers in workgroup memory: one barrier per stretch instead of two. */
  doubled?: boolean
}

export interface MatmulSpec {
  name: string
  /** Length of the sum; a multiple of BK. */
  K: number
  /** Columns of the result; a multiple of 4. */
  N: number
  direction: 'forward' | 'gradient'
  format: WeightFormat
  /** Packed f16 is read by shader-f16; the numbers are the same. */
  half?: boolean
  tile: Tile
  /** A is multiplied by a gain per column as it is read; 'rms' also scales each result row by 1/√(mean(a²) + ε). */
  norm?: { width: number; epsilon: number } | 'gain'
  /** Width R of the extension, a multiple of BK; 0 for none. E is f32: [N, R] forward, [R, N] for the gradient. */
  rank?: number
  /**
   * 'store'; 'bias': + bias[n]; 'residual': + residual[m, n]; 'swiglu': columns 2j and 2j+1 are gate and up, the result is
   * silu(gate)·up, [M, N/2]; 'rescaled': out = out · rescale[m] + C.
   */
  epilogue?: 'store' | 'bias' | 'residual' | 'swiglu' | 'rescaled'
}

export function threadsOf({ BM, BN, TM, TN, groups }: Tile): number {
  return (BM / TM) * (BN / TN) * groups
}

export function matmulWorkgroups({ N, tile }: MatmulSpec, M: number): [number, number, number] {
  return [Math.ceil(N / tile.BN), Math.ceil(M / tile.BM), tile.splits]
}

/** Bytes of workgroup memory. */
export function workgroupBytes(tile: Tile, direction: MatmulSpec['direction']): number {
  const { BM, BN, BK, TM, TN, groups, doubled } = tile
  const a = BM * (BK / 4 + 1)
  const w = direction === 'forward' ? BN * (BK / 4 + 1) : BK * (BN / 4)
  const tiles = (a + w) * groups * (doubled ? 2 : 1)
  const parts = groups > 1 ? threadsOf(tile) * ((TM * TN) / 4) : 0
  return Math.max(tiles, parts) * 16 + BM * (BK / 4) * groups * 4
}

const known = new Map<string, Kernel>()

/** Bound in this order: A, W, [scales], [gain], [U, E], [bias | residual | rescale], out. */
export function matmul(spec: MatmulSpec): Kernel {
  const key = JSON.stringify(spec)
  const kernel = known.get(key) ?? write(spec)
  known.set(key, kernel)
  return kernel
}

type Emit = (...text: string[]) => void
type Layout = ReturnType<typeof layoutOf>

const range = (n: number) => Array.from({ length: n }, (_, i) => i)

function write(spec: MatmulSpec): Kernel {
  const layout = layoutOf(spec)
  const { text: declarations, bindings } = declare(matmulBindings(spec))
  const lines: string[] = []
  const emit: Emit = (...text) => lines.push(...text)
  if (spec.half) emit(ENABLE_HALF)
  emit(declarations, quadReader(spec.format, spec.half))
  open(emit, spec, layout)
  sumStretches(emit, spec, layout)
  bringTogether(emit, spec, layout)
  finishResults(emit, spec, layout)
  emit('}')
  return { name: spec.name, code: lines.join('\n'), bindings }
}

/** The numbers of a kernel. Quads are four numbers; a pass is one quad for each thread of a team. */
function layoutOf({ K, N, direction, tile, norm, rank = 0, epilogue = 'store' }: MatmulSpec) {
  const { BM, BN, BK, TM, TN, groups, splits, doubled = false } = tile
  const forward = direction === 'forward'
  const [RY, CX] = [BM / TM, BN / TN]
  const team = RY * CX
  const threads = team * groups
  const quads = BK / 4
  const rowStride = quads + 1
  check(K % BK === 0 && rank % BK === 0 && BK % 4 === 0, `K ${K} and rank ${rank} are multiples of BK ${BK}`)
  check(BM % TM === 0 && BN % TN === 0 && TN % 4 === 0, `tile ${BM}×${BN} divides into ${TM}×${TN}`)
  check(threads <= 1024, `${threads} threads`)
  check(splits === 1 || epilogue === 'store', 'parts to be stored, and finished by sumParts')
  check(epilogue !== 'swiglu' || (direction === 'forward' && (TN === 4 || TN % 8 === 0)), 'gate and up in one thread')

  const aQuads = BM * quads
  const wQuads = (BK * BN) / 4
  const stretches = (K + rank) / BK
  const perSplit = Math.ceil(stretches / splits)
  const rounds = Math.ceil(perSplit / groups)
  return {
    ...{ forward, RY, CX, team, threads, quads, rowStride, aQuads, wQuads, stretches, perSplit, rounds, doubled },
    aSize: BM * rowStride,
    wSize: forward ? BN * rowStride : wQuads,
    buffers: doubled ? 2 : 1,
    partQuads: (TM * TN) / 4,
    aPasses: Math.ceil(aQuads / team),
    wPasses: Math.ceil(wQuads / team),
    ragged: perSplit * splits !== stretches || rounds * groups !== perSplit,
    guardN: N % BN !== 0,
    rms: typeof norm === 'object' ? norm : null,
    swiglu: epilogue === 'swiglu',
  }
}

/** Who a thread is, its results, and where its quads come from, worked out once. */
function open(emit: Emit, { tile }: MatmulSpec, layout: Layout): void {
  const { BM, BN, TM, TN, groups } = tile
  const { forward, CX, team, threads, quads, aQuads, perSplit, aSize, wSize, buffers, aPasses, wPasses, rms } = layout
  const tileSize = (aSize + wSize) * groups * buffers
  const partSize = groups > 1 ? threads * layout.partQuads : 0
  emit(`var<workgroup> memory: array<vec4f, ${Math.max(tileSize, partSize)}>;`)
  if (rms) emit(`var<workgroup> squares: array<f32, ${aQuads * groups}>;`)
  emit(
    `@compute @workgroup_size(${threads})`,
    'fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) tile: vec3u, @builtin(num_workgroups) tiles: vec3u) {',
    `  let member = thread ${groups > 1 ? `% ${team}u` : ''};`,
    `  let group = ${groups > 1 ? `thread / ${team}u` : '0u'};`,
    `  let tx = member % ${CX}u;`,
    `  let ty = member / ${CX}u;`,
    `  let row0 = tile.y * ${BM}u;`,
    `  let column0 = tile.x * ${BN}u;`,
    `  let first = tile.z * ${perSplit}u + group;`,
    `  let base = group * ${(aSize + wSize) * buffers}u;`,
  )
  for (const i of range(TM)) {
    if (forward) for (const j of range(TN)) emit(`  var c${i}_${j} = 0.0;`)
    else for (const j of range(TN / 4)) emit(`  var c${i}_${j} = vec4f();`)
  }
  for (const p of range(aPasses)) {
    emit(`  var a_next${p} = vec4f();`)
    if (rms) emit(`  var square${p} = 0.0;`)
  }
  for (const p of range(wPasses)) emit(`  var w_next${p} = vec4f();`)

  for (const p of range(aPasses)) {
    emit(
      `  let a_item${p} = member + ${p * team}u;`,
      `  let a_row${p} = a_item${p} / ${quads}u;`,
      `  let a_quad${p} = a_item${p} % ${quads}u;`,
    )
  }
  for (const p of range(wPasses)) {
    const perRow = forward ? quads : BN / 4
    emit(
      `  let w_item${p} = member + ${p * team}u;`,
      `  let w_row${p} = w_item${p} / ${perRow}u;`,
      `  let w_quad${p} = w_item${p} % ${perRow}u;`,
    )
  }
}

/** Brings a thread's quads of one stretch into its variables. */
function loadStretch({ K, N, tile, norm, rank = 0 }: MatmulSpec, layout: Layout): string {
  const { BK, groups, splits } = tile
  const { forward, team, quads, aQuads, wQuads, stretches, perSplit, rounds, aPasses, wPasses } = layout
  const { ragged, guardN, rms } = layout
  const block: string[] = []
  const extension: string[] = []
  for (const p of range(aPasses)) {
    const guard = (p + 1) * team > aQuads ? `if (a_item${p} < ${aQuads}u) ` : ''
    const gained = norm ? ` * gain[stretch * ${quads}u + a_quad${p}]` : ''
    const raw = `a[(row0 + a_row${p}) * ${K / 4}u + stretch * ${quads}u + a_quad${p}]`
    if (rms) {
      block.push(`${guard}{ let raw = ${raw}; square${p} += dot(raw, raw); a_next${p} = raw${gained}; }`)
    } else block.push(`${guard}{ a_next${p} = ${raw}${gained}; }`)
    extension.push(
      `${guard}{ a_next${p} = u[(row0 + a_row${p}) * ${rank / 4}u + (stretch - ${K / BK}u) * ${quads}u + a_quad${p}]; }`,
    )
  }
  for (const p of range(wPasses)) {
    const outside = (p + 1) * team > wQuads ? [`w_item${p} < ${wQuads}u`] : []
    if (guardN) outside.push(forward ? `column0 + w_row${p} < ${N}u` : `column0 + w_quad${p} * 4u < ${N}u`)
    const guard = outside.length ? `if (${outside.join(' && ')}) ` : ''
    const [index, extra] = forward
      ? [
          `(column0 + w_row${p}) * ${K / 4}u + stretch * ${quads}u + w_quad${p}`,
          `(column0 + w_row${p}) * ${rank / 4}u + (stretch - ${K / BK}u) * ${quads}u + w_quad${p}`,
        ]
      : [
          `(stretch * ${BK}u + w_row${p}) * ${N / 4}u + column0 / 4u + w_quad${p}`,
          `((stretch - ${K / BK}u) * ${BK}u + w_row${p}) * ${N / 4}u + column0 / 4u + w_quad${p}`,
        ]
    block.push(`${guard}{ w_next${p} = weightQuad(${index}); }`)
    extension.push(`${guard}{ w_next${p} = e[${extra}]; }`)
  }
  const zero = [
    ...range(aPasses).map((p) => `a_next${p} = vec4f();`),
    ...range(wPasses).map((p) => `w_next${p} = vec4f();`),
  ]
  let text = block.join('\n      ')
  if (rank)
    text = `if (stretch < ${K / BK}u) {\n      ${text}\n    } else {\n      ${extension.join('\n      ')}\n    }`
  if (!ragged) return `{\n    ${text}\n    }`
  const inside =
    perSplit * splits === stretches && rounds * groups !== perSplit
      ? `stretch < tile.z * ${perSplit}u + ${perSplit}u`
      : `stretch < min(tile.z * ${perSplit}u + ${perSplit}u, ${stretches}u)`
  return `if (${inside}) {\n    ${text}\n    } else { ${zero.join(' ')} }`
}

function sumStretches(emit: Emit, spec: MatmulSpec, layout: Layout): void {
  const { BN, groups } = spec.tile
  const { forward, team, rowStride, aQuads, wQuads, rounds, aSize, wSize, aPasses, wPasses } = layout
  const { doubled, rms, swiglu } = layout
  emit('  var stretch = first;', `  ${loadStretch(spec, layout)}`)
  emit(`  for (var round = 0u; round < ${rounds}u; round++) {`)
  emit(`    let here = base${doubled ? ` + (round & 1u) * ${aSize + wSize}u` : ''};`)
  for (const p of range(aPasses)) {
    const guard = (p + 1) * team > aQuads ? `if (a_item${p} < ${aQuads}u) ` : ''
    emit(`    ${guard}{ memory[here + a_row${p} * ${rowStride}u + a_quad${p}] = a_next${p}; }`)
  }
  // Gate and up of one column lie half a tile apart, so that one thread owns both and reads without bank conflicts.
  const place = (p: number) => (swiglu ? `((w_row${p} & 1u) * ${BN / 2}u + (w_row${p} >> 1u))` : `w_row${p}`)
  for (const p of range(wPasses)) {
    const guard = (p + 1) * team > wQuads ? `if (w_item${p} < ${wQuads}u) ` : ''
    const at = forward ? `${place(p)} * ${rowStride}u + w_quad${p}` : `w_item${p}`
    emit(`    ${guard}{ memory[here + ${aSize}u + ${at}] = w_next${p}; }`)
  }
  emit('    workgroupBarrier();')
  emit(`    stretch += ${groups}u;`)
  emit(`    if (round + 1u < ${rounds}u) ${wrap(loadStretch(spec, layout))}`)
  multiply(emit, spec, layout)
  if (!doubled) emit('    workgroupBarrier();')
  emit('  }')
  if (doubled && (groups > 1 || rms)) emit('  workgroupBarrier();')
}

/** What lies in workgroup memory, into the results of a thread. */
function multiply(emit: Emit, { tile }: MatmulSpec, { forward, RY, CX, quads, rowStride, aSize }: Layout): void {
  const { BN, TM, TN } = tile
  emit(`    for (var q = 0u; q < ${quads}u; q++) {`)
  for (const i of range(TM)) emit(`      let a${i} = memory[here + (ty + ${i * RY}u) * ${rowStride}u + q];`)
  if (forward) {
    for (const j of range(TN)) {
      emit(`      { let b = memory[here + ${aSize}u + (tx + ${j * CX}u) * ${rowStride}u + q];`)
      for (const component of ['x', 'y', 'z', 'w'])
        for (const i of range(TM)) emit(`        c${i}_${j} = fma(a${i}.${component}, b.${component}, c${i}_${j});`)
      emit('      }')
    }
  } else {
    for (const [k, component] of ['x', 'y', 'z', 'w'].entries())
      for (const j of range(TN / 4)) {
        emit(`      { let b = memory[here + ${aSize}u + (q * 4u + ${k}u) * ${BN / 4}u + tx + ${j * CX}u];`)
        for (const i of range(TM)) emit(`        c${i}_${j} = fma(vec4f(a${i}.${component}), b, c${i}_${j});`)
        emit('      }')
      }
  }
  emit('    }')
}

/** Four results of a thread. */
function quadOf(forward: boolean, i: number, j: number): string {
  if (!forward) return `c${i}_${j}`
  return `vec4f(${range(4)
    .map((c) => `c${i}_${4 * j + c}`)
    .join(', ')})`
}

/** The squares of rows and the parts of teams, through workgroup memory. */
function bringTogether(emit: Emit, { tile }: MatmulSpec, layout: Layout): void {
  const { TM, TN, groups } = tile
  const { forward, team, aQuads, partQuads, aPasses, rms } = layout
  if (rms) {
    for (const p of range(aPasses)) {
      const guard = (p + 1) * team > aQuads ? `if (a_item${p} < ${aQuads}u) ` : ''
      emit(`  ${guard}{ squares[group * ${aQuads}u + a_item${p}] = square${p}; }`)
    }
  }
  if (groups > 1) {
    for (const i of range(TM))
      for (const j of range(TN / 4))
        emit(`  memory[(group * ${partQuads}u + ${i * (TN / 4) + j}u) * ${team}u + member] = ${quadOf(forward, i, j)};`)
  }
  if (rms || groups > 1) emit('  workgroupBarrier();')
}

/** Every thread finishes its share of the results: its own, or every groups-th of what its whole team's place holds. */
function finishResults(emit: Emit, spec: MatmulSpec, layout: Layout): void {
  const { TM, TN, groups } = spec.tile
  const { forward, RY, team, quads, aQuads, partQuads, rms, swiglu } = layout
  const perQuad = swiglu && TN > 4 ? 2 : 1
  const finish = (i: string, j: string, values: string[]) => {
    emit('  {', `  let row = row0 + ty + ${i} * ${RY}u;`)
    for (const [n, value] of values.entries()) emit(`  var v${n} = ${value};`)
    if (rms) {
      const parts = range(groups).flatMap((g) =>
        range(quads).map((q) => `squares[${g * aQuads + q}u + (row - row0) * ${quads}u]`),
      )
      emit(
        `  let scale = inverseSqrt((${parts.join(' + ')}) / ${floatLiteral(rms.width)} + ${floatLiteral(rms.epsilon)});`,
      )
      for (const n of values.keys()) emit(`  v${n} *= scale;`)
    }
    store(emit, spec, j)
    emit('  }')
  }
  const half = TN / 8
  if (groups > 1) {
    const rowQuads = TN / 4 / perQuad
    const sum = (quad: string) =>
      range(groups)
        .map((g) => `memory[(${g * partQuads}u + ${quad}) * ${team}u + member]`)
        .join(' + ')
    emit(`  for (var part = group; part < ${TM * rowQuads}u; part += ${groups}u) {`)
    emit(`  let i = part / ${rowQuads}u;`, `  let j = part % ${rowQuads}u;`)
    const own = `(i * ${TN / 4}u + j)`
    finish('i', 'j', perQuad === 2 ? [sum(own), sum(`(i * ${TN / 4}u + j + ${half}u)`)] : [sum(own)])
    emit('  }')
  } else {
    for (const i of range(TM))
      for (const j of range(TN / 4 / perQuad))
        finish(
          `${i}u`,
          `${j}u`,
          perQuad === 2 ? [quadOf(forward, i, j), quadOf(forward, i, j + half)] : [quadOf(forward, i, j)],
        )
  }
}

function matmulBindings({ direction, format, half, norm, rank, epilogue }: MatmulSpec): Declared[] {
  const results = direction === 'forward' ? 'array<f32>' : 'array<vec4f>'
  const bindings: Declared[] = [['a', 'read', 'array<vec4f>'], ...weightBindings(format, half)]
  if (norm) bindings.push(['gain', 'read', 'array<vec4f>'])
  if (rank) bindings.push(['u', 'read', 'array<vec4f>'], ['e', 'read', 'array<vec4f>'])
  if (epilogue === 'bias') bindings.push(['bias', 'read', results])
  if (epilogue === 'residual') bindings.push(['residual', 'read', results])
  if (epilogue === 'rescaled') bindings.push(['rescale', 'read', 'array<f32>'])
  bindings.push(['result', 'write', results])
  return bindings
}

// Four results of one row: `v0`, and for SiLU·gate with wide threads the matching `v1`.
function store(emit: (...text: string[]) => void, spec: MatmulSpec, j: string): void {
  const { N, direction, tile, epilogue = 'store' } = spec
  const { BM, BN, TN, splits } = tile
  const CX = BN / TN
  const guardN = N % BN !== 0
  const rows = splits > 1 ? `(tile.z * tiles.y * ${BM}u + row)` : 'row'
  if (direction === 'gradient') {
    emit(`  let column = column0 / 4u + tx + ${j} * ${CX}u;`, `  let at = ${rows} * ${N / 4}u + column;`)
    const value = {
      store: 'v0',
      bias: 'v0 + bias[column]',
      residual: 'residual[at] + v0',
      rescaled: 'fma(result[at], vec4f(rescale[row]), v0)',
      swiglu: '',
    }[epilogue]
    emit(`  ${guardN ? `if (column < ${N / 4}u) ` : ''}{ result[at] = ${value}; }`)
    return
  }
  if (epilogue === 'swiglu') {
    const [gate, up] = TN === 4 ? ['v0.xy', 'v0.zw'] : ['v0', 'v1']
    emit(`  let h = ${gate} / (1.0 + exp(-${gate})) * ${up};`)
    for (let c = 0; c < (TN === 4 ? 2 : 4); c++) {
      emit('  {', `  let column = column0 / 2u + tx + (${j} * 4u + ${c}u) * ${CX}u;`)
      emit(`  ${guardN ? `if (column < ${N / 2}u) ` : ''}{ result[row * ${N / 2}u + column] = h[${c}]; }`, '  }')
    }
    return
  }
  for (let c = 0; c < 4; c++) {
    emit('  {', `  let column = column0 + tx + (${j} * 4u + ${c}u) * ${CX}u;`, `  let at = ${rows} * ${N}u + column;`)
    const value = {
      store: `v0[${c}]`,
      bias: `v0[${c}] + bias[column]`,
      residual: `residual[at] + v0[${c}]`,
      rescaled: `fma(result[at], rescale[row], v0[${c}])`,
    }[epilogue]
    emit(`  ${guardN ? `if (column < ${N}u) ` : ''}{ result[at] = ${value}; }`, '  }')
  }
}

function wrap(block: string): string {
  return block.startsWith('{') ? block : `{ ${block} }`
}

function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(`internal: matmul expects ${what}`)
}
