import { describe, expect, it } from 'vitest'
import { type AdamwStep, adamw, adamwReference, adamwWorkgroups, packStep } from '../../workers/gpu/kernels/adamw.ts'
import {
  SQUARE_SUM_PARTS,
  squareSum,
  squareSumReference,
  squareSumWorkgroups,
} from '../../workers/gpu/kernels/squareSum.ts'
import { RandomStream } from '../../workers/random.ts'
import { runKernel, worst } from './runKernel.ts'

const P = 2052
const STEP: AdamwStep = {
  type: 'adamw',
  learningRate: 0.05,
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0.1,
  maxGradientNorm: null,
}

function vectors() {
  const random = new RandomStream(6)
  const vector = (scale: number) => Float32Array.from({ length: P }, () => scale * random.normal())
  return { gradient: vector(0.3), flat: vector(1), first: vector(0.1), second: vector(0.2).map((v) => v * v) }
}

async function apply({ gradient, flat, first, second }: ReturnType<typeof vectors>, step: AdamwStep, steps: number) {
  const [parts] = await runKernel(squareSum(), [gradient, new Float32Array(SQUARE_SUM_PARTS)], squareSumWorkgroups(P))
  const data = [packStep(step, steps), parts, gradient, flat, first, second, new Float32Array(4).fill(9)]
  const [left, flatAfter, firstAfter, secondAfter, report] = await runKernel(adamw(), data, adamwWorkgroups(P))
  return { gradient: left, flat: flatAfter, first: firstAfter, second: secondAfter, report }
}

describe('adamw', () => {
  it.each<[string, Partial<AdamwStep>, number]>([
    ['the first step', {}, 1],
    ['a later step', {}, 40],
    ['without decay', { weightDecay: 0 }, 3],
    ['clipped', { maxGradientNorm: 0.5 }, 2],
    ['with a limit above the norm', { maxGradientNorm: 1e3 }, 2],
    ['with a limit of infinity', { maxGradientNorm: Number.POSITIVE_INFINITY }, 2],
    ['sgd', { type: 'sgd' }, 5],
    ['sgd, clipped', { type: 'sgd', maxGradientNorm: 0.5 }, 5],
  ])('agrees with float64: %s', async (_, change, steps) => {
    const step = { ...STEP, ...change }
    const before = vectors()
    const after = await apply(before, step, steps)
    const norm = Math.sqrt(squareSumReference(before.gradient))
    const expected = adamwReference(before, before.gradient, norm, step, steps)
    expect(Math.abs(after.report[0] / norm - 1)).toBeLessThan(1e-5)
    expect(worst(after.flat, expected.flat)).toBeLessThan(2e-6)
    expect(worst(after.first, expected.first)).toBeLessThan(2e-6)
    expect(worst(after.second, expected.second)).toBeLessThan(2e-6)
    expect(after.gradient.every((v) => v === 0)).toBe(true)
    expect(worst(expected.flat, before.flat)).toBeGreaterThan(1e-4)
  })

  it.each([Number.NaN, Number.POSITIVE_INFINITY, 1e30])('touches nothing when the gradient holds %s', async (value) => {
    const before = vectors()
    before.gradient[1234] = value
    const { report, ...after } = await apply(before, STEP, 2)
    expect(Number.isFinite(report[0])).toBe(false)
    for (const name of ['gradient', 'flat', 'first', 'second'] as const) {
      expect(new Uint32Array(after[name].buffer)).toEqual(new Uint32Array(before[name].buffer))
    }
  })

  it('leaves zeros where nothing flows', async () => {
    const none = () => new Float32Array(P)
    const { flat, report } = await apply(
      { gradient: none(), flat: none(), first: none(), second: none() },
      { ...STEP, maxGradientNorm: 1 },
      1,
    )
    expect(flat.every((v) => v === 0)).toBe(true)
    expect([...report]).toEqual([0, 1, 0, 0])
  })
})
