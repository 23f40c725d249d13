// The body that Hosted Training's client sends for a config (POST /rft/runs), without its secrets: those are read where the
// run is submitted, and stand in no file of ours.

import { isTable, type Table } from '../../configs/path.ts'
import { readSource } from '../../configs/source.ts'

const SAME = [
  ...['name', 'loss', 'teacher', 'rollouts_per_example', 'max_steps', 'batch_size', 'learning_rate', 'lora_alpha'],
  ...[
    'max_inflight_rollouts',
    'oversampling_factor',
    'checkpoint_id',
    'val',
    'pre_batch_filters',
    'post_batch_filters',
  ],
  ...['checkpoints', 'adapters', 'tailscale', 'run_config'],
]

const SAMPLING = ['max_tokens', 'temperature', 'temp_scheduler', 'extra_body', 'enable_thinking', 'reasoning_effort']

/** `text` is a config compiled for Hosted Training. */
export function hostedPayload(text: string): Table {
  const config = readSource(text, 'toml').value
  const payload: Table = { model: { name: config.model }, environments: config.env }
  const take = (from: unknown, keys: readonly string[]) => {
    if (isTable(from)) for (const key of keys) if (from[key] !== undefined) payload[key] = from[key]
  }
  take(config, SAME)
  take(config.sampling, SAMPLING)
  take(config.infrastructure, ['compute_size'])
  if (isTable(config.eval) && config.eval.env !== undefined) {
    const { env, ...rest } = config.eval
    payload.eval = { environments: env, ...rest }
  }
  if (isTable(config.wandb)) payload.monitoring = { wandb: config.wandb }
  return payload
}
