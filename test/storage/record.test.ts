import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { crc32, decodeSave, encodeSave } from '../../workers/storage/record.ts'
import { saveOf } from './examples.ts'

describe('a save as bytes', () => {
  it('comes back as it was, from bytes at any alignment', () => {
    const save = saveOf('run «1»', 12, 99, 1000)
    const bytes = encodeSave(save)
    expect(decodeSave(bytes)).toEqual(save)
    for (const shift of [1, 2, 3]) {
      const shifted = new Uint8Array(bytes.length + shift)
      shifted.set(bytes, shift)
      expect(decodeSave(shifted.subarray(shift))).toEqual(save)
    }
  })

  it('is refused when any single bit of it is another one', () => {
    const bytes = encodeSave(saveOf('run', 3))
    fc.assert(
      fc.property(fc.integer({ min: 0, max: bytes.length * 8 - 1 }), (bit) => {
        const damaged = bytes.slice()
        damaged[bit >> 3] ^= 1 << (bit & 7)
        expect(() => decodeSave(damaged)).toThrow()
      }),
      { numRuns: 500 },
    )
  })

  it('is refused at every shorter length, with a sentence', () => {
    const bytes = encodeSave(saveOf('run', 3))
    for (let length = 0; length < bytes.length; length += 7) {
      expect(() => decodeSave(bytes.subarray(0, length))).toThrow(/torn|do not begin as a save does/)
    }
  })

  it('has the checksum of zip and PNG', () => {
    // The check value of CRC-32/ISO-HDLC: crc32("123456789") = cbf43926.
    expect(crc32(new TextEncoder().encode('123456789'))).toBe(0xcbf43926)
  })
})
