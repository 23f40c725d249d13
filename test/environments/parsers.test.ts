import { describe, expect, test } from 'vitest'
import type { Message } from '../../environments/messages.ts'
import { MaybeThinkParser, Parser, strip, ThinkParser, XMLParser } from '../../environments/parsers.ts'

const says = (...contents: string[]): Message[] => contents.map((content) => ({ role: 'assistant', content }))

describe('XMLParser', () => {
  const parser = new XMLParser(['think', ['answer', 'code']])

  test('finds the first content of each tag, stripped, and null for a missing or unclosed one', () => {
    expect(parser.parse('<think>\n a\nb </think> <answer>1</answer><answer>2</answer><code>x')).toEqual({
      think: 'a\nb',
      answer: '1',
      code: null,
    })
    expect(parser.parse('')).toEqual({ think: null, answer: null, code: null })
    expect(parser.parse('<answer></answer>').answer).toBe('')
  })

  test('stops at the first closing tag, and begins at the first opening one', () => {
    expect(parser.parse('<answer>a<answer>b</answer>c</answer>').answer).toBe('a<answer>b')
    expect(parser.parse('</answer><answer>b</answer>').answer).toBe('b')
  })

  test("strips Python's whitespace: the information separators and U+0085, but not U+FEFF", () => {
    expect(parser.parse('<answer>\x1c\x85\u2003a\u3000</answer>').answer).toBe('a')
    expect(parser.parse('<answer>\ufeffa</answer>').answer).toBe('\ufeffa')
    expect(strip(' \n\t ')).toBe('')
  })

  test('takes the answer from the newest message that has one, and there the first', () => {
    expect(parser.parseAnswer(says('<answer>old</answer>', '<answer>1</answer><answer>2</answer>', 'no tag'))).toBe('1')
    expect(parser.parseAnswer([...says('<answer>a</answer>'), { role: 'user', content: '<answer>b</answer>' }])).toBe(
      'a',
    )
    expect(parser.parseAnswer(says('none'))).toBeNull()
    expect(parser.parseAnswer([])).toBeNull()
  })

  test('takes the last answer of a bare text', () => {
    expect(parser.parseAnswer('<answer>1</answer> <answer>2</answer>')).toBe('2')
  })

  test('reads alternatives each under its own tag', () => {
    const coder = new XMLParser([['code', 'answer']], { answerField: 'answer' })
    expect(coder.parse('<code>f()</code>')).toEqual({ code: 'f()', answer: null })
    expect(coder.parseAnswer(says('<answer>7</answer>'))).toBe('7')
  })

  test('scores the format: 0.4 for places, 0.2 each for spacing, beginning and end', () => {
    const score = (...contents: string[]) => parser.formatReward(says(...contents))
    expect(score('<think>a</think><answer>b</answer>')).toBeCloseTo(1, 12)
    expect(score(' <think>a</think>\n<code>b</code>\n')).toBeCloseTo(1, 12)
    // one of two places: 0.4 · 1/2 + 0.2 spacing + 0.2 end
    expect(score('<answer>b</answer>')).toBeCloseTo(0.6, 12)
    // an unclosed tag still marks its place as seen: 0.4 · 2/2 + 0.2 + 0.2 end
    expect(score('a</think><answer>b</answer>')).toBeCloseTo(0.8, 12)
    // nothing parsed, so places count nothing: 0.2 + 0.2 beginning
    expect(score('<think>a')).toBeCloseTo(0.4, 12)
    expect(score('')).toBeCloseTo(0.2, 12)
    // mean over messages: (1 + 0.2) / 2
    expect(score('<think>a</think><answer>b</answer>', '')).toBeCloseTo(0.6, 12)
    expect(score()).toBe(0)
  })

  test('writes what it reads', () => {
    const text = parser.format({ think: 'a', code: 'b' })
    expect(text).toBe('<think>\na\n</think>\n<answer>\nb\n</answer>')
    expect(parser.parse(text)).toEqual({ think: 'a', answer: 'b', code: null })
    expect(parser.formatDescription()).toBe('<think>\n...\n</think>\n<[ answer | code ]>\n...\n</[ answer | code ]>')
    expect(() => parser.format({ think: 'a' })).toThrow('a value for answer or code is needed, got think.')
  })

  test('refuses fields that it could not tell apart, and an answer field that is none of them', () => {
    expect(() => new XMLParser(['a', 'a'])).toThrow('"a" is given twice')
    expect(() => new XMLParser(['a'])).toThrow('answerField "answer" is none of the tags a.')
    expect(() => new XMLParser([])).toThrow('at least one field')
  })

  test('takes a million blanks in stride', () => {
    const blanks = ' '.repeat(1_000_000)
    const start = performance.now()
    expect(parser.parse(`<answer>${blanks}`).answer).toBeNull()
    expect(parser.parse(`<answer>a${blanks}b</answer>`).answer).toHaveLength(1_000_002)
    expect(performance.now() - start).toBeLessThan(500)
  })
})

describe('the other parsers', () => {
  test('Parser takes the last message as it stands, through its extractor', () => {
    expect(new Parser().parseAnswer(says('a', ' b '))).toBe(' b ')
    expect(new Parser((text) => text.toUpperCase()).parseAnswer(says('a'))).toBe('A')
    expect(new Parser().parseAnswer([])).toBeNull()
    expect(new Parser().formatReward([])).toBe(1)
  })

  test('ThinkParser takes what follows the last thought, and nothing where there is none', () => {
    const parser = new ThinkParser()
    expect(parser.parse('<think>a</think> b </think> c ')).toBe('c')
    expect(parser.parse('no thought')).toBe('')
  })

  test('ThinkParser rewards one thought that opens the message, is closed, and is followed by something', () => {
    const score = (text: string) => new ThinkParser().formatReward(says(text))
    expect(score(' <think>a</think>b')).toBe(1)
    expect(score('<think>a</think>')).toBe(0)
    expect(score('b<think>a</think>c')).toBe(0)
    expect(score('<think>a<think>b</think>c')).toBe(0)
    expect(score('<think>a</think>b</think>c')).toBe(0)
    expect(new ThinkParser().formatReward(says('<think>a</think>b', 'b'))).toBe(0.5)
  })

  test('MaybeThinkParser takes everything where there is no thought', () => {
    expect(new MaybeThinkParser().parse(' all ')).toBe('all')
    expect(new MaybeThinkParser().parse('<think>a</think> b')).toBe('b')
  })
})
