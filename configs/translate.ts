// From a config as written, in any dialect, to the keys of RunConfig: renames, moves what stands in the wrong table, keeps
// what only full-size runs use, and finds keys that nobody knows. Types, ranges and defaults are the schema's business.

import { Assignments } from './assignments.ts'
import type { Dialect, Outcome } from './dialects/dialect.ts'
import type { Knob } from './knob.ts'
import { nearest } from './nearest.ts'
import { formatPath, isTable, type Path, parsePath, type Table } from './path.ts'
import type { Finding } from './report.ts'
import { indexed, patternOf, type Vocabulary } from './vocabulary.ts'

export interface Translation {
  draft: Table
  /** From a path of the draft to the path in the file that set it. */
  origins: Map<string, Path>
  findings: Finding[]
  problems: Finding[]
  dialects: Set<Dialect>
}

/** A root key of one of these names may mean another thing where it stands, so it is never taken for a misplaced one. */
const GENERIC = ['name', 'type', 'id', 'args', 'interval', 'path', 'dir']

export function translate(file: Table, knobs: readonly Knob[], vocabulary: Vocabulary): Translation {
  return new Translator(knobs, vocabulary).run(file)
}

class Translator {
  private readonly own: Map<string, Knob>
  private readonly patterns: string[]
  private readonly assignments: Assignments
  private readonly later: { source: Path; value: unknown }[] = []
  private readonly findings: Finding[] = []
  private readonly problems: Finding[] = []
  private readonly dialects = new Set<Dialect>()

  constructor(
    knobs: readonly Knob[],
    private readonly words: Vocabulary,
  ) {
    this.own = new Map(knobs.map((knob) => [knob.path, knob]))
    this.assignments = new Assignments(this.own)
    this.patterns = [...this.own.keys(), ...words.patterns()]
  }

  run(file: Table): Translation {
    for (const [key, value] of Object.entries(file)) this.visit([key], value)
    const first = this.assignments.settle()
    for (const { source, value } of this.later) {
      const rule = this.words.late(patternOf(this.lateReading(source)))
      if (rule) this.apply(rule.late(value, first.draft), source, rule.dialect)
    }
    const { draft, origins, conflicts, givenWay } = this.assignments.settle()
    return {
      draft,
      origins,
      findings: [...this.findings, ...givenWay],
      problems: [...this.problems, ...conflicts],
      dialects: this.dialects,
    }
  }

  private visit(path: Path, value: unknown): void {
    const isList = Array.isArray(value) && value.some(isTable)
    if (!isList && !isTable(value)) this.scalar(path, value)
    else if (isTable(value) && Object.keys(value).length === 0) this.emptyTable(path, value)
    else if (!this.whole(path, value)) {
      const below = this.words.readings(path).some((reading) => this.hasBelow(patternOf(reading.path), isList))
      const opens = below || (isTable(value) && this.words.opens(path))
      if (opens) {
        for (const [key, entry] of Object.entries(value)) this.visit([...path, isList ? Number(key) : key], entry)
      } else if (this.words.isRemote(path)) this.keep(path, value)
      else if (this.ownTable(patternOf(path))) this.set(path, path, value)
      else if (!this.misplaced(path, value)) this.unknown(path)
    }
  }

  /** A table, or a list of tables, that is one value to somebody. */
  private whole(path: Path, value: unknown): boolean {
    for (const reading of this.words.readings(path)) {
      const pattern = patternOf(reading.path)
      const rule = this.words.table(pattern)
      if (rule) {
        this.apply(
          rule.convert(value, (to) => indexed(to, path)),
          path,
          rule.dialect,
          rule.echo,
        )
        return true
      }
      const knob = this.own.get(pattern)
      if (knob && (knob.type === 'table' || knob.type === 'list') && !this.hasBelow(pattern, knob.type === 'list')) {
        this.set(path, reading.path, value, reading.dialect)
        return true
      }
    }
    return false
  }

  private emptyTable(path: Path, value: Table): void {
    for (const reading of this.words.readings(path)) {
      const rule = this.words.empty(patternOf(reading.path))
      if (rule) {
        this.apply(rule.outcome, path, rule.dialect)
        return
      }
    }
    if (this.whole(path, value)) return
    const known = this.words.readings(path).some((reading) => this.hasBelow(patternOf(reading.path), false))
    if (!known && !this.words.opens(path)) this.unknown(path)
  }

  private scalar(path: Path, value: unknown): void {
    if (this.resolve(path, value)) return
    if (this.words.isRemote(path)) {
      this.keep(path, value)
      return
    }
    // A scalar where a table or list is expected: the schema says so better.
    if (this.ownTable(patternOf(path))) this.set(path, path, value)
    else if (!this.misplaced(path, value)) this.unknown(path)
  }

  private resolve(path: Path, value: unknown, source = path): boolean {
    for (const reading of this.words.readings(path)) {
      const pattern = patternOf(reading.path)
      const rule = this.words.scalar(pattern)
      if (rule) {
        this.apply(
          rule.convert(value, (to) => indexed(to, path)),
          source,
          rule.dialect,
          rule.echo,
        )
        return true
      }
      if (this.words.late(pattern)) {
        this.later.push({ source, value })
        return true
      }
      if (this.own.has(pattern) && !this.hasBelow(pattern, false)) {
        this.set(source, reading.path, value, reading.dialect)
        return true
      }
    }
    return false
  }

