// What a run writes, without the secrets that it was given.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { redactor } from '../../../server/secrets/redact.ts'

const VARIABLES = {
  TOKEN: 'canary-é-4f1c9a',
  PEM: '-----BEGIN\ncanary-second-line\n',
  QUOTED: 'a"b\\canary',
  SHORT: 'ab',
}

function through(chunks: readonly Uint8Array[]): string {
  const redact = redactor(VARIABLES)
  return Buffer.concat([...chunks.map((chunk) => redact.part(chunk)), redact.end()]).toString()
}

describe('a text', () => {
  it('loses every value, also as it stands in JSON, and every line of one', () => {
    const { text } = redactor(VARIABLES)
    const event = JSON.stringify({ kind: 'note', text: Object.values(VARIABLES).join(' ') })
    expect(text(event)).toBe('{"kind":"note","text":"[secret] [secret] [secret] ab"}')
    expect(text('x canary-second-line y')).toBe('x [secret] y')
    expect(JSON.parse(text(JSON.stringify(VARIABLES)))).toMatchObject({ TOKEN: '[secret]', SHORT: 'ab' })
  })
})

describe('a JSON document', () => {
  it('loses every value in strings and keys, and stays a document whatever the values are', () => {
    const { json } = redactor({ NUMBER: '123456', ESCAPE: 'nothing', QUOTE: 'quoted"' })
    const document = { 'key 123456': 0.123456, text: '\\nothing nothing quoted" 123456', more: ['quoted', 'a"b'] }
    expect(JSON.parse(json(JSON.stringify(document)))).toEqual({
      ...{ 'key [secret]': 0.123456, text: '\\[secret] [secret] [secret] [secret]', more: ['quoted', 'a"b'] },
    })
  })

  it('within which another one is written loses them too, as Python writes it', () => {
    const inner = '{"token":"canary-\\u00e9-4f1c9a"}'
    expect(JSON.parse(redactor(VARIABLES).json(JSON.stringify({ text: inner })))).toEqual({
      text: '{"token":"[secret]"}',
    })
  })
})

describe('a file', () => {
  it('keeps its length, and loses values that lie within each other whole', () => {
    const { mask } = redactor({ A: 'abcabcab', B: 'cabcabx' })
    const { bytes } = mask(Buffer.from('é abcabcabcabx abcab'))
    expect(bytes.toString()).toBe('é ************ abcab')
  })

  it('tells from where on a value may have begun', () => {
    const { mask } = redactor(VARIABLES)
    expect(mask(Buffer.from('at can')).whole).toBe(3)
    expect(mask(Buffer.from('at candle')).whole).toBe(9)
  })
})

describe('a stream', () => {
  it('loses every value wherever it is cut, and nothing else', () => {
    const piece = fc.constantFrom(...Object.values(VARIABLES), 'canary', 'canary-', 'é', 'c', '\n', 'ordinary words ')
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), fc.array(fc.nat(40), { maxLength: 12 }), (pieces, sizes) => {
        const bytes = Buffer.from(pieces.join(''))
        const chunks: Uint8Array[] = []
        let at = 0
        for (const size of sizes) {
          chunks.push(bytes.subarray(at, at + size))
          at += size
        }
        chunks.push(bytes.subarray(at))
        expect(through(chunks)).toBe(through([bytes]))
        for (const value of [VARIABLES.TOKEN, VARIABLES.QUOTED, 'canary-second-line'])
          expect(through(chunks)).not.toContain(value)
      }),
      { numRuns: 500 },
    )
    const plain = Buffer.from('ordinary é🎲 words, cut in the middle of a letter')
    expect(through([plain.subarray(0, 10), plain.subarray(10)])).toBe(plain.toString())
  })

  it('is not held back where no secret can have begun', () => {
    const redact = redactor(VARIABLES)
    expect(Buffer.from(redact.part(Buffer.from('step 1\n'))).toString()).toBe('step 1\n')
    expect(Buffer.from(redact.part(Buffer.from('at can'))).toString()).toBe('at ')
    expect(Buffer.from(redact.part(Buffer.from('dle light'))).toString()).toBe('candle light')
  })
})
