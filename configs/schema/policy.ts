// Knobs of what learns: the model and its adapters.

import { z } from 'zod'
import { knob } from '../knob.ts'

export const LORA_TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const

const group = 'Policy' as const

export const model = knob(z.string().min(1).default('lab-tiny'), {
  label: 'Model',
  help: 'The policy that learns: a bundled model (lab-tiny, lab-nano), a Hugging Face id (Qwen/Qwen3-0.6B), a folder that was dropped on the page (dropped:name), or in Node any folder (file:/home/me/model). The documents train Qwen3 models of 0.6 to 30 billion parameters.',
  group,
})

export const seqLen = knob(z.number().int().min(8).default(2048), {
  label: 'Sequence length',
  help: 'Longest sequence, prompt and all turns included; a rollout that reaches it is cut off. Lower it when memory runs out.',
  group,
  unit: 'tokens',
})

export const lora = z
  .strictObject({
    enabled: knob(z.boolean().default(true), {
      label: 'Train adapters',
      help: 'Train small LoRA matrices beside frozen weights. Off: every weight is trained, at about a tenth of the learning rate.',
      group,
    }),
    r: knob(z.number().int().min(1).default(16), {
      label: 'Rank',
      help: 'Rank r of each adapter, y = Wx + (alpha / r)·B(Ax). 8 to 64 in the documents; small ranks are enough for RL.',
      group,
    }),
    alpha: knob(z.number().min(0).default(32), {
      label: 'Alpha',
      help: 'Scale of the adapters, applied as alpha / r. Twice the rank is a common choice.',
      group,
    }),
    dropout: knob(z.number().min(0).max(1).default(0), {
      label: 'Dropout',
      help: 'Share of adapter inputs dropped while training. RL leaves it at 0, so that sampling and training see the same policy.',
      group,
      used: 'not yet',
      instead: 'adapters are trained without dropout',
    }),
    use_rslora: knob(z.boolean().default(false), {
      label: 'Rank-stabilised scale',
      help: 'Scale adapters by alpha / √r instead of alpha / r.',
      group,
      used: 'not yet',
    }),
    target_modules: knob(
      z
        .array(z.string())
        .min(1)
        .default([...LORA_TARGETS]),
      {
        label: 'Target modules',
        help: 'Which matrices get an adapter. All seven learn fastest; the four attention ones are a lighter choice.',
        group,
      },
    ),
    modules_to_save: knob(z.array(z.string()).default([]), {
      label: 'Modules trained whole',
      help: 'Modules trained without an adapter and saved beside them, for example lm_head.',
      group,
      used: 'not yet',
    }),
  })
  .prefault({})
