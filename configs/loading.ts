// How a config of any job is loaded: read, translated, checked against a contract, and every finding put at its line and
// column. Knows no key by name.

import type { z } from 'zod'
import type { Check } from './checks.ts'
import type { Dialect } from './dialects/dialect.ts'
import type { Knob } from './knob.ts'
import { merge, overrides } from './override.ts'
import { formatPath, getAt, isTable, type Path, parsePath, type Table } from './path.ts'
import { type Finding, inOrder, type Note, type NoteKind, type Problem } from './report.ts'
import { sentenceOf, shown } from './sentences.ts'
import { type Format, guessFormat, placeOf, readSource, type Source, SourceError, unwritten } from './source.ts'
import { type Translation, translate } from './translate.ts'
import { unusedHere } from './unused.ts'
import type { Vocabulary } from './vocabulary.ts'

export interface Loaded<Config> {
  config: Config
  notes: Note[]
  problems?: undefined
}

export interface Refused {
  problems: Problem[]
  config?: undefined
  notes?: undefined
}

export interface LoadOptions {
  /** Guessed from the text unless given. */
  format?: Format
  /** `a.b=c`, put over the file, as `--set` does. Values are TOML, or bare text. */
  set?: readonly string[]
}

/** What a config is checked against; each job has one. */
export interface Contract<Config> {
  schema: z.ZodType<Config>
  knobs: readonly Knob[]
  vocabulary: Vocabulary
  check(config: Config, given: (path: string) => boolean): Check[]
  /** Vocabularies whose own defaults are told when a file leaves them out. */
  defaults(dialects: Set<Dialect>, file: Table): readonly Dialect[]
  /** What the file as a whole says beyond its keys, put into the translation. */
  settle?(translation: Translation, file: Table): void
}

export function loadAs<Config>(
  contract: Contract<Config>,
  input: string | Table,
  options: LoadOptions = {},
): Loaded<Config> | Refused {
  const opened = open(input, options.format)
  if ('problems' in opened) return opened
  const over = overrides(options.set ?? [])
  if ('sentence' in over) return { problems: [{ sentence: over.sentence, path: '', line: null, column: null }] }
  return new Loading(contract, [opened, unwritten(over.table)]).run()
}

/** Reads the text; nothing is checked yet. */
export function open(input: string | Table, format?: Format): Source | Refused {
  if (typeof input !== 'string') return unwritten(input)
  try {
    return readSource(input, format ?? guessFormat(input))
  } catch (error) {
    if (!(error instanceof SourceError)) throw error
    const sentence = `This is not ${(format ?? guessFormat(input)).toUpperCase()}: ${error.message}.`
    return { problems: [{ sentence, path: '', ...placeOf(input, error.offset) }] }
  }
}

class Loading<Config> {
  private readonly notes: Note[] = []
  private readonly problems: Problem[] = []
  private layers: { source: Source; translation: Translation }[] = []

  constructor(
    private readonly contract: Contract<Config>,
    /** The file, then what is put over it. */
    private readonly sources: readonly Source[],
  ) {}

  run(): Loaded<Config> | Refused {
    const { contract } = this
    for (const source of this.sources) {
      for (const finding of misfits(source.value, [])) this.file(finding, source)
    }
    if (this.problems.length > 0) return { problems: inOrder(this.problems) }
    for (const source of this.sources) {
      const translation = translate(source.value, contract.knobs, contract.vocabulary)
      if (source === this.sources[0]) contract.settle?.(translation, source.value)
      this.layers.push({ source, translation })
      for (const finding of [...translation.problems, ...translation.findings]) this.file(finding, source)
    }
    const draft = this.layers.reduce<unknown>((under, { translation }) => merge(under, translation.draft), {})
    const parsed = contract.schema.safeParse(draft)
    if (!parsed.success) {
      for (const issue of parsed.error.issues) {
        const sentences = sentenceOf(
          issue,
          draft,
          (path) => this.nameOf(path),
          (path) => this.keysOf(path),
        )
        for (const { path, what, sentence } of sentences) this.problem(path, what, sentence)
      }
      return { problems: inOrder(this.problems) }
    }
    const config = parsed.data
    const given = (path: string) => getAt(draft, parsePath(path) ?? []) !== undefined
    for (const check of [...contract.check(config, given), ...unusedHere(config, draft as Table, contract.knobs)]) {
      const path = parsePath(check.or && !given(check.path) ? check.or : check.path) ?? []
      if (check.kind) this.note(path, check.kind, check.sentence, check.warning ?? false)
      else this.problem(path, check.what ?? 'value', check.sentence)
    }
    if (this.problems.length > 0) return { problems: inOrder(this.problems) }
    this.tellDefaults(given)
    return { config, notes: inOrder(this.notes) }
  }

