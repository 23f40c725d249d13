// What every part of a compiled policy stands on: the device, its pipelines, the byte ledger, the profiler, the weights.

import { Pipelines } from '../../gpu/kernel.ts'
import { GpuMemory } from '../../gpu/memory.ts'
import { Profiler } from '../../gpu/profiler.ts'
import { offeredBy, Variants } from '../../gpu/variants.ts'
import { ropeFrequencies } from '../card.ts'
import type { FrozenWeights } from './frozen.ts'
import type { Shape } from './shape.ts'
import type { Staging } from './staging.ts'
import type { TileLimits } from './tiles.ts'

export interface Engine {
  device: GPUDevice
  pipelines: Pipelines
  memory: GpuMemory
  profiler: Profiler
  limits: TileLimits
  shape: Shape
  weights: FrozenWeights
  staging: Staging
  /** The adapters that products read now. */
  staged: GPUBuffer
  /** Which kernels run otherwise than plain. */
  variants: Variants
}

export function openEngine(device: GPUDevice, software: boolean) {
  return {
    device,
    pipelines: Pipelines.of(device),
    memory: new GpuMemory(device),
    profiler: new Profiler(device),
    variants: new Variants(offeredBy(device), {}),
    limits: {
      software,
      workgroupBytes: device.limits.maxComputeWorkgroupStorageSize,
      invocations: Math.min(256, device.limits.maxComputeInvocationsPerWorkgroup),
    },
  }
}

/** (cos, sin) of position × frequency, [positions, d/2], rounded as transformers rounds them. */
export function rotaryTurns({ shape: { card } }: Pick<Engine, 'shape'>, positions: number): Float32Array<ArrayBuffer> {
  const frequencies = ropeFrequencies(card)
  const half = frequencies.length
  const turns = new Float32Array(positions * half * 2)
  for (let position = 0; position < positions; position++) {
    for (let i = 0; i < half; i++) {
      const angle = Math.fround(position * Math.fround(frequencies[i]))
      turns[(position * half + i) * 2] = Math.cos(angle)
      turns[(position * half + i) * 2 + 1] = Math.sin(angle)
    }
  }
  return turns
}
