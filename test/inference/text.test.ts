// Text as it becomes certain: half characters and half stop texts wait.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { TextStream } from '../../workers/completions/text.ts'

// One token per byte, as the bundled models have it.
const decode = (ids: number[]) => new TextDecoder().decode(Uint8Array.from(ids))
const bytes = (text: string) => [...new TextEncoder().encode(text)]

function told(text: string, stops: string[] = [], keepStop = false): { parts: string[]; stop: string | null } {
  const stream = new TextStream(decode, { stops, keepStop })
  const parts: string[] = []
  for (const byte of bytes(text)) {
    parts.push(stream.push(byte))
    if (stream.stop !== null) break
  }
  parts.push(stream.end())
  return { parts: parts.filter((part) => part !== ''), stop: stream.stop }
}

describe('a text stream', () => {
  it('gives a character out when its last byte has come', () => {
    expect(told('a€b').parts).toEqual(['a', '€', 'b'])
  })

  it('gives out a broken end as what it is', () => {
    const stream = new TextStream(decode)
    expect(
      bytes('€')
        .slice(0, 2)
        .map((byte) => stream.push(byte)),
    ).toEqual(['', ''])
    expect(stream.end()).toBe('�')
  })

  it('holds back what may become a stop text, and gives it out when it does not', () => {
    expect(told('x</y></r>z', ['</r>'])).toEqual({ parts: ['x', '</y', '>'], stop: '</r>' })
    expect(told('ends in </r', ['</r>']).parts.join('')).toBe('ends in </r')
  })

  it('keeps the stop text where that is wanted', () => {
    expect(told('a!b', ['!'], true)).toEqual({ parts: ['a', '!'], stop: '!' })
  })

  it('stops at the first stop text of several', () => {
    expect(told('one two three', ['three', 'two'])).toEqual({ parts: [...'one '], stop: 'two' })
  })

  it('loses nothing and adds nothing, and never shows a stop text', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        fc.array(fc.string({ minLength: 1, maxLength: 3 }), { maxLength: 3 }),
        (text, stops) => {
          const { parts, stop } = told(text, stops)
          const cuts = stops.map((one) => text.indexOf(one)).filter((at) => at >= 0)
          const shown = parts.join('')
          if (stop === null) expect([cuts, shown]).toEqual([[], text])
          else expect(stops.every((one) => !shown.includes(one))).toBe(true)
          expect(text.startsWith(shown)).toBe(true)
        },
      ),
    )
  })
})
