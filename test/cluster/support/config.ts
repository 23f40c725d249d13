// A small run as a full-size trainer is given it.

import { load } from '../../../configs/load.ts'
import type { RunConfig } from '../../../configs/schema.ts'

export function fullSizeConfig(changes: Record<string, unknown> = {}): RunConfig {
  const loaded = load({
    ...{ name: 'reverse text', model: 'Qwen/Qwen3-0.6B', max_steps: 6, batch_size: 8, rollouts_per_example: 4 },
    env: [{ id: 'reverse-text' }],
    checkpointing: { save_every_n_steps: 2 },
    ...changes,
  })
  if (loaded.problems) throw new Error(loaded.problems.map(({ sentence }) => sentence).join(' '))
  return loaded.config
}
