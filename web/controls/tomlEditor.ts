// The TOML editor: CodeMirror with the schema's completions, what each key does on pointing, and problems at their
// lines. Loaded on demand, so the page does not carry it. Knows no config; it is told its problems.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { bracketMatching, HighlightStyle, StreamLanguage, syntaxHighlighting } from '@codemirror/language'
import { toml } from '@codemirror/legacy-modes/mode/toml'
import { type Diagnostic, lintGutter, setDiagnostics } from '@codemirror/lint'
import { EditorState, Transaction } from '@codemirror/state'
import { drawSelection, EditorView, highlightActiveLine, hoverTooltip, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import type { Note, Problem } from '../../configs/load.ts'
import { completeToml, knobAt } from './tomlCompletion.ts'

export interface TomlEditor {
  setText(text: string): void
  report(problems: readonly Problem[], notes: readonly Note[]): void
  /** Puts the cursor there. Line and column count from 1. */
  show(line: number, column: number): void
  dispose(): void
}

const COLOURS = HighlightStyle.define([
  { tag: tags.comment, color: 'var(--soft)', fontStyle: 'italic' },
  { tag: tags.string, color: 'var(--ok)' },
  { tag: [tags.number, tags.bool, tags.atom], color: 'var(--up)' },
  { tag: [tags.propertyName, tags.variableName], color: 'var(--ink)' },
  { tag: tags.bracket, color: 'var(--accent)' },
])

const THEME = EditorView.theme({
  '&': { height: '100%', fontSize: '12px', backgroundColor: 'transparent', color: 'var(--ink)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55', scrollbarWidth: 'thin' },
  '.cm-content': { caretColor: 'var(--ink)', padding: '6px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--soft)', border: 'none' },
  '.cm-lineNumbers .cm-gutterElement': { padding: '0 6px 0 8px', minWidth: '22px' },
  '.cm-activeLine': { backgroundColor: 'var(--chosen)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'var(--lit)',
  },
  '.cm-gutter-lint': { width: '12px' },
  '.cm-gutter-lint .cm-gutterElement': { padding: '0 0 0 3px' },
  '.cm-lint-marker': { width: '8px', height: '8px', content: '""', borderRadius: '50%' },
  '.cm-lint-marker-error': { content: '""', backgroundColor: 'var(--bad)', marginTop: '5px' },
  '.cm-lint-marker-warning': { content: '""', backgroundColor: 'var(--down)', marginTop: '5px' },
  '.cm-lint-marker-info': { content: '""', backgroundColor: 'var(--edge)', marginTop: '5px' },
  '.cm-tooltip': {
    backgroundColor: 'var(--panel)',
    color: 'var(--ink)',
    border: '1px solid var(--line)',
    borderRadius: '8px',
    boxShadow: '0 4px 16px var(--shade)',
    overflow: 'hidden',
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', fontSize: '12px', maxHeight: '15em' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': { padding: '2px 8px' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--lit)', color: 'var(--ink)' },
  '.cm-completionDetail': { color: 'var(--soft)', fontStyle: 'normal' },
  '.cm-completionInfo': { maxWidth: '300px', font: '12px/1.45 var(--sans)', padding: '8px 10px' },
  '.cm-diagnostic': { font: '12px/1.45 var(--sans)', padding: '6px 10px', maxWidth: '360px' },
  '.cm-diagnostic-error': { borderLeftColor: 'var(--bad)' },
  '.cm-diagnostic-warning': { borderLeftColor: 'var(--down)' },
  '.cm-diagnostic-info': { borderLeftColor: 'var(--edge)' },
})

export function createTomlEditor(parent: HTMLElement, text: string, onchange: (text: string) => void): TomlEditor {
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        lintGutter(),
        history(),
        drawSelection(),
        highlightActiveLine(),
        bracketMatching(),
        closeBrackets(),
        autocompletion({ override: [completeToml], icons: false }),
        hoverTooltip(explain),
        StreamLanguage.define(toml),
        syntaxHighlighting(COLOURS),
        // Tab leaves the editor: a keyboard must be able to.
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
        EditorView.contentAttributes.of({ 'aria-label': 'Config as TOML', spellcheck: 'false' }),
        EditorView.updateListener.of((update) => {
          const own = update.transactions.some((one) => one.docChanged && !one.annotation(Transaction.remote))
          if (own) onchange(update.state.doc.toString())
        }),
        THEME,
      ],
    }),
  })

  return {
    setText(next) {
      const now = view.state.doc.toString()
      if (next === now) return
      view.dispatch({ changes: smallest(now, next), annotations: Transaction.remote.of(true) })
    },
    report(problems, notes) {
      const diagnostics = [
        ...problems.map((problem) => diagnostic(problem, 'error')),
        ...notes.filter(({ line }) => line !== null).map((note) => diagnostic(note, note.warning ? 'warning' : 'info')),
      ]
      view.dispatch(setDiagnostics(view.state, diagnostics))
    },
    show(line, column) {
      const at = offset(line, column)
      view.dispatch({ selection: { anchor: at }, scrollIntoView: true })
      view.focus()
    },
    dispose: () => view.destroy(),
  }

  function offset(line: number | null, column: number | null): number {
    const { doc } = view.state
    const found = doc.line(Math.min(Math.max(1, line ?? 1), doc.lines))
    return Math.min(found.from + Math.max(0, (column ?? 1) - 1), found.to)
  }

  function diagnostic({ line, column, sentence }: Problem, severity: Diagnostic['severity']): Diagnostic {
    const from = offset(line, column)
    const to = view.state.doc.lineAt(from).to
    return { from, to: Math.max(from, to), severity, message: sentence }
  }
}

/** What the key under the pointer does. */
function explain(view: EditorView, position: number) {
  const found = knobAt(view.state.doc.toString(), position)
  if (!found) return null
  return {
    pos: found.from,
    end: found.to,
    above: true,
    create() {
      const dom = document.createElement('div')
      dom.className = 'cm-diagnostic'
      const title = document.createElement('b')
      title.textContent = found.knob.label
      const help = document.createElement('div')
      help.textContent = found.knob.help
      dom.append(title, help)
      return { dom }
    },
  }
}

// A change as small as can be, so that the cursor stays where it is when the form edits the text.
function smallest(before: string, after: string): { from: number; to: number; insert: string } {
  let from = 0
  while (from < before.length && from < after.length && before[from] === after[from]) from++
  let same = 0
  while (
    same < before.length - from &&
    same < after.length - from &&
    before[before.length - 1 - same] === after[after.length - 1 - same]
  )
    same++
  return { from, to: before.length - same, insert: after.slice(from, after.length - same) }
}