  // A root key after a [table] belongs to that table in TOML, which its author often did not mean; and a key that only
  // one table has can be meant for that table alone.
  private misplaced(path: Path, value: unknown): boolean {
    const key = path[path.length - 1]
    if (typeof key !== 'string' || GENERIC.includes(key)) return false
    const before = this.findings.length
    if (
      path.length > 1 &&
      (this.resolve([key], value, path) || (this.words.isRemote([key]) && this.keep([key], value, path)))
    ) {
      const said = this.findings.splice(before)
      const where = `${key} is no key of [${formatPath(path.slice(0, -1))}]`
      this.note(path, 'moved', `${where}; it is read as if it stood before the first [table].`)
      this.findings.push(...said.filter((finding) => !finding.sentence.endsWith(' here.')))
      return true
    }
    const homes = [...this.own.keys()].filter((own) => own.endsWith(`.${key}`) && !own.includes('[]'))
    if (homes.length !== 1) return false
    this.set(path, parsePath(homes[0]) ?? [], value)
    this.note(path, 'moved', `${formatPath(path)} is read as ${homes[0]}, the one table that has this key.`)
    return true
  }

  private lateReading(source: Path): Path {
    const found = this.words.readings(source).find((reading) => this.words.late(patternOf(reading.path)))
    return found?.path ?? source.slice(-1)
  }

  private apply(outcome: Outcome, source: Path, dialect: Dialect, echo = false): void {
    if (outcome.problem) {
      this.problem(source, `${formatPath(source)}: ${outcome.problem}.`)
      return
    }
    const name = formatPath(source)
    for (const [target, value] of Object.entries(outcome.set ?? {})) {
      this.assignments.add({ target, value, source, weak: echo })
    }
    for (const [target, value] of Object.entries(outcome.unless ?? {})) {
      this.assignments.add({ target, value, source, weak: true })
    }
    const targets = Object.keys(outcome.set ?? {}).concat(Object.keys(outcome.unless ?? {}))
    const others = targets.filter((target) => target !== name)
    if (others.length > 0 || outcome.note) this.dialects.add(dialect)
    if (outcome.note) this.note(source, 'alias', `${outcome.note}.`, outcome.warning)
    else if (others.length > 0 && others.every((target) => target.startsWith('remote.'))) {
      this.note(source, 'remote', `${name} is used only remotely.`)
    } else if (others.length > 0 && !others.includes(name) && !targets.includes(name)) {
      this.note(source, 'alias', `${name} is ${others.filter((to) => !to.startsWith('remote.')).join(' and ')} here.`)
    }
  }

  private set(source: Path, target: Path, value: unknown, dialect: Dialect | null = null): void {
    const [from, to] = [formatPath(source), formatPath(target)]
    this.assignments.add({ target: to, value, source, weak: false })
    if (!dialect || from === to) return
    this.dialects.add(dialect)
    // [env] for [[env]] needs no note on every key below it.
    if (from !== to.replace('[0]', '')) this.note(source, 'alias', `${from} is ${to} here.`)
  }

  /** Waits below `remote`, or beside its environment, for a full-size run. */
  private keep(path: Path, value: unknown, source = path): true {
    const pattern = patternOf(path)
    const list = /^orchestrator\.(train\.source|env)\[\]\.|^orchestrator\.eval\.(source|env)\[\]\./.exec(pattern)
    const index = path.findIndex((part) => typeof part === 'number')
    const home = pattern.startsWith('orchestrator.eval.') ? ['eval', 'env'] : ['env']
    const target = list ? [...home, path[index], 'remote', ...path.slice(index + 1)] : ['remote', 'prime_rl', ...path]
    this.assignments.add({ target: formatPath(target), value, source, weak: false })
    this.note(source, 'remote', `${formatPath(source)} is used only remotely.`)
    return true
  }

  private unknown(path: Path): void {
    const pattern = patternOf(path)
    const parent = patternOf(path.slice(0, -1))
    const key = String(path[path.length - 1])
    const siblings = this.keysBelow(this.words.readings(path).map((reading) => patternOf(reading.path.slice(0, -1))))
    const near = nearest(key, siblings)
    const suffixes = [...this.own.keys()].filter((own) => !own.includes('[]'))
    const elsewhere = nearest(pattern, suffixes) ?? suffixes.find((own) => nearest(key, [own.split('.').pop() ?? '']))
    const inTable = parent ? ` in [${parent}]` : ''
    const hint = near
      ? `; did you mean ${near}?`
      : elsewhere
        ? `; did you mean ${elsewhere}?`
        : siblings.length <= 12
          ? `; the keys here are ${siblings.join(', ')}.`
          : '; see docs/config.md for every key.'
    this.problem(path, `Unknown key ${key}${inTable}${hint}`)
  }

  private keysBelow(parents: string[]): string[] {
    const found = new Set<string>()
    for (const parent of parents) {
      const prefix = parent ? `${parent}.` : ''
      for (const pattern of this.patterns) {
        if (pattern.startsWith(prefix)) found.add(pattern.slice(prefix.length).split(/[.[]/)[0])
      }
    }
    return [...found]
  }

  private hasBelow(pattern: string, isList: boolean): boolean {
    const prefix = isList ? `${pattern}[]` : `${pattern}.`
    return this.patterns.some((known) => known.startsWith(prefix) && known.length > prefix.length)
  }

  private ownTable(pattern: string): boolean {
    return [...this.own.keys()].some((own) => own === pattern || own.startsWith(`${pattern}.`))
  }

  private note(at: Path, kind: Finding['kind'], sentence: string, warning = false): void {
    this.findings.push({ at, what: 'key', kind, sentence, warning })
  }

  private problem(at: Path, sentence: string): void {
    this.problems.push({ at, what: 'key', sentence })
  }
}
