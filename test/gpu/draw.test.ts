import { describe, expect, it, vi } from 'vitest'
import {
  type DrawRule,
  draw,
  LOGITS_NOT_FINITE,
  NOTHING_DRAWN,
  packRule,
  ranks,
  SLOT_WORDS,
  seenWords,
} from '../../workers/gpu/kernels/draw.ts'
import { drawToken } from '../../workers/policy/sampling.ts'
import { RandomStream, uniform } from '../../workers/random.ts'
import { runKernel } from './runKernel.ts'

// Kernels are compiled in software where there is no GPU.
vi.setConfig({ testTimeout: 180_000 })

const PLAIN: DrawRule = { temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1 }

interface Row {
  logits: ArrayLike<number>
  key0: number
  key1: number
  length: number
  limit?: number
  open?: boolean
  seen?: number[]
}

interface Outcome {
  token: number
  logp: number
  entropy: number
  open: number
  slot: Uint32Array
  seen: number[]
}

/** Slots lie in another order than rows; columns beyond the vocabulary hold large numbers that must not be read as logits. */
async function drawRows(vocabulary: number, rows: Row[], rule: DrawRule, stopTokens: number[] = []) {
  const stride = Math.ceil(vocabulary / 64) * 64
  const B = rows.length
  const words = seenWords(vocabulary)
  const slotOf = (row: number) => B - row
  const logits = new Float32Array(B * stride).fill(50)
  const pairs = new Uint32Array(2 * B)
  const slots = new Uint32Array((B + 1) * SLOT_WORDS).fill(77)
  const seen = new Uint32Array((B + 1) * words)
  rows.forEach((row, r) => {
    logits.set(row.logits, r * stride)
    pairs[2 * r] = slotOf(r)
    const { length, limit = 1000, open = true, key0, key1 } = row
    slots.set([7, length, limit, open ? 1 : 0, key0, key1, 0, 0], slotOf(r) * SLOT_WORDS)
    for (const id of row.seen ?? []) seen[slotOf(r) * words + (id >> 5)] |= 1 << (id & 31)
  })
  const buffers = [logits, pairs, packRule(rule, stopTokens), slots, seen, new Uint32Array(4 * B)]
  const [slotsAfter, seenAfter, drawn] = await runKernel(draw({ vocabulary, stride, ranks: ranks(rule) }), buffers, [B])
  const floats = new Float32Array(drawn.buffer)
  return rows.map((_, r): Outcome => {
    const bits = seenAfter.subarray(slotOf(r) * words, (slotOf(r) + 1) * words)
    return {
      token: drawn[4 * r],
      logp: floats[4 * r + 1],
      entropy: floats[4 * r + 2],
      open: drawn[4 * r + 3],
      slot: slotsAfter.slice(slotOf(r) * SLOT_WORDS, (slotOf(r) + 1) * SLOT_WORDS) as Uint32Array,
      seen: Array.from({ length: vocabulary }, (_, id) => id).filter((id) => (bits[id >> 5] >>> (id & 31)) & 1),
    }
  })
}

function randomRows(stream: RandomStream, vocabulary: number, count: number, spread: number): Row[] {
  return Array.from({ length: count }, (_, r) => ({
    logits: Float32Array.from({ length: vocabulary }, () => spread * stream.normal() - 3),
    key0: stream.integer(2 ** 32),
    key1: stream.integer(2 ** 32),
    length: 5 + r,
    seen: Array.from({ length: vocabulary >> 2 }, () => stream.integer(vocabulary)),
  }))
}

/** The reference's draw, or null within `margin` of a cell's border. */
function settled(row: Row, rule: DrawRule, margin = 1e-5) {
  const u = uniform(row, row.length)
  const draws = [u - margin, u, u + margin].map((at) => drawToken(row.logits, at, rule, row.seen))
  return draws.every(({ token }) => token === draws[1].token) ? draws[1] : null
}

function expectAsReference(rows: Row[], outcomes: Outcome[], rule: DrawRule): number {
  let compared = 0
  rows.forEach((row, r) => {
    const { token, logp, entropy } = outcomes[r]
    const expected = settled(row, rule)
    const ofToken = drawToken(row.logits, 0.5, rule, row.seen)
    expect(Math.abs(entropy - ofToken.entropy)).toBeLessThan(2e-5)
    if (!expected) return
    compared++
    expect(token).toBe(expected.token)
    expect(Math.abs(logp - expected.logp)).toBeLessThan(2e-5)
  })
  return compared
}

