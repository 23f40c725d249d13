// Every variant of the product against plain sums in float64, on shapes that no tile divides.

import { describe, expect, it } from 'vitest'
import { type MatmulSpec, matmul, matmulWorkgroups, type Tile } from '../../workers/gpu/kernels/matmul.ts'
import { packWeights } from '../../workers/gpu/kernels/pack.ts'
import { FORMATS, unpackWeights, type WeightFormat } from '../../workers/gpu/kernels/weightFormat.ts'
import { RandomStream } from '../../workers/random.ts'
import { type Data, runKernel, worst } from './runKernel.ts'

const SMALL: Tile = { BM: 16, BN: 16, BK: 16, TM: 4, TN: 4, groups: 1, splits: 1 }
const TILES: Record<string, Tile> = {
  small: SMALL,
  'four teams': { ...SMALL, groups: 4 },
  'three teams, two buffers': { ...SMALL, groups: 3, doubled: true },
  wide: { BM: 32, BN: 64, BK: 8, TM: 4, TN: 8, groups: 1, splits: 1, doubled: true },
  large: { BM: 64, BN: 64, BK: 16, TM: 8, TN: 8, groups: 1, splits: 1 },
  'large, two teams': { BM: 32, BN: 64, BK: 8, TM: 8, TN: 8, groups: 2, splits: 1 },
}

/** One of each kind, for what does not depend on the tile: compiling a kernel in software takes a second. */
const KINDS = [TILES.small, TILES['three teams, two buffers'], TILES.wide]

function numbers(name: string, length: number): Float32Array {
  const random = new RandomStream(3).fork(name)
  return Float32Array.from({ length }, () => random.normal())
}

interface Case {
  spec: MatmulSpec
  M: number
}

async function compute({ spec, M }: Case): Promise<{ got: Float32Array; expected: Float64Array; data: Data[] }> {
  const { K, N, direction, format, tile, norm, rank = 0, epilogue = 'store' } = spec
  const rows = Math.ceil(M / tile.BM) * tile.BM
  const a = numbers('a', rows * K)
  const raw = numbers('w', N * K).map((v) => 0.3 * v)
  const packed = packWeights(raw, direction === 'forward' ? K : N, direction === 'forward' ? K : N, format)
  const w = unpackWeights(packed)
  const gain = numbers('gain', K)
  const u = numbers('u', rows * rank)
  const e = numbers('e', rank * N)
  const bias = numbers('bias', N)
  const residual = numbers('residual', rows * N)
  const rescale = numbers('rescale', rows)
  const data: Data[] = [a, packed.words]
  if (format === 'int8' || format === 'int4') data.push(packed.scales)
  if (norm) data.push(gain)
  if (rank) data.push(u, e)
  if (epilogue === 'bias') data.push(bias)
  if (epilogue === 'residual') data.push(residual)
  if (epilogue === 'rescaled') data.push(rescale)
  const before = numbers('result', rows * N * tile.splits)
  data.push(before.slice())

  const expected = new Float64Array(M * (epilogue === 'swiglu' ? N / 2 : N))
  for (let m = 0; m < M; m++) {
    let squares = 0
    for (let k = 0; k < K; k++) squares += a[m * K + k] ** 2
    const scale = typeof norm === 'object' ? 1 / Math.sqrt(squares / norm.width + norm.epsilon) : 1
    const row = new Float64Array(N)
    for (let n = 0; n < N; n++) {
      let sum = 0
      for (let k = 0; k < K; k++)
        sum += a[m * K + k] * (norm ? gain[k] : 1) * (direction === 'forward' ? w[n * K + k] : w[k * N + n])
      for (let r = 0; r < rank; r++) sum += u[m * rank + r] * (direction === 'forward' ? e[n * rank + r] : e[r * N + n])
      row[n] = sum * scale
      if (epilogue === 'bias') row[n] += bias[n]
      if (epilogue === 'residual') row[n] += residual[m * N + n]
      if (epilogue === 'rescaled') row[n] += before[m * N + n] * rescale[m]
    }
    if (epilogue === 'swiglu')
      for (let j = 0; j < N / 2; j++)
        expected[(m * N) / 2 + j] = (row[2 * j] / (1 + Math.exp(-row[2 * j]))) * row[2 * j + 1]
    else expected.set(row, m * N)
  }
  const [whole] = (await runKernel(matmul(spec), data, matmulWorkgroups(spec, M))) as Float32Array[]
  let got = whole.subarray(0, expected.length)
  if (tile.splits > 1) {
    got = new Float32Array(M * N)
    for (let split = 0; split < tile.splits; split++)
      for (let i = 0; i < got.length; i++) got[i] += whole[split * rows * N + i]
  }
  return { got, expected, data }
}

