import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { RandomStream } from '../../environments/random.ts'
import { matchingSize, nearest, ratio } from '../../environments/similarity.ts'

// Written by fixtures/sequence_matcher.py: [a, b, M, ratio].
const rows: [string, string, number, number][] = JSON.parse(
  readFileSync(new URL('fixtures/sequence_matcher.json', import.meta.url), 'utf8'),
)

describe('SequenceMatcher', () => {
  test('the fixture holds at least 2,000 pairs, long ones and unequal argument orders among them', () => {
    expect(rows.length).toBeGreaterThanOrEqual(2000)
    expect(rows.filter(([, b]) => Array.from(b).length >= 200).length).toBeGreaterThan(100)
    const ratios = new Map(rows.map(([a, b, , value]) => [JSON.stringify([a, b]), value]))
    const unequal = rows.filter(([a, b, , value]) => (ratios.get(JSON.stringify([b, a])) ?? value) !== value)
    expect(unequal.length).toBeGreaterThanOrEqual(100)
  })

  test("the ratio equals Python's on every pair, to the last bit", () => {
    const different = rows.filter(([a, b, , expected]) => ratio(a, b) !== expected)
    expect(different).toEqual([])
  })

  test("the size of the matching blocks equals Python's on every pair", () => {
    const different = rows.filter(([a, b, expected]) => matchingSize(Array.from(a), Array.from(b)) !== expected)
    expect(different).toEqual([])
  })

  test('ratio = 2·M / (|a| + |b|), worked by hand', () => {
    // «abcd» and «bcde» share the run «bcd»: 2·3 / 8
    expect(ratio('abcd', 'bcde')).toBe(0.75)
    // no longest common subsequence: the longest run is «345», and nothing stands before it in b or after it in a:
    // 2·3 / (10 + 7), where the subsequence «abcd» would give 2·4 / 17
    expect(ratio('a1b2c6d345', '345abcd')).toBe(6 / 17)
    expect(ratio('', '')).toBe(1)
    expect(ratio('', 'abc')).toBe(0)
  })

  test('characters outside the basic plane count once', () => {
    // three code points each, two alike: 2·2 / 6; UTF-16 units would also match the shared surrogate
    expect(ratio('😀a🤖', '😀a🦊')).toBeCloseTo(4 / 6, 15)
  })

  test('two texts of 6,000 characters, few of them popular enough to be junk, are compared within two seconds', () => {
    // 200 letters, each some 30 times: mostly below the limit of 1 + 6000 / 100 = 61
    const random = new RandomStream('long texts')
    const text = Array.from({ length: 6000 }, () => String.fromCharCode(0x4e00 + random.integer(200)))
    const start = performance.now()
    expect(matchingSize(text, [...text].reverse())).toBeGreaterThan(50)
    expect(matchingSize(text, text)).toBe(6000)
    expect(performance.now() - start).toBeLessThan(2000)
  })
})

describe('the nearest known word', () => {
  test('is the most similar one, or none where all are far', () => {
    expect(nearest('revers-text', ['alphabet-sort', 'reverse-text', 'wordle'])).toBe('reverse-text')
    expect(nearest('zzz', ['alphabet-sort', 'reverse-text'])).toBeNull()
    expect(nearest('anything', [])).toBeNull()
  })
})
