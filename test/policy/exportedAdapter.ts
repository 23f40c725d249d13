// The adapter of the peft fixture, as the exporter writes it. Its base is the checkpoint fixtures/qwen3-tied.

import { adapterLayout, initialAdapter, type LoraOptions, peftFiles, unflatten } from '../../workers/policy/adapter.ts'
import type { Card } from '../../workers/policy/card.ts'
import { RandomStream } from '../../workers/random.ts'

export const FIXTURE_LORA: LoraOptions = {
  r: 4,
  alpha: 12,
  targetModules: ['q_proj', 'v_proj', 'o_proj', 'gate_proj', 'down_proj'],
}

/** A's initial values, and B's that are not zero, so that the adapter changes something. */
export function fixtureAdapter(card: Card): { flat: Float32Array; files: { name: string; bytes: Uint8Array }[] } {
  const layout = adapterLayout(card, FIXTURE_LORA)
  const random = new RandomStream(11)
  const flat = initialAdapter(layout, random)
  for (const slot of layout.slots) {
    if (!slot.name.endsWith('lora_B.weight')) continue
    const stream = random.fork(slot.name)
    for (let i = 0; i < slot.size; i++) flat[slot.offset + i] = 0.3 * stream.normal()
  }
  return { flat, files: peftFiles(unflatten(layout, flat), FIXTURE_LORA, 'qwen3-tied') }
}
