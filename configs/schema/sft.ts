// Knobs of supervised fine-tuning: which texts, and which messages of them count.

import { z } from 'zod'
import { knob } from '../knob.ts'

const group = 'Rollouts' as const
const used = 'not yet' as const

const counts = (role: string, value: boolean) =>
  knob(z.boolean().default(value), {
    label: `Learn from ${role} messages`,
    help: `Whether ${role} messages are targets.`,
    group,
    used,
  })

export const data = z
  .strictObject({
    name: knob(z.string().nullable().default(null), {
      label: 'Dataset',
      help: 'A dataset of conversations. Empty: the gold answers of the environments.',
      group,
      used,
    }),
    split: knob(z.string().default('train'), { label: 'Split', help: 'Which part of the dataset.', group, used }),
    shuffle: knob(z.boolean().default(true), {
      label: 'Shuffle',
      help: 'Draw rows in a seeded random order.',
      group,
      used,
    }),
    loss_mask: knob(
      z
        .strictObject({
          system: counts('system', false),
          user: counts('user', false),
          assistant: counts('assistant', true),
          tool: counts('tool', false),
        })
        .prefault({}),
      { label: 'Targets', help: 'Which messages are learned; only those of the assistant unless told.', group, used },
    ),
  })
  .prefault({})
