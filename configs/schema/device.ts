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
    base_dtype: knob(z.enum(['auto', 'f32', 'f16', 'int8', 'int4']).default('auto'), {
      label: 'Frozen weights as',
      help: 'How the weights beside the adapters are held; smaller saves memory. auto takes what the model comes in where it fits.',
      group,
      notYet: ['f16', 'int8', 'int4'],
    }),
    slots: knob(z.number().int().min(1).nullable().default(null), {
      label: 'Sequences at once',
      help: 'Rollouts that decode together. It changes speed and memory, never a token. Empty: chosen from memory.',
      group,
      unit: 'rollouts',
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
