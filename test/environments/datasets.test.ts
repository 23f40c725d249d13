import { describe, expect, test } from 'vitest'
import { generated, generatedRows, heldOut, holdOut, onSideOf, placeAt, rowsOf } from '../../environments/datasets.ts'
import { Mixture } from '../../environments/mixture.ts'

const range = (n: number) => Array.from({ length: n }, (_, i) => i)

describe('the order of a dataset', () => {
  test('shows each row once an epoch, in a new order each time', () => {
    const order = range(30).map((position) => placeAt(10, 7, 'train', position))
    expect(order.map(({ epoch }) => epoch)).toEqual(range(30).map((position) => Math.floor(position / 10)))
    const epochs = [0, 10, 20].map((start) => order.slice(start, start + 10).map(({ index }) => index))
    for (const epoch of epochs) expect([...epoch].sort((a, b) => a - b)).toEqual(range(10))
    expect(new Set(epochs.map((epoch) => epoch.join())).size).toBe(3)
  })

  test('is a function of seed and position alone, whatever was asked before', () => {
    const forwards = range(40).map((position) => placeAt(10, 7, 'train', position).index)
    const backwards = range(40)
      .reverse()
      .map((position) => placeAt(10, 7, 'train', position).index)
    expect(backwards.reverse()).toEqual(forwards)
    expect(range(40).map((position) => placeAt(10, 8, 'train', position).index)).not.toEqual(forwards)
  })

  test('leaves evaluation in its own order, the same for every seed', () => {
    expect(range(12).map((position) => placeAt(10, 1, 'eval', position).index)).toEqual([...range(10), 0, 1])
  })

  test('walks a generator that never ends position by position', () => {
    expect(placeAt(null, 7, 'train', 1_000_000)).toEqual({ index: 1_000_000, epoch: 0 })
  })
})

describe('rows', () => {
  test('of a generator are named by seed and index', () => {
    const dataset = generated('numbers', (random) => ({ question: String(random.integer(1e9)) }))
    const draw = (seed: number) => range(5).map((index) => dataset.row(index, seed).question)
    expect(draw(1)).toEqual(draw(1))
    expect(draw(1)).not.toEqual(draw(2))
    expect(new Set(draw(1)).size).toBe(5)
  })

  test('of a generated set are all different, and the same for every run', () => {
    const make = (seed: number) =>
      generatedRows('letters', { size: 26, seed }, (random) => ({
        question: 'abcdefghijklmnopqrstuvwxyz'[random.integer(26)],
      }))
    const rows = range(26).map((index) => make(1).row(index, 5).question)
    expect(new Set(rows).size).toBe(26)
    expect(range(26).map((index) => make(1).row(index, 99).question)).toEqual(rows)
    expect(range(26).map((index) => make(2).row(index, 5).question)).not.toEqual(rows)
  })

  test('that a generator cannot give are refused with a sentence', () => {
    const coins = generatedRows('coins', { size: 3, seed: 0 }, (random) => ({
      question: random.choice(['heads', 'tails']),
    }))
    expect(() => coins.row(0, 0)).toThrow('coins: 3 different rows were asked for, but 3000 draws gave only 2')
    expect(() => rowsOf([])).toThrow('at least one row')
  })

  test('held out by their key make up about an eighth, whatever else is true of them', () => {
    const share = range(16_000).filter((i) => heldOut(`key ${i}`)).length / 16_000
    // standard deviation √(1/8 · 7/8 / 16,000) = 0.0026; four of them
    expect(Math.abs(share - 1 / 8)).toBeLessThan(0.0105)
    let i = 0
    expect(heldOut(onSideOf('eval', () => `key ${i++}`))).toBe(true)
    expect(heldOut(onSideOf('train', () => `key ${i++}`))).toBe(false)
  })

  test('can be parted into training and evaluation, with duplicates dropped first', () => {
    const rows = [...range(20), ...range(20)].map((i) => ({ question: `q${i}`, answer: `a${i}` }))
    const { train, evaluation } = holdOut(rows, { evalSize: 5, seed: 3 })
    const questions = (dataset: typeof train) => range(dataset.size!).map((index) => dataset.row(index, 0).question)
    expect([train.size, evaluation.size]).toEqual([15, 5])
    expect(new Set([...questions(train), ...questions(evaluation)]).size).toBe(20)
    expect(questions(holdOut(rows, { evalSize: 5, seed: 3 }).evaluation)).toEqual(questions(evaluation))
    expect(() => holdOut(rows, { evalSize: 20 })).toThrow('evalSize must lie in 1 … 19')
  })
})

describe('a mixture', () => {
  test('keeps every prefix within one item of the shares', () => {
    const ratios = [3, 1, 0.5]
    const mixture = new Mixture(ratios)
    const given = [0, 0, 0]
    for (const position of range(900)) {
      const slot = mixture.at(position)
      expect(slot.position).toBe(given[slot.source]++)
      // 3 : 1 : 0.5 of n items is n · 6/9, n · 2/9, n · 1/9
      given.forEach((count, source) => {
        expect(Math.abs(count - (ratios[source] / 4.5) * (position + 1))).toBeLessThan(1)
      })
    }
    expect(given).toEqual([600, 200, 100])
  })

  test('gives the same slot whether or not earlier ones were asked for', () => {
    const walked = new Mixture([2, 1])
    for (const position of range(100)) walked.at(position)
    expect(new Mixture([2, 1]).at(77)).toEqual(walked.at(77))
  })

  test('with ratios equal to sizes holds each row once within the sum of sizes', () => {
    const sizes = [7, 1, 19, 3]
    const mixture = new Mixture(sizes)
    const given = [0, 0, 0, 0]
    for (const position of range(30)) given[mixture.at(position).source]++
    expect(given).toEqual(sizes)
  })

  test('refuses ratios that are not above 0', () => {
    expect(() => new Mixture([1, 0])).toThrow('ratios above 0, got 0')
    expect(() => new Mixture([])).toThrow('got none')
  })
})
