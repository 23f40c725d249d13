import { describe, expect, it } from 'vitest'
import {
  headChunk,
  headChunkWorkgroups,
  headFinish,
  headFinishWorkgroups,
  headReference,
  headScore,
  headScoreWorkgroups,
  STATE_NUMBERS,
} from '../../workers/gpu/kernels/headChunk.ts'
import { packWeights } from '../../workers/gpu/kernels/pack.ts'
import { FORMATS, unpackWeights, type WeightFormat } from '../../workers/gpu/kernels/weightFormat.ts'
import { offeredBy } from '../../workers/gpu/variants.ts'
import { RandomStream } from '../../workers/random.ts'
import { runKernel, testDevice, worst } from './runKernel.ts'

const WIDTH = 32
const offered = offeredBy(await testDevice())

interface Problem {
  vocabulary: number
  columns: number
  /** [Nt, V] */
  logits: Float32Array
  targets: Uint32Array
  temperatures: number[]
  format: WeightFormat
  lanes?: number
}

function problem(vocabulary: number, columns: number, Nt: number, format: WeightFormat = 'f32'): Problem {
  const random = new RandomStream(vocabulary + columns)
  // Every row's largest logit lies elsewhere, so that maxima rise in some chunks and stay in others.
  const logits = Float32Array.from({ length: Nt * vocabulary }, () => 5 * random.normal() - 20)
  for (let row = 0; row < Nt; row++) logits[row * vocabulary + random.integer(vocabulary)] += 12
  const targets = Uint32Array.from({ length: Nt }, () => random.integer(vocabulary))
  targets[0] = 0
  targets[Nt - 1] = vocabulary - 1
  const temperatures = Array.from({ length: Nt }, (_, row) => [1, 0.6, 1.7][row % 3])
  return { vocabulary, columns, logits, targets, temperatures, format }
}

/** The products in float64: only the kernels under test run on the device. */
async function solve({ vocabulary, columns, logits, targets, temperatures, format, lanes }: Problem) {
  const Nt = targets.length
  const random = new RandomStream(8)
  const packed = packWeights(
    Float32Array.from({ length: vocabulary * WIDTH }, () => random.normal()),
    WIDTH,
    WIDTH,
    format,
  )
  const head = unpackWeights(packed)
  const inverses = Float32Array.from(temperatures, (T) => 1 / T)
  let states = new Float32Array(Nt * STATE_NUMBERS).fill(3)
  const acc = new Float64Array(Nt * WIDTH).fill(5)
  const kernel = headChunk({ vocabulary, columns, lanes })
  for (let first = 0; first < vocabulary; first += columns) {
    const chunk = new Float32Array(Nt * columns).fill(1000)
    const count = Math.min(columns, vocabulary - first)
    for (let row = 0; row < Nt; row++) {
      chunk.set(logits.subarray(row * vocabulary + first, row * vocabulary + first + count), row * columns)
    }
    const data = [chunk, targets, inverses, Uint32Array.of(first, 0, 0, 0), states, new Float32Array(Nt)]
    const [weights, after, rescale] = (await runKernel(kernel, data, headChunkWorkgroups(Nt))) as Float32Array[]
    states = after as Float32Array<ArrayBuffer>
    for (let row = 0; row < Nt; row++) {
      const p = weights.subarray(row * columns, (row + 1) * columns)
      expect(p.subarray(count).every((v) => v === 0)).toBe(true)
      for (let j = 0; j < WIDTH; j++) {
        let sum = acc[row * WIDTH + j] * rescale[row]
        for (let c = 0; c < count; c++) sum += p[c] * head[(first + c) * WIDTH + j]
        acc[row * WIDTH + j] = sum
      }
    }
  }
  const [scores] = await runKernel(headScore(), [states, new Float32Array(2 * Nt)], headScoreWorkgroups(Nt))
  const spec = { vocabulary, width: WIDTH, format }
  const table = packed.scales.length ? [packed.words, packed.scales] : [packed.words]
  const data = [...table, targets, inverses, states, Float32Array.from(acc)]
  const [unit] = await runKernel(headFinish(spec), data, headFinishWorkgroups(spec, Nt))
  return { scores: scores as Float32Array, unit: unit as Float32Array, head }
}

async function expectAsReference(given: Problem) {
  const { vocabulary, logits, targets, temperatures } = given
  const { scores, unit, head } = await solve(given)
  targets.forEach((target, row) => {
    const own = logits.subarray(row * vocabulary, (row + 1) * vocabulary)
    const expected = headReference(own, target, temperatures[row], head, WIDTH)
    expect(Math.abs(scores[2 * row] - expected.logp)).toBeLessThan(2e-5)
    expect(Math.abs(scores[2 * row + 1] - expected.entropy)).toBeLessThan(2e-5)
    expect(worst(unit.subarray(row * WIDTH, (row + 1) * WIDTH), expected.unit)).toBeLessThan(2e-5)
  })
}

describe('the head in chunks', () => {
  it.each([
    [259, 320, 5],
    [259, 64, 7],
    [259, 100, 1],
    [5003, 2560, 3],
  ])('agrees with the whole softmax, V %i in chunks of %i, %i rows', async (vocabulary, columns, Nt) => {
    await expectAsReference(problem(vocabulary, columns, Nt))
  })

  it.skipIf(offered.lanes === 0).each([
    [259, 100, 5],
    [5003, 2560, 3],
  ])('does so by subgroup shuffles, V %i in chunks of %i, %i rows', async (vocabulary, columns, Nt) => {
    await expectAsReference({ ...problem(vocabulary, columns, Nt), lanes: offered.lanes })
  })

  it.each(FORMATS)('reads a head in %s', async (format) => {
    await expectAsReference(problem(70, 32, 4, format))
  })

  it.each([0, offered.lanes])('scores a row as it does alone, bit for bit, %i lanes', async (lanes) => {
    const given = { ...problem(259, 100, 5), lanes }
    const together = await solve(given)
    for (const row of [0, 3]) {
      const alone = await solve({
        ...given,
        logits: given.logits.slice(row * 259, (row + 1) * 259),
        targets: given.targets.slice(row, row + 1),
        temperatures: [given.temperatures[row]],
      })
      expect([...alone.scores]).toEqual([...together.scores.subarray(2 * row, 2 * row + 2)])
    }
  })

  it.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])(
    'does not hide a logit of %s',
    async (value) => {
      const given = problem(259, 100, 3)
      given.logits[259 + 30] = value
      const { scores, unit } = await solve(given)
      expect([...scores].map(Number.isFinite)).toEqual([true, true, false, false, true, true])
      expect(unit.subarray(WIDTH, 2 * WIDTH).every((v) => !Number.isFinite(v))).toBe(true)
    },
  )
})