  // A file in another vocabulary counts on that vocabulary's defaults for what it leaves out.
  private tellDefaults(given: (path: string) => boolean): void {
    const [{ source, translation }] = this.layers
    for (const dialect of this.contract.defaults(translation.dialects, source.value)) {
      const differing = Object.entries(dialect.defaults ?? {}).filter(([path]) => !given(path))
      const said = differing.map(([path, value]) => {
        const ours = this.contract.knobs.find((knob) => knob.path === path)?.default
        return `${path} = ${shown(ours)} (there ${typeof value === 'number' ? shown(value) : value})`
      })
      if (said.length === 0) continue
      const sentence = `What the file leaves out takes this project's defaults, not those of ${dialect.name}: ${said.join(', ')}.`
      this.notes.push({ kind: 'default', warning: false, sentence, path: '', line: null, column: null })
    }
  }

  /** Where the file says our path: the path in the file, and which layer. */
  private origin(path: Path): { path: Path; source: Source } {
    for (const { source, translation } of [...this.layers].reverse()) {
      for (let length = path.length; length > 0; length--) {
        const from = translation.origins.get(formatPath(path.slice(0, length)))
        if (from) return { path: length === path.length ? from : [...from, ...path.slice(length)], source }
      }
    }
    return { path, source: this.sources[0] }
  }

  private nameOf(path: Path): string {
    const from = formatPath(this.origin(path).path)
    const ours = formatPath(path)
    return from === ours || ours.endsWith(from) || from.startsWith('env.') ? ours : `${from} (${ours} here)`
  }

  private keysOf(path: Path): string[] {
    const prefix = path.length > 0 ? `${formatPath(path).replace(/\[\d+\]/g, '[]')}.` : ''
    const below = this.contract.knobs.filter((knob) => knob.path.startsWith(prefix))
    return [...new Set(below.map((knob) => knob.path.slice(prefix.length).split(/[.[]/)[0]))]
  }

  private file(finding: Finding, source: Source): void {
    const place = source.place(finding.at, finding.what)
    const at = { path: formatPath(finding.at), line: place?.line ?? null, column: place?.column ?? null }
    if (finding.kind)
      this.notes.push({ kind: finding.kind, warning: finding.warning ?? false, sentence: finding.sentence, ...at })
    else this.problems.push({ sentence: finding.sentence, ...at })
  }

  private problem(path: Path, what: 'key' | 'value', sentence: string): void {
    const { path: at, source } = this.origin(path)
    this.file({ at, what, sentence }, source)
  }

  private note(path: Path, kind: NoteKind, sentence: string, warning: boolean): void {
    const { path: at, source } = this.origin(path)
    this.file({ at, what: 'key', kind, sentence, warning }, source)
  }
}

// Dates, infinities and the like cannot go into a link, a JSON file or another language.
function misfits(value: unknown, path: Path): Finding[] {
  if (Array.isArray(value)) return value.flatMap((entry, i) => misfits(entry, [...path, i]))
  if (isTable(value))
    return Object.entries(value).flatMap(([key, entry]) => [...badName(path, key), ...misfits(entry, [...path, key])])
  const name = formatPath(path)
  if (value instanceof Date)
    return [{ at: path, what: 'value', sentence: `${name} is a date; write it as a text in quotes.` }]
  if (typeof value === 'number' && !Number.isFinite(value)) {
    return [
      { at: path, what: 'value', sentence: `${name} is ${value}, which is not finite; leave it out or give a number.` },
    ]
  }
  return []
}

// JavaScript gives this one name a meaning of its own, and libraries drop it.
function badName(path: Path, key: string): Finding[] {
  if (key !== '__proto__') return []
  return [{ at: [...path, key], what: 'key', sentence: `${key} cannot be the name of a key; choose another.` }]
}
