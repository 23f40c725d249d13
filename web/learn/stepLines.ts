// step.ts as the page shows it: its own text, and for each line the verb that runs there. Nothing is retold, so what is
// read is what runs.

import source from '../../workers/step.ts?raw'

export interface Line {
  number: number
  text: string
  /** What stands behind `//`, without it. */
  comment: string
  /** The verb called on this line: `phase` events name it. */
  verb: string | null
}

// `step` itself calls the two halves below; they are no verbs.
const HALVES = new Set(['rollOut', 'learn'])

export const LINES: Line[] = source
  .trimEnd()
  .split('\n')
  .map((whole, i) => {
    const cut = whole.search(/(^|\s)\/\/(\s|$)/)
    // A line of comment alone keeps its indentation as text.
    const text = cut < 0 ? whole : whole.slice(0, whole.search(/\/\/(\s|$)/))
    const verb = text.match(/await (\w+)\(/)?.[1] ?? null
    return {
      number: i + 1,
      text: text.trim() ? text.trimEnd() : text,
      comment:
        cut < 0
          ? ''
          : whole
              .slice(cut)
              .trim()
              .replace(/^\/\/ ?/, ''),
      verb: verb && !HALVES.has(verb) ? verb : null,
    }
  })

/** The lines on which something happens, without their indentation. */
export const VERB_LINES: Line[] = LINES.filter(({ verb }) => verb !== null).map((line) => ({
  ...line,
  text: line.text.trim(),
}))
