import { expect, it } from 'vitest'
import {
  SQUARE_SUM_PARTS,
  squareSum,
  squareSumReference,
  squareSumWorkgroups,
} from '../../workers/gpu/kernels/squareSum.ts'
import { RandomStream } from '../../workers/random.ts'
import { runKernel } from './runKernel.ts'

it.each([4, 1020, 300_000])('sums %i squares', async (P) => {
  const random = new RandomStream(P)
  const vector = Float32Array.from({ length: P }, () => 1e-3 * random.normal())
  const data = [vector, new Float32Array(SQUARE_SUM_PARTS)]
  const [parts] = await runKernel(squareSum(), data, squareSumWorkgroups(P))
  const sum = (parts as Float32Array).reduce((a, b) => a + b, 0)
  expect(Math.abs(sum / squareSumReference(vector) - 1)).toBeLessThan(1e-5)
})
