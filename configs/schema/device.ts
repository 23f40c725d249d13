// Knobs of where a run takes place: this device, or elsewhere.

import { z } from 'zod'
import { knob } from '../knob.ts'

const group = 'This device' as const

export const browser = z
  .strictObject({
    backend: knob(z.enum(['auto', 'webgpu', 'webgl', 'wasm', 'cpu']).default('auto'), {
      label: 'Compute with',
      help: 'auto takes WebGPU where it works, then the fastest that does.',
      group,
    }),
    engine: knob(z.enum(['auto', 'plain', 'compiled']).default('auto'), {
      label: 'Engine',
      help: 'plain: ordinary tfjs operations, on every backend. compiled: WGSL plans, on WebGPU alone and for adapters alone, many times faster. auto: compiled on a GPU. Between the two, tokens may differ where two are nearly equally likely.',
      group,
    }),
    base_dtype: knob(z.enum(['auto', 'f32', 'f16', 'int8', 'int4']).default('auto'), {
      label: 'Frozen weights as',
      help: 'How the weights beside the adapters are held; smaller saves memory. auto: f32 for models of less than 50 million numbers, f16 above. The plain engine holds f32.',
      group,
    }),
    slots: knob(z.number().int().min(1).nullable().default(null), {
      label: 'Sequences at once',
      help: 'Rollouts that decode together. It changes speed and memory, never a token. Empty: chosen from memory.',
      group,
      unit: 'rollouts',
    }),
    recompute: knob(z.enum(['auto', 'none', 'elementwise', 'layer']).default('auto'), {
      label: 'Compute again',
      help: 'What the backward pass computes again instead of keeping it: nothing, what costs no matrix product, or whole layers. Each saves more memory than the one before and takes longer; none changes the update. auto: elementwise.',
      group,
    }),
    token_budget: knob(z.number().int().min(1).nullable().default(null), {
      label: 'Tokens at once',
      help: 'Tokens that one forward and backward pass holds; rows are packed up to it. It changes time and memory, never the update. Empty: what 1.5 GB of activations hold. The plain engine takes micro_batch_size rows instead.',
      group,
      unit: 'tokens',
    }),
    memory_gb: knob(z.number().min(0.1).nullable().default(null), {
      label: 'Memory to use',
      help: 'A run that would need more than this is refused before its weights are fetched, with the change that would make it fit. Browsers do not say how much memory a GPU has. Empty: only what cannot work at all is refused.',
      group,
      unit: 'GB',
    }),
    hub: knob(
      z
        .string()
        .regex(
          /^https?:\/\/[^\s/@]+(\/\S*)?$/,
          'expected an address such as https://huggingface.co, without a name or password in it',
        )
        .nullable()
        .default(null),
      {
        label: 'Hub',
        help: "Where models with an owner in their name come from: Hugging Face, or a mirror that has its paths. Tokens are never part of a config. Empty: https://huggingface.co; in Node, HF_ENDPOINT's.",
        group,
      },
    ),
    in_flight_updates: knob(z.boolean().default(false), {
      label: 'Change adapters in flight',
      help: 'With max_async_level above 0: answers go on with the new adapters as soon as an update is made, in mid-sentence, instead of ending with the old ones. Fresher, and not reproducible: the same seed gives other tokens each time.',
      group,
    }),
    rescored_groups: knob(z.number().int().min(0).default(2), {
      label: 'Groups scored again',
      help: 'Groups per step whose tokens are scored once more after the update, so that the token view shows what it changed.',
      group,
      unit: 'groups',
    }),
    environment_deadline_ms: knob(z.number().int().min(1).default(30000), {
      label: 'Environment deadline',
      help: 'How long an environment may take to answer. A rollout that waits longer is counted as errored, never as reward 0.',
      group,
      unit: 'ms',
    }),
  })
  .prefault({})

const kept = (label: string, help: string) =>
  knob(z.record(z.string(), z.unknown()).default({}), { label, help, group: 'Remote', used: 'remote' })

export const remote = z
  .strictObject({
    prime_rl: kept(
      'prime-rl',
      'Tables of prime-rl that have no counterpart here: deployment, slurm, inference and the like.',
    ),
    hosted: kept('Hosted Training', 'Fields of Hosted Training that have no counterpart here.'),
    vf_rl: kept('vf-rl', 'Fields of vf-rl and older trainers that have no counterpart here.'),
  })
  .prefault({})
