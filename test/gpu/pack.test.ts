import { describe, expect, it } from 'vitest'
import { type PackSpec, pack, packPlace, packWeights, packWorkgroups } from '../../workers/gpu/kernels/pack.ts'
import { FORMATS, unpackWeights, type WeightFormat } from '../../workers/gpu/kernels/weightFormat.ts'
import { GpuMemory } from '../../workers/gpu/memory.ts'
import { Packer } from '../../workers/gpu/packer.ts'
import { readBuffer } from '../../workers/gpu/readback.ts'
import { floatToHalf, toFloat32 } from '../../workers/policy/weights.ts'
import { RandomStream } from '../../workers/random.ts'
import { runKernel, testDevice } from './runKernel.ts'

const SOURCES = ['F32', 'F16', 'BF16'] as const
type Source = (typeof SOURCES)[number]

/** What a checkpoint would store, and the numbers that this stands for. */
function stored(values: Float32Array, source: Source): { bytes: Uint8Array; values: Float32Array } {
  let bytes: Uint8Array
  if (source === 'F32') bytes = new Uint8Array(values.slice().buffer)
  else if (source === 'F16') bytes = new Uint8Array(Uint16Array.from(values, floatToHalf).buffer)
  else bytes = new Uint8Array(Uint16Array.from(new Uint32Array(values.slice().buffer), (bits) => bits >>> 16).buffer)
  return { bytes, values: toFloat32(bytes, source) }
}

/** Rows from very small to very large, with runs of zeros and numbers that lie halfway between two levels. */
function awkward(rows: number, columns: number): Float32Array {
  const random = new RandomStream(31)
  return Float32Array.from({ length: rows * columns }, (_, i) => {
    const row = Math.floor(i / columns)
    const kind = random.integer(12)
    const size = 2 ** ((row % 7) * 5 - 20)
    if (kind === 0) return 0
    if (kind === 1) return size * 127
    if (kind === 2) return size * (random.integer(256) - 127.5)
    return size * 40 * random.normal()
  })
}

async function packed(spec: PackSpec, bytes: Uint8Array, rows: number, place = { first: 0, step: 1, of: rows }) {
  const words = new Uint32Array(Math.ceil(bytes.length / 4))
  new Uint8Array(words.buffer).set(bytes)
  const { paddedColumns, format } = spec
  const size = { f32: 1, f16: 2, int8: 4, int4: 8 }[format]
  const buffers = [words, packPlace(rows, place.first, place.step), new Uint32Array((place.of * paddedColumns) / size)]
  if (format === 'int8' || format === 'int4') buffers.push(new Uint32Array((place.of * paddedColumns) / 32))
  const [gotWords, gotScales] = await runKernel(pack(spec), buffers, packWorkgroups(spec, rows))
  return { words: gotWords as Uint32Array, scales: gotScales as Uint32Array | undefined }
}

function bitsOf(values: Float32Array): Uint32Array {
  return new Uint32Array(values.buffer, values.byteOffset, values.length)
}

describe('pack', () => {
  describe.each(SOURCES)('from %s', (source) => {
    it.each(FORMATS)('packs %s as the reference does, bit for bit', async (format) => {
      for (const [rows, columns, paddedColumns] of [
        [9, 96, 96],
        [5, 75, 96],
        [70, 32, 64],
      ]) {
        const { bytes, values } = stored(awkward(rows, columns), source)
        const expected = packWeights(values, columns, paddedColumns, format)
        const got = await packed({ source, format, columns, paddedColumns }, bytes, rows)
        expect([...got.words]).toEqual([...expected.words])
        if (got.scales) expect([...got.scales]).toEqual([...bitsOf(expected.scales)])
      }
    })

    it('takes every number that there is in sixteen bits', async () => {
      if (source === 'F32') return
      // No infinities: the reference and the kernel call them no numbers, with bits of their own.
      const exponent = source === 'F16' ? 0x7c00 : 0x7f80
      const words = Uint16Array.from({ length: 65536 }, (_, i) => ((i & exponent) === exponent ? 0 : i))
      const bytes = new Uint8Array(words.buffer)
      const values = toFloat32(bytes, source)
      for (const format of ['f16', 'f32', 'int8', 'int4'] as const) {
        const expected = packWeights(values, 64, 64, format)
        const got = await packed({ source, format, columns: 64, paddedColumns: 64 }, bytes, 1024)
        expect(got.words.findIndex((word, i) => word !== expected.words[i])).toBe(-1)
        const scales = bitsOf(expected.scales)
        expect((got.scales ?? scales).findIndex((bits, i) => bits !== scales[i])).toBe(-1)
      }
    })
  })

  it('puts rows where they belong and leaves the others alone', async () => {
    const { bytes, values } = stored(awkward(3, 64), 'BF16')
    const expected = packWeights(values, 64, 64, 'int8')
    const spec = { source: 'BF16' as const, format: 'int8' as const, columns: 64, paddedColumns: 64 }
    const { words } = await packed(spec, bytes, 3, { first: 1, step: 2, of: 7 })
    for (let row = 0; row < 7; row++) {
      const from = (row - 1) / 2
      const whole = row % 2 === 1 && from < 3
      const wanted = whole ? [...expected.words.subarray(16 * from, 16 * (from + 1))] : Array(16).fill(0)
      expect([...words.subarray(16 * row, 16 * (row + 1))]).toEqual(wanted)
    }
  })

  it('gives a block that holds no number no scale', async () => {
    for (const format of ['int8', 'int4'] as const) {
      for (const odd of [Number.NaN, Number.POSITIVE_INFINITY]) {
        const values = awkward(1, 64)
        values[40] = odd
        const { scales } = await packed(
          { source: 'F32', format, columns: 64, paddedColumns: 64 },
          new Uint8Array(values.buffer),
          1,
        )
        const got = new Float32Array(scales!.slice().buffer)
        expect([Number.isFinite(got[0]), got[1]]).toEqual([true, Number.NaN])
      }
    }
  })
})

describe('packed weights', () => {
  it.each([
    ['int8', 0.0054],
    ['int4', 0.082],
  ] as [WeightFormat, number][])('in %s stay near normal ones', (format, relative) => {
    const random = new RandomStream(8)
    const values = Float32Array.from({ length: 64 * 320 }, () => random.normal())
    const back = unpackWeights(packWeights(values, 320, 320, format))
    const squares = (list: ArrayLike<number>) => Array.from(list).reduce((sum, value) => sum + value * value, 0)
    const error = Math.sqrt(squares(values.map((value, i) => value - back[i])) / squares(values))
    expect(error).toBeLessThan(relative)
    expect(error).toBeGreaterThan(relative / 2)
  })
})

describe('Packer', () => {
  it('packs a matrix slice by slice, and gives its buffers back', async () => {
    const memory = new GpuMemory(await testDevice())
    const { bytes, values } = stored(awkward(37, 75), 'F16')
    const words = memory.storage('weights', (37 * 96) / 2)
    const scales = memory.storage('weights', (37 * 96) / 8)
    const packer = new Packer(memory)
    for (let from = 0; from < 37; from += 4) {
      const to = Math.min(37, from + 4)
      const part = bytes.subarray(from * 150, to * 150)
      await packer.write({ format: 'int4', columns: 96, words, scales }, 'F16', part, 75, { first: from })
    }
    await packer.finish()
    const expected = packWeights(values, 75, 96, 'int4')
    const got = new Uint32Array(await readBuffer(memory.device, words, (37 * 96) / 2))
    expect([...got]).toEqual([...expected.words])
    expect(memory.buffers).toBe(2)
    memory.freeAll()
  })
})
