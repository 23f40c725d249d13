import { describe, expect, test } from 'vitest'
import { hash32, RandomStream } from '../../environments/random.ts'

describe('a random stream', () => {
  test('of the same names gives the same numbers, of other names others', () => {
    const draw = (...names: (string | number)[]) => {
      const random = new RandomStream(...names)
      return Array.from({ length: 8 }, () => random.integer(1_000_000))
    }
    expect(draw('a', 1)).toEqual(draw('a', 1))
    const others = [draw('a', 1), draw('a', 2), draw('b', 1), draw('a', '1'), draw('a1'), draw('a', 1, 0)]
    expect(new Set(others.map((numbers) => numbers.join())).size).toBe(others.length)
  })

  test('has forks that depend on its name and not on what was drawn from it', () => {
    const fresh = new RandomStream('a', 1)
    const used = new RandomStream('a', 1)
    used.next()
    expect(used.fork('b').next()).toBe(fresh.fork('b').next())
    expect(fresh.fork('b').next()).toBe(new RandomStream('a', 1, 'b').next())
  })

  test('is uniform: χ² over 64 cells of 64,000 draws stays below its 99.99 % point', () => {
    const random = new RandomStream('uniform')
    const counts = Array(64).fill(0)
    for (let i = 0; i < 64_000; i++) counts[random.integer(64)]++
    // Σ (count − 1000)² / 1000, 63 degrees of freedom: 99.99 % point 113.5
    const chi2 = counts.reduce((sum, count) => sum + (count - 1000) ** 2 / 1000, 0)
    expect(chi2).toBeLessThan(113.5)
    expect(chi2).toBeGreaterThan(25)
  })

  test('is uniform across the first numbers of neighbouring names too', () => {
    const counts = Array(64).fill(0)
    for (let i = 0; i < 64_000; i++) counts[new RandomStream('rows', 'train', 0, i).integer(64)]++
    const chi2 = counts.reduce((sum, count) => sum + (count - 1000) ** 2 / 1000, 0)
    expect(chi2).toBeLessThan(113.5)
    expect(chi2).toBeGreaterThan(25)
  })

  test('takes both ends of `between`, and shuffles without losing anything', () => {
    const random = new RandomStream('ends')
    const drawn = new Set(Array.from({ length: 200 }, () => random.between(3, 5)))
    expect([...drawn].sort()).toEqual([3, 4, 5])
    expect(random.shuffled([1, 2, 3, 4, 5]).sort()).toEqual([1, 2, 3, 4, 5])
  })

  test('is seeded by a hash that tells seeds and texts apart', () => {
    const hashes = new Set(Array.from({ length: 10_000 }, (_, i) => hash32(`text ${i}`, i % 3)))
    // 10,000 of 2³² values: 10⁸ / 2³³ ≈ 0.012 collisions expected
    expect(hashes.size).toBeGreaterThanOrEqual(9999)
  })
})
