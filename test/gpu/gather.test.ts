import { expect, it } from 'vitest'
import {
  gatherReference,
  gatherRows,
  gatherWorkgroups,
  placesOf,
  scatterReference,
  scatterRows,
} from '../../workers/gpu/kernels/gather.ts'
import { RandomStream } from '../../workers/random.ts'
import { runKernel } from './runKernel.ts'

const random = new RandomStream(4)
const [M, width] = [13, 36]
const index = Uint32Array.from([12, 0, 7, 3, 5])

it('picks rows out', async () => {
  const source = Float32Array.from({ length: M * width }, () => random.normal())
  const data = [source, index, new Float32Array(index.length * width).fill(9)]
  const [got] = await runKernel(gatherRows(width), data, gatherWorkgroups(width, index.length))
  expect([...got]).toEqual([...gatherReference(source, index, width)])
})

it('puts their gradients back, and zeros elsewhere', async () => {
  const unit = Float32Array.from({ length: index.length * width }, () => random.normal())
  const slope = Float32Array.from(index, () => random.normal())
  const data = [unit, slope, placesOf(index, M), new Float32Array(M * width).fill(9)]
  const [got] = await runKernel(scatterRows(width), data, gatherWorkgroups(width, M))
  expect([...got]).toEqual([...scatterReference(unit, slope, index, M, width)])
})
