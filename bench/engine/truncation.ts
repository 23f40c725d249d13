// What top-k, top-p and min-p add to drawing 64 tokens from a vocabulary of 151,936: the kernel alone, on logits that are
// nearly flat, as random weights make them, and on steep ones, as a trained model does.

import type { Device } from '../../workers/gpu/device.ts'
import { Pipelines } from '../../workers/gpu/kernel.ts'
import { draw, packRule, ranks, SLOT_WORDS, seenWords } from '../../workers/gpu/kernels/draw.ts'
import { GpuMemory } from '../../workers/gpu/memory.ts'
import { Plan, submit } from '../../workers/gpu/plan.ts'
import { RandomStream } from '../../workers/random.ts'
import type { Measured } from './measure.ts'

const FULL = { ROWS: 64, VOCABULARY: 151_936, REPEATED: 40 }
/** Enough to see that it runs. */
const SMALL = { ROWS: 2, VOCABULARY: 8192, REPEATED: 2 }
const OFF = { temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1 }
const RULES = {
  'no truncation': OFF,
  'top-k 50': { ...OFF, topK: 50 },
  'top-k 5000': { ...OFF, topK: 5000 },
  'top-p 0.9': { ...OFF, topP: 0.9 },
  'min-p 0.05': { ...OFF, minP: 0.05 },
  'top-k 50, top-p 0.9, min-p 0.05': { ...OFF, topK: 50, topP: 0.9, minP: 0.05 },
}

export async function measureTruncation({ gpu, software }: Device, tell: (line: Measured) => void): Promise<void> {
  const device = gpu!
  const { ROWS, VOCABULARY, REPEATED } = software ? SMALL : FULL
  const memory = new GpuMemory(device)
  const logits = memory.storage('activations', ROWS * VOCABULARY * 4)
  const rows = memory.storage('tables', ROWS * 8)
  const rule = memory.uniform('tables', 128)
  const slots = memory.storage('tables', ROWS * SLOT_WORDS * 4)
  const seen = memory.storage('tables', ROWS * seenWords(VOCABULARY) * 4)
  const drawn = memory.storage('tables', ROWS * 16)
  device.queue.writeBuffer(
    rows,
    0,
    Uint32Array.from({ length: 2 * ROWS }, (_, i) => (i % 2 === 0 ? i / 2 : 0)),
  )
  const slotWords = new Uint32Array(ROWS * SLOT_WORDS)
  for (let row = 0; row < ROWS; row++) slotWords.set([0, 8, 2 ** 31, 1, row, 7], row * SLOT_WORDS)
  const random = new RandomStream(4)
  for (const spread of [0.6, 4]) {
    const row = new Float32Array(VOCABULARY)
    for (let at = 0; at < ROWS; at++) {
      for (let i = 0; i < row.length; i++) row[i] = spread * random.normal()
      device.queue.writeBuffer(logits, at * VOCABULARY * 4, row)
    }
    for (const [name, options] of Object.entries(RULES)) {
      device.queue.writeBuffer(rule, 0, packRule(options, []))
      device.queue.writeBuffer(slots, 0, slotWords)
      const kernel = draw({ vocabulary: VOCABULARY, stride: VOCABULARY, ranks: ranks(options) })
      const plan = new Plan(Pipelines.of(device), [
        { kernel, buffers: [logits, rows, rule, slots, seen, drawn], workgroups: [ROWS] },
      ])
      const times: number[] = []
      for (let repetition = 0; repetition < 7; repetition++) {
        const began = performance.now()
        submit(device, Array(REPEATED).fill(plan))
        await device.queue.onSubmittedWorkDone()
        times.push((performance.now() - began) / REPEATED)
      }
      const milliseconds = times.toSorted((a, b) => a - b)[3]
      tell({
        policy: 'compiled',
        model: `V=${VOCABULARY}`,
        format: `logits of deviation ${spread}`,
        what: `draw B=${ROWS}, ${name}`,
        tokensPerSecond: ROWS / (milliseconds / 1000),
        milliseconds,
        gpuBytes: memory.bytes,
      })
    }
  }
  memory.freeAll()
}
