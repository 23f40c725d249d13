import fc from 'fast-check'
import { parse, stringify } from 'smol-toml'
import { describe, expect, test } from 'vitest'
import { formatPath, getAt, isTable, type Path, parsePath, type Table } from '../../configs/path.ts'
import { placeOf, readSource, SourceError } from '../../configs/source.ts'

const TOML = `# a comment with [brackets] and key = "value"
model = "lab-tiny" # after
"quoted key" = 'literal # not a comment'
dotted.inner . deep = 1
text = """
[not.a.table]
x = 1 \\""" still in
"""
long = '''it's'' '''

[sampling]
stop = [ "a]", # one
  'b', [1, {x = 2}] ]
args = { a = 1, "b.c" = { d = [2, 3] }, e.f = 1979-05-27 07:32:00 }

[[env]]
id = "one"
[env.args]
turns = 3
[[env]]
id = "two"
[[env.parts]]
n = 1
[[env.parts]]
n = 2
[a.b.c]
last = true`

describe('positions in TOML', () => {
  const source = readSource(TOML, 'toml')
  const at = (path: string, what: 'key' | 'value') => {
    const { line, column } = source.place(parsePath(path) ?? [], what)!
    return `${line}:${column}`
  }

  test('a key and its value stand where the text has them', () => {
    expect(at('model', 'key')).toBe('2:1')
    expect(at('model', 'value')).toBe('2:9')
    expect(at('"quoted key"', 'value')).toBe('3:16')
    expect(at('dotted.inner.deep', 'key')).toBe('4:16')
    expect(at('dotted.inner.deep', 'value')).toBe('4:23')
    expect(at('text', 'key')).toBe('5:1')
    expect(at('long', 'key')).toBe('9:1')
  })

  test('lists and inline tables have places for what is inside them', () => {
    expect(at('sampling.stop[1]', 'value')).toBe('13:3')
    expect(at('sampling.stop[2][1].x', 'value')).toBe('13:17')
    expect(at('sampling.args."b.c".d[1]', 'value')).toBe('14:35')
    expect(at('sampling.args.e.f', 'value')).toBe('14:47')
  })

  test('lists of tables count their headers, and tables below them belong to the newest', () => {
    expect(at('env[0]', 'key')).toBe('16:3')
    expect(at('env[0].args.turns', 'value')).toBe('19:9')
    expect(at('env[1].id', 'value')).toBe('21:6')
    expect(at('env[1].parts[1].n', 'value')).toBe('25:5')
    expect(at('a.b.c.last', 'value')).toBe('27:8')
    expect(at('a', 'key')).toBe('26:2')
  })

  test('what is not written has the place of the nearest table above it', () => {
    expect(at('env[1].args.turns', 'key')).toBe('20:3')
    expect(source.place(['nowhere'], 'key')).toBeNull()
  })

  test('the text at every value, read alone, is that value', () => {
    expect(checked(TOML)).toBe(19)
  })

  test('so it is for any document', () => {
    const key = fc.string({ minLength: 1, maxLength: 6, unit: 'grapheme' }).filter((name) => name !== '__proto__')
    const scalar = fc.oneof(
      fc.string({ unit: fc.constantFrom('a', '"', "'", '\\', '#', '[', ']', '{', '=', '\n', '\t', 'é', '😀', ',') }),
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
    )
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        scalar,
        fc.array(scalar, { maxLength: 3 }),
        tie('table'),
        fc.array(tie('table'), { maxLength: 2 }),
      ),
      table: fc.dictionary(key, tie('value'), { maxKeys: 4 }),
    }))
    fc.assert(
      fc.property(fc.dictionary(key, value, { maxKeys: 5 }), (table) => {
        checked(stringify(table as Table))
      }),
      { numRuns: 300 },
    )
  })
})

/** Reads the text of every scalar by itself and compares; gives how many there were. */
function checked(text: string): number {
  const source = readSource(text, 'toml')
  let count = 0
  const visit = (path: Path, value: unknown): void => {
    if (isTable(value)) for (const [key, inner] of Object.entries(value)) visit([...path, key], inner)
    else if (Array.isArray(value)) for (const [i, inner] of value.entries()) visit([...path, i], inner)
    else {
      const { value: start, end } = source.position(path)!
      expect(parse(`value = ${text.slice(start, end)}`).value, formatPath(path)).toEqual(value)
      count++
    }
  }
  visit([], source.value)
  return count
}

describe('positions in JSON', () => {
  test('keys and values have places, and the value is that of JSON.parse', () => {
    const text = '{\n  "a": [1, {"b": "x"}],\n  "c d": -1.5e3, "e": null\n}'
    const source = readSource(text, 'json')
    expect(source.value).toEqual(JSON.parse(text))
    expect(source.place(['a', 1, 'b'], 'value')).toEqual({ line: 2, column: 18 })
    expect(source.place(['c d'], 'key')).toEqual({ line: 3, column: 3 })
    expect(source.place(['c d'], 'value')).toEqual({ line: 3, column: 10 })
  })

  test('any JSON object reads as JSON.parse reads it', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.constantFrom(0, 2), (table, indent) => {
        const text = JSON.stringify(table, null, indent)
        expect(readSource(text, 'json').value).toEqual(JSON.parse(text))
      }),
    )
  })

  test.each([
    ['{"a": 1,}', 'the last entry has no comma after it', 9],
    ['{"a" 1}', 'a colon is expected after the key', 6],
    ['{"a": 1 "b": 2}', 'a comma or } is expected here', 9],
    ['[1]', 'a config in JSON is one object, { … }', 1],
    ['{"a": 1, "a": 2}', 'the key "a" is given twice in one object', 10],
    ['{"a": 01}', '01 is not JSON', 7],
    ['{"a": tru}', 'a value is expected here', 7],
    ['{} x', 'nothing may follow the closing brace', 4],
    ['{"a": "b', 'a value is expected here', 7],
  ])('%s is refused', (text, sentence, column) => {
    try {
      readSource(text, 'json')
      expect.unreachable()
    } catch (error) {
      expect(error).toBeInstanceOf(SourceError)
      expect((error as SourceError).message).toBe(sentence)
      expect(placeOf(text, (error as SourceError).offset)).toEqual({ line: 1, column })
    }
  })
})

test('a dotted path and its parts are two spellings of one thing', () => {
  expect(formatPath(['env', 0, 'args', 'a.b'])).toBe('env[0].args."a.b"')
  const part = fc.oneof(fc.string(), fc.nat(99))
  fc.assert(
    fc.property(fc.array(part, { minLength: 1, maxLength: 5 }), (path) => {
      expect(parsePath(formatPath(path))).toEqual(path)
    }),
  )
  expect(['', '.a', 'a.', 'a..b', 'a[x]', 'a b', 'a.[0]', '"a'].map(parsePath)).toEqual(Array(8).fill(null))
  expect(getAt({ toString: 1 }, ['constructor'])).toBeUndefined()
})
