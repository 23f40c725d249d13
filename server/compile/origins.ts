// Where a file says what: from our path to the line and column in the text, in whatever dialect it was written.

import { RUN_VOCABULARY } from '../../configs/dialects.ts'
import { formatPath, type Path, parsePath } from '../../configs/path.ts'
import { knobs } from '../../configs/schema.ts'
import { guessFormat, type Place, readSource } from '../../configs/source.ts'
import { translate } from '../../configs/translate.ts'

export interface Origin {
  /** Dotted, as the file writes it. */
  path: string
  place: Place
}

/** Null for what the file does not say. The text has been loaded without problems. */
export function originsOf(text: string): (path: string) => Origin | null {
  const source = readSource(text, guessFormat(text))
  const { origins } = translate(source.value, knobs(), RUN_VOCABULARY)
  const placed = (written: Path): Origin | null => {
    const place = source.place(written, 'key')
    return place && { path: formatPath(written), place }
  }
  return (path) => {
    const parts = parsePath(path)
    for (let length = parts?.length ?? 0; parts && length > 0; length--) {
      const from = origins.get(formatPath(parts.slice(0, length)))
      if (from) return placed([...from, ...parts.slice(length)])
    }
    // A table as a whole stands where its first key does.
    const below = [...origins].find(([ours]) => ours.startsWith(`${path}.`) || ours.startsWith(`${path}[`))
    return below ? placed(below[1]) : null
  }
}
