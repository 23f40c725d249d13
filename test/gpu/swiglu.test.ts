import { expect, it } from 'vitest'
import {
  swiglu,
  swigluBackward,
  swigluBackwardReference,
  swigluReference,
  swigluWorkgroups,
} from '../../workers/gpu/kernels/swiglu.ts'
import { RandomStream } from '../../workers/random.ts'
import { runKernel, worst } from './runKernel.ts'

const random = new RandomStream(2)
const [M, F] = [7, 52]
const gates = Float32Array.from({ length: M * F }, (_, i) => (i < 4 ? [-200, 200, 0, -90][i] : 4 * random.normal()))
const ups = Float32Array.from({ length: M * F }, () => random.normal())
const gateUp = Float32Array.from({ length: 2 * M * F }, (_, i) => (i % 2 === 0 ? gates : ups)[i >> 1])

it('multiplies silu(gate) by up', async () => {
  const [h] = await runKernel(swiglu(), [gateUp, new Float32Array(M * F).fill(9)], swigluWorkgroups(M * F))
  const expected = Float64Array.from(gates, (gate, i) => swigluReference(gate, ups[i]))
  expect(worst(h, expected)).toBeLessThan(2e-6)
})

it('has the gradient of float64', async () => {
  const dh = Float32Array.from({ length: M * F }, () => random.normal())
  const data = [dh, gateUp, new Float32Array(2 * M * F).fill(9)]
  const [got] = await runKernel(swigluBackward(), data, swigluWorkgroups(M * F))
  const expected = [...dh].flatMap((d, i) => swigluBackwardReference(d, gates[i], ups[i]))
  expect(worst(got, expected)).toBeLessThan(2e-6)
  // The reference is the derivative of the forward reference.
  const [gate, up, step] = [0.7, -1.3, 1e-5]
  const slope = (swigluReference(gate + step, up) - swigluReference(gate - step, up)) / (2 * step)
  expect(swigluBackwardReference(1, gate, up)[0]).toBeCloseTo(slope, 8)
})