describe.each(Object.entries(TILES))('the product with a tile that is %s', (_, tile) => {
  it.each(['forward', 'gradient'] as const)('agrees with plain sums, %s', async (direction) => {
    const { got, expected } = await compute({
      spec: { name: 'test', K: 112, N: 84, direction, format: 'f32', tile },
      M: 37,
    })
    expect(worst(got, expected)).toBeLessThan(2e-5)
  })
})

describe('the product', () => {
  it.each(FORMATS)('reads %s weights in both directions', async (format: WeightFormat) => {
    for (const direction of ['forward', 'gradient'] as const) {
      const { got, expected } = await compute({
        spec: { name: 'test', K: 96, N: 64, direction, format, tile: SMALL },
        M: 19,
      })
      expect(worst(got, expected)).toBeLessThan(2e-5)
    }
  })

  it.each(['bias', 'residual', 'swiglu', 'rescaled'] as const)('finishes with %s', async (epilogue) => {
    for (const tile of KINDS) {
      const spec: MatmulSpec = { name: 'test', K: 48, N: 72, direction: 'forward', format: 'f32', tile, epilogue }
      const { got, expected } = await compute({ spec, M: 21 })
      expect(worst(got, expected)).toBeLessThan(2e-5)
      if (epilogue === 'swiglu') continue
      const gradient = await compute({ spec: { ...spec, direction: 'gradient' }, M: 21 })
      expect(worst(gradient.got, gradient.expected)).toBeLessThan(2e-5)
    }
  })

  it('norms its rows, adds a low-rank extension and splits its sum', async () => {
    for (const tile of KINDS) {
      const spec: MatmulSpec = { name: 'test', K: 80, N: 52, direction: 'forward', format: 'f32', tile }
      for (const changes of [
        { norm: { width: 70, epsilon: 1e-6 } },
        { norm: 'gain' as const, rank: 32 },
        { norm: { width: 70, epsilon: 1e-6 }, rank: 16 },
        { direction: 'gradient' as const, rank: 16 },
        { rank: 16, tile: { ...tile, splits: 3 } },
      ]) {
        const { got, expected } = await compute({ spec: { ...spec, ...changes }, M: 21 })
        expect(worst(got, expected)).toBeLessThan(2e-5)
      }
    }
  })

  it('gives a row the same bits whatever the tile around it, as long as the order of the sum is the same', async () => {
    const order = { BK: 16, groups: 4, splits: 1 }
    const results: string[] = []
    for (const [shape, M] of [
      [{ BM: 16, BN: 16, TM: 4, TN: 4 }, 1],
      [{ BM: 16, BN: 32, TM: 2, TN: 4 }, 33],
      [{ BM: 32, BN: 32, TM: 4, TN: 4 }, 64],
      [{ BM: 32, BN: 32, TM: 8, TN: 8 }, 5],
    ] as const) {
      const spec: MatmulSpec = {
        name: 'test',
        K: 144,
        N: 64,
        direction: 'forward',
        format: 'f32',
        norm: { width: 144, epsilon: 1e-6 },
        rank: 16,
        tile: { ...shape, ...order },
      }
      const { got } = await compute({ spec, M })
      results.push([...got.subarray(0, 64)].join())
    }
    for (const other of results.slice(1)) expect(other).toBe(results[0])
  })
})

describe('packed weights', () => {
  it('come back within half a step of their format', () => {
    const values = numbers('packed', 6 * 96)
    for (const [format, tolerance] of [
      ['f32', 0],
      ['f16', 1e-3],
      ['int8', 0.012],
      ['int4', 0.5],
    ] as const) {
      const back = unpackWeights(packWeights(values, 96, 96, format))
      const error = values.reduce((most, value, i) => Math.max(most, Math.abs(value - back[i])), 0)
      expect(error).toBeLessThanOrEqual(tolerance)
      if (format !== 'f32') expect(error).toBeGreaterThan(0)
    }
  })
})
