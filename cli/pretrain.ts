// `rollout-lab pretrain models/<name>/recipe.toml`: trains a bundled checkpoint from nothing.

import { Command } from 'commander'
import type { Backend } from '../workers/gpu/device.ts'
import type { Context } from './verb.ts'

export function command(_: Context): Command {
  return new Command()
    .argument('<recipe>', 'a recipe.toml; the model is written beside it')
    .option('--out <folder>', 'write the model here instead')
    .option('--seconds <number>', 'save and stop after this long; the same command goes on', Number)
    .option('--backend <name>', 'webgpu, wasm or cpu', 'auto')
    .action(async (recipe: string, options: { out?: string; seconds?: number; backend: Backend | 'auto' }) => {
      const { openNodeDevice } = await import('../workers/gpu/node.ts')
      const { pretrain } = await import('./pretraining.ts')
      await pretrain({
        recipe,
        out: options.out,
        seconds: options.seconds,
        openDevice: () => openNodeDevice(options.backend),
        write: (line) => process.stdout.write(`${line}\n`),
      })
    })
}
