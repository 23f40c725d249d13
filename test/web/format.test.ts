import { describe, expect, it } from 'vitest'
import { knobs } from '../../configs/schema.ts'
import { readValue, shownValue } from '../../web/controls/value.ts'
import { ago, bytes, count, duration, fixed, number, signed } from '../../web/format.ts'
import { LINES, VERB_LINES } from '../../web/learn/stepLines.ts'

describe('numbers for readers', () => {
  it('have few digits, thousands apart and a proper minus', () => {
    expect([0, 0.8934, 41.23, 8465, 2.1e-7, -0.00098].map((value) => number(value))).toEqual([
      '0',
      '0.893',
      '41.2',
      '8,465',
      '2.1e−7',
      '−9.8e−4',
    ])
    expect(fixed(-0.001)).toBe('0.00')
    expect(signed(-0.25)).toBe('−0.25')
    expect(number(Number.NaN)).toBe('not a number')
  })

  it('carry the unit that fits', () => {
    expect([0.623, 4.2, 16, 200, 7500].map(duration)).toEqual(['0.62 s', '4.2 s', '16 s', '3 min 20 s', '2 h 05 min'])
    expect([512, 14_200_000, 4.29e9].map(bytes)).toEqual(['512 B', '14.2 MB', '4.29 GB'])
    expect(count(4_725_504)).toBe('4.7 M')
    expect(ago(0, 120_000)).toBe('2 min ago')
  })
})

describe('a field', () => {
  const knob = (path: string) => knobs().find((one) => one.path === path)!

  it('shows and reads small numbers, lists and nothing', () => {
    expect(shownValue(1e-7)).toBe('1e-7')
    expect(readValue(knob('learning_rate'), '5e-4')).toEqual({ value: 5e-4 })
    expect(readValue(knob('lora.target_modules'), 'q_proj, v_proj')).toEqual({ value: ['q_proj', 'v_proj'] })
    expect(readValue(knob('max_grad_norm'), ' ')).toEqual({ value: null })
  })

  it('refuses what is no number', () => {
    expect(readValue(knob('learning_rate'), 'fast')).toEqual({ sentence: '«fast» is no number.' })
  })
})

describe('step.ts as it is shown', () => {
  it('has a line for each verb, in the order in which they run', () => {
    expect(VERB_LINES.map(({ verb }) => verb)).toEqual([
      'ask',
      'answer',
      'judge',
      'compare',
      'admit',
      'leaveOut',
      'logprobs',
      'slopes',
      'backward',
      'update',
    ])
  })

  it('is the whole file, with nothing left out', () => {
    expect(LINES[0].comment).toContain('ONE STEP of GRPO')
    expect(LINES.filter(({ text }) => text.includes('export async function')).length).toBe(3)
  })
})
