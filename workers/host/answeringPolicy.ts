// The policy that answers prompts: the engine that a run on this device would sample with.

import { engineOf, usualDtype } from '../../configs/memory.ts'
import type { Device } from '../gpu/device.ts'
import type { LoraOptions } from '../policy/adapter.ts'
import type { Card } from '../policy/card.ts'
import { createCompiledPolicy } from '../policy/compiled/index.ts'
import type { Model } from '../policy/load.ts'
import { createPlainPolicy } from '../policy/plain/index.ts'
import type { Policy } from '../policy/policy.ts'

const AS_A_RUN = { browser: { engine: 'auto' as const }, lora: { enabled: true } }
/** Bytes of keys and values, about, where every answer has so many tokens. */
const CACHE_BYTES = 2 ** 30
const CACHED_TOKENS = 2048
const FEWEST_SLOTS = 4
const MOST_SLOTS = 64
/** Of a prompt that is scored. */
const TOKENS_PER_PASS = 512

export async function createAnsweringPolicy(
  model: Model,
  device: Device,
  lora: LoraOptions,
  engine = engineOf(AS_A_RUN, device),
): Promise<Policy> {
  const common = { model, device, trainable: 'adapters' as const, lora, seed: 0 }
  if (engine === 'plain') return createPlainPolicy(common)
  return createCompiledPolicy({
    ...common,
    baseFormat: usualDtype(model.card),
    slots: slotsOf(model.card),
    tokensPerPass: TOKENS_PER_PASS,
    // A trial may choose other kernels the next time, and those may sample another token for the same seed.
    variants: 'plain',
  })
}

function slotsOf({ layers, kvHeads, headWidth, maxLength }: Card): number {
  const slot = layers * kvHeads * headWidth * 2 * 4 * Math.min(CACHED_TOKENS, maxLength)
  return Math.max(FEWEST_SLOTS, Math.min(MOST_SLOTS, Math.floor(CACHE_BYTES / slot)))
}
