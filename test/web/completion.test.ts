import { CompletionContext } from '@codemirror/autocomplete'
import { EditorState } from '@codemirror/state'
import { describe, expect, it } from 'vitest'
import { completeToml, knobAt, tableAt } from '../../web/controls/tomlCompletion.ts'

/** Completions where | stands. */
function at(text: string): string[] {
  const position = text.indexOf('|')
  const state = EditorState.create({ doc: text.replace('|', '') })
  return completeToml(new CompletionContext(state, position, true))?.options.map(({ label }) => label) ?? []
}

describe('completing TOML', () => {
  it('offers the keys of the table it stands in', () => {
    expect(at('learning|')).toContain('learning_rate')
    expect(at('[sampling]\nmax|')).toContain('max_tokens')
    expect(at('[sampling]\nmax|')).not.toContain('learning_rate')
    expect(at('[[env]]\n|')).toContain('id')
  })

  it('offers tables after a bracket, lists after two', () => {
    expect(at('[sam|')).toContain('sampling')
    expect(at('[|')).not.toContain('env')
    expect(at('[[|')).toContain('env')
  })

  it('offers the choices of a key, and nothing in a comment', () => {
    expect(at('[loss]\ntype = |')).toContain('"ppo"')
    expect(at('[lora]\nenabled = |')).toEqual(['true', 'false'])
    expect(at('# learning|')).toEqual([])
  })

  it('finds the knob under the pointer', () => {
    const text = '[sampling]\nmax_tokens = 64\n'
    expect(tableAt(text, text.length)).toBe('sampling')
    expect(knobAt(text, text.indexOf('tokens'))?.knob.path).toBe('sampling.max_tokens')
    expect(knobAt(text, text.indexOf('64'))).toBeNull()
  })
})
