import { describe, expect, it } from 'vitest'
import { alternatives, readAlternatives } from '../../workers/gpu/kernels/alternatives.ts'
import { LOGITS_NOT_FINITE, NOTHING_DRAWN, packRule } from '../../workers/gpu/kernels/draw.ts'
import { drawToken, likeliest } from '../../workers/policy/sampling.ts'
import { RandomStream } from '../../workers/random.ts'
import { runKernel } from './runKernel.ts'

/** Columns beyond the vocabulary hold large numbers that must not be read as logits. */
async function name(rows: Float32Array[], count: number, temperature: number, tokens: number[]) {
  const vocabulary = rows[0].length
  const stride = Math.ceil(vocabulary / 64) * 64
  const rule = { temperature, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1 }
  const logits = new Float32Array(rows.length * stride).fill(50)
  const drawn = new Uint32Array(4 * rows.length)
  const floats = new Float32Array(drawn.buffer)
  rows.forEach((row, r) => {
    logits.set(row, r * stride)
    drawn[4 * r] = tokens[r]
    if (tokens[r] >= LOGITS_NOT_FINITE) return
    const { logp } = drawToken(row, 0.5, rule)
    const drawnLogp = logp + (row[tokens[r]] - row[drawToken(row, 0.5, rule).token]) / (temperature || 1)
    floats[4 * r + 1] = drawnLogp
  })
  const buffers = [logits, packRule(rule, []), drawn, new Uint32Array(rows.length * count * 2).fill(7)]
  const [named] = await runKernel(alternatives({ vocabulary, stride, count }), buffers, [rows.length])
  const values = new Float32Array(named.buffer)
  return {
    lists: rows.map((_, r) => readAlternatives(named as Uint32Array, values, r * count * 2, count)),
    drawnLogp: rows.map((_, r) => floats[4 * r + 1]),
  }
}

describe('alternatives', () => {
  it.each([
    [259, 20, 1],
    [512, 1, 0.5],
    [1003, 7, 0],
    [4099, 20, 1.3],
  ])(
    'names the likeliest tokens as the reference does, V %i, %i of them, T %s',
    async (vocabulary, count, temperature) => {
      const random = new RandomStream(vocabulary)
      const rows = Array.from({ length: 5 }, () =>
        Float32Array.from({ length: vocabulary }, () => 3 * random.normal() - 2),
      )
      const tokens = rows.map((row, r) => (r === 0 ? likeliest(row, 1, 1)[0].token : random.integer(vocabulary)))
      const { lists, drawnLogp } = await name(rows, count, temperature, tokens)
      rows.forEach((row, r) => {
        const expected = likeliest(row, count, temperature)
        expect(lists[r].map(({ token }) => token)).toEqual(expected.map(({ token }) => token))
        lists[r].forEach(({ logp }, i) => {
          expect(Math.abs(logp - expected[i].logp)).toBeLessThan(3e-5)
        })
      })
      expect(lists[0][0].logp).toBe(drawnLogp[0])
    },
  )

  it('breaks ties towards the lower id, also where all are equal', async () => {
    const random = new RandomStream(3)
    const rows = [
      new Float32Array(1003),
      Float32Array.from({ length: 1003 }, () => random.integer(3)),
      Float32Array.from({ length: 1003 }, (_, id) => (id % 256 < 4 ? 2 : 1)),
      Float32Array.from({ length: 1003 }, (_, id) => id / 100),
      Float32Array.from({ length: 1003 }, (_, id) => (id % 2 ? 0 : -0)),
    ]
    const { lists } = await name(rows, 20, 1, [0, 1, 2, 3, 4])
    rows.forEach((row, r) => {
      expect(lists[r].map(({ token }) => token)).toEqual(likeliest(row, 20, 1).map(({ token }) => token))
    })
  })

  it('leaves a row alone that drew nothing', async () => {
    const rows = [new Float32Array(259), new Float32Array(259), new Float32Array(259)]
    const { lists } = await name(rows, 3, 1, [NOTHING_DRAWN, LOGITS_NOT_FINITE, 5])
    expect(lists.map((list) => list.map(({ token }) => token))).toEqual([
      [7, 7, 7],
      [7, 7, 7],
      [0, 1, 2],
    ])
  })
})
