// Every implementation of the policy contract. A test that runs over `POLICIES` holds for each; a new one is a line here.

import type { Device } from '../../workers/gpu/device.ts'
import type { LoraOptions } from '../../workers/policy/adapter.ts'
import { createCompiledPolicy } from '../../workers/policy/compiled/index.ts'
import type { Model } from '../../workers/policy/load.ts'
import { createPlainPolicy } from '../../workers/policy/plain/index.ts'
import type { Policy } from '../../workers/policy/policy.ts'
import { testDevice } from '../gpu/runKernel.ts'
import { LORA } from './policies.ts'

export interface MakePolicy {
  model: Model
  device: Device
  trainable?: 'adapters' | 'all'
  lora?: LoraOptions
  slots?: number
}

export interface Implementation {
  name: string
  /** What it can train. */
  trains: ('adapters' | 'all')[]
  /** Enough to see memory grow; a processor that plays a GPU takes a second for each. */
  updates: number
  create: (options: MakePolicy) => Promise<Policy>
}

export const POLICIES: Implementation[] = [
  {
    name: 'plain',
    trains: ['adapters', 'all'],
    updates: 50,
    create: (options) => createPlainPolicy({ trainable: 'adapters', lora: LORA, seed: 5, ...options }),
  },
  {
    name: 'compiled',
    trains: ['adapters'],
    updates: 8,
    create: async (options) =>
      createCompiledPolicy({
        lora: LORA,
        seed: 5,
        tokensPerPass: 512,
        ...options,
        device: { gpu: await testDevice(), software: true },
      }),
  },
]