const RULES: Record<string, DrawRule> = {
  plain: PLAIN,
  cold: { ...PLAIN, temperature: 0.3 },
  hot: { ...PLAIN, temperature: 3 },
  greedy: { ...PLAIN, temperature: 0 },
  'top-k 1': { ...PLAIN, topK: 1 },
  'top-k 7': { ...PLAIN, topK: 7 },
  'top-k beyond the vocabulary': { ...PLAIN, topK: 100_000 },
  'top-p': { ...PLAIN, topP: 0.7 },
  'top-p near 0': { ...PLAIN, topP: 1e-4 },
  'top-p near 1': { ...PLAIN, topP: 0.999, temperature: 0.8 },
  'min-p': { ...PLAIN, minP: 0.05 },
  'min-p 1': { ...PLAIN, minP: 1 },
  penalty: { ...PLAIN, repetitionPenalty: 1.5 },
  'greedy penalty': { ...PLAIN, temperature: 0, repetitionPenalty: 1.5 },
  everything: { temperature: 1.3, topK: 40, topP: 0.8, minP: 0.02, repetitionPenalty: 1.2 },
}

describe('draw', () => {
  describe.each(Object.entries(RULES))('%s', (_, rule) => {
    it.each([
      [259, 2],
      [512, 4],
      [1003, 3],
    ])('draws as the reference does, V %i', async (vocabulary, spread) => {
      const rows = randomRows(new RandomStream(vocabulary), vocabulary, 12, spread)
      const outcomes = await drawRows(vocabulary, rows, rule)
      expect(expectAsReference(rows, outcomes, rule)).toBeGreaterThan(8)
    })
  })

  it('breaks ties towards the lower id, wherever a truncation cuts', async () => {
    const stream = new RandomStream(3)
    const vocabulary = 259
    const rows = randomRows(stream, vocabulary, 24, 1).map((row) => ({
      ...row,
      logits: Float32Array.from({ length: vocabulary }, () => [0, -0, 1, 2, -3][stream.integer(5)]),
    }))
    for (const rule of [
      { ...PLAIN, temperature: 0 },
      { ...PLAIN, topK: 3 },
      { ...PLAIN, topK: 80 },
      { ...PLAIN, topP: 0.123 },
      { ...PLAIN, topP: 0.777 },
      { ...PLAIN, topK: 100, topP: 0.9031 },
      { ...PLAIN, topK: 100, topP: 0.9031, minP: 0.3 },
      { ...PLAIN, topK: 140, topP: 0.4517, repetitionPenalty: 1.3, temperature: 0.9 },
    ]) {
      const outcomes = await drawRows(vocabulary, rows, rule)
      expect(expectAsReference(rows, outcomes, rule)).toBeGreaterThan(18)
    }
  })

  it('cuts among more equal tokens than it can rank, by their ids', async () => {
    const vocabulary = 1003
    const rows = randomRows(new RandomStream(12), vocabulary, 16, 1).map((row, r) => ({
      ...row,
      logits: Float32Array.from({ length: vocabulary }, (_, id) => ((id * 7 + r) % 5 === 0 ? 1.5 : -0.25)),
    }))
    for (const cut of [{ topK: 700 }, { topP: 0.8 }, { topK: 900, topP: 0.75 }, { topK: 150 }, { topP: 0.2 }]) {
      const rule = { ...PLAIN, ...cut }
      expect(expectAsReference(rows, await drawRows(vocabulary, rows, rule), rule)).toBeGreaterThan(12)
    }
  })

  it("draws over a vocabulary as large as a hub model's", async () => {
    const vocabulary = 49_152
    const rows = randomRows(new RandomStream(9), vocabulary, 2, 3)
    const cuts = [{ topK: 50, topP: 0.9 }, { topP: 0.95 }, { topK: 9000 }]
    for (const rule of [PLAIN, ...cuts.map((cut) => ({ ...PLAIN, ...cut }))]) {
      const outcomes = await drawRows(vocabulary, rows, rule)
      expect(expectAsReference(rows, outcomes, rule)).toBeGreaterThan(0)
    }
  })

  it('gives rare tokens their share', async () => {
    const vocabulary = 259
    // One token takes half; the others share the rest unevenly, about 2e-3 each.
    const logits = Float32Array.from({ length: vocabulary }, (_, id) => (id === 130 ? 6 : (id % 5) / 5))
    const total = logits.reduce((sum, logit) => sum + Math.exp(logit), 0)
    const count = 1500
    const key = { key0: 123, key1: 456 }
    const rows = Array.from({ length: count }, (_, length) => ({ logits, ...key, length, limit: 2 ** 31 }))
    const seen = new Float64Array(vocabulary)
    for (const { token } of await drawRows(vocabulary, rows, PLAIN)) seen[token]++
    // Neighbouring ids together, so that each cell expects twenty and more; the 99.9 % quantile of χ² with 32 degrees is 62.5.
    let chiSquared = 0
    for (let from = 0; from < vocabulary; from += 8) {
      const cell = Array.from({ length: Math.min(8, vocabulary - from) }, (_, i) => from + i)
      const expected = cell.reduce((sum, id) => sum + (count * Math.exp(logits[id])) / total, 0)
      chiSquared += (cell.reduce((sum, id) => sum + seen[id], 0) - expected) ** 2 / expected
    }
    expect(chiSquared).toBeLessThan(62.5)
    expect(chiSquared).toBeGreaterThan(10)
  })

  it('moves the slot on, and closes it at a stop token or at its limit', async () => {
    const vocabulary = 259
    const logits = Float32Array.from({ length: vocabulary }, (_, id) => (id === 258 ? 60 : 0))
    const row = { logits, key0: 1, key1: 2, length: 9, seen: [4] }
    const rows = [row, { ...row, limit: 10 }, { ...row, limit: 11 }, { ...row, open: false }]
    const [free, atLimit, below, closed] = await drawRows(vocabulary, rows, PLAIN, [17])
    expect([free.token, free.open, [...free.slot]]).toEqual([258, 1, [258, 10, 1000, 1, 1, 2, 0, 0]])
    expect(free.seen).toEqual([4, 258])
    expect([atLimit.token, atLimit.open, atLimit.slot[3]]).toEqual([258, 0, 0])
    expect([below.token, below.open, below.slot[3]]).toEqual([258, 1, 1])
    expect([closed.token, closed.logp, closed.entropy, closed.open]).toEqual([NOTHING_DRAWN, 0, 0, 0])
    expect([...closed.slot]).toEqual([7, 9, 1000, 0, 1, 2, 0, 0])
    expect(closed.seen).toEqual([4])
    const stops = Array.from({ length: 16 }, (_, i) => 243 + i)
    const [stopped] = await drawRows(vocabulary, [row], PLAIN, stops)
    expect([stopped.token, stopped.open, stopped.slot[1]]).toEqual([258, 0, 10])
    expect(() => packRule(PLAIN, [...stops, 1])).toThrow(/stops at one of at most 16/)
  })

  it('closes a slot whose logits are not finite', async () => {
    const vocabulary = 259
    const rows = randomRows(new RandomStream(4), vocabulary, 4, 1)
    ;[Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY].forEach((value, r) => {
      ;(rows[r].logits as Float32Array)[[258, 0, 131][r]] = value
    })
    for (const rule of [PLAIN, RULES.everything, RULES.greedy]) {
      const outcomes = await drawRows(vocabulary, rows, rule)
      expect(outcomes.map(({ token }) => token === LOGITS_NOT_FINITE)).toEqual([true, true, true, false])
      expect([...outcomes[0].slot]).toEqual([7, 5, 1000, 0, rows[0].key0, rows[0].key1, 0, 0])
    }
  })

  it('draws a row as it does alone, bit for bit', async () => {
    const vocabulary = 1003
    const rows = randomRows(new RandomStream(6), vocabulary, 5, 2)
    for (const rule of [PLAIN, RULES.everything]) {
      const together = await drawRows(vocabulary, rows, rule)
      for (let r = 0; r < rows.length; r++) {
        const [alone] = await drawRows(vocabulary, [rows[r]], rule)
        expect([alone.token, alone.logp, alone.entropy]).toEqual([
          together[r].token,
          together[r].logp,
          together[r].entropy,
        ])
      }
    }
  })
})
