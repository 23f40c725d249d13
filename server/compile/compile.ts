// RunConfig -> the config of a full-size trainer, row by row of its table; then what a table cannot see: keys that the
// version does not know, rules between fields, texts that would become more than data. Starts nothing, reads no file.

import { load } from '../../configs/load.ts'
import { formatPath, getAt, isTable, type Path, parsePath, setAt, type Table } from '../../configs/path.ts'
import type { Note } from '../../configs/report.ts'
import type { RunConfig } from '../../configs/schema.ts'
import { readSource } from '../../configs/source.ts'
import { patternOf, Vocabulary } from '../../configs/vocabulary.ts'
import { tableToToml } from '../../configs/write.ts'
import { HOSTED } from './hosted.ts'
import { originsOf } from './origins.ts'
import { PRIME_RL_JANUARY } from './prime-rl-2026-01.ts'
import { PRIME_RL } from './prime-rl-2026-08.ts'
import { brokenRules } from './rules.ts'
import { unsafeTexts } from './safety.ts'
import type { Act, Outcome, Target, TargetId } from './target.ts'

export const TARGETS: Record<TargetId, Target> = {
  'prime-rl': PRIME_RL,
  'prime-rl-2026-01': PRIME_RL_JANUARY,
  hosted: HOSTED,
}

/** What there is to say about a knob on its way, before lines are known. */
export interface Finding {
  act: Act
  sentence: string
  /** Ours, dotted; '' for the config as a whole. */
  knob: string
  /** Theirs, dotted; null for what is not written. */
  to: string | null
  /** Paths of ours that come back otherwise, or not at all. */
  lost: string[]
}

export interface Draft {
  /** In the target's words. */
  table: Table
  findings: Finding[]
}

export interface CompileNote {
  act: Act
  sentence: string
  /** As the file writes it; '' where the file says nothing of the kind. */
  path: string
  /** In the file, counted from 1. What a file lacks is said at 1:1. */
  line: number
  column: number
  /** In the compiled text. */
  to: string | null
  toLine: number | null
}

export interface Compiled {
  target: TargetId
  title: string
  pin: string
  text: string
  notes: CompileNote[]
  /** What reading the file had to say. */
  loading: Note[]
  problems?: undefined
}

export interface Refused {
  target: TargetId
  title: string
  pin: string
  problems: CompileNote[]
  text?: undefined
}

/** A file in any dialect, compiled; or why not, at its line and column. */
export function compile(input: string, id: TargetId, set: readonly string[] = []): Compiled | Refused {
  const target = TARGETS[id]
  const head = { target: id, title: target.title, pin: target.pin }
  const loaded = load(input, { set })
  if (loaded.problems) {
    const problems = loaded.problems.map(({ sentence, path, line, column }) => ({
      ...{ act: 'refuse' as const, sentence, path, line: line ?? 1, column: column ?? 1 },
      ...{ to: null, toLine: null },
    }))
    return { ...head, problems }
  }
  const { table, findings } = compileConfig(loaded.config, id)
  const { title, pin } = tableFor(loaded.config, id)
  const origin = originsOf(input)
  const text = tableToToml(table, `${title} (${pin}), compiled by rollout-lab.`)
  const written = readSource(text, 'toml')
  const told = findings.filter(({ sentence }) => sentence !== '')
  const placed = told.map(({ act, sentence, knob, to }): CompileNote => {
    const from = origin(knob)
    const there = to === null ? null : written.place(parsePath(to) ?? [], 'key')
    return {
      ...{ act, sentence, path: from?.path ?? '', line: from?.place.line ?? 1, column: from?.place.column ?? 1 },
      ...{ to, toLine: there?.line ?? null },
    }
  })
  const inOrder = placed.sort((a, b) => a.line - b.line || a.column - b.column)
  const problems = inOrder.filter(({ act }) => act === 'refuse')
  return problems.length > 0 ? { ...head, problems } : { ...head, text, notes: inOrder, loading: loaded.notes }
}

/** A config that loads, in the target's words; a finding of act `refuse` means that it must not be used. */
export function compileConfig(config: RunConfig, id: TargetId): Draft {
  return new Compiling(config, tableFor(config, id)).run()
}

/** Runs with rewards and supervised ones may be two programs. */
export function tableFor(config: RunConfig, id: TargetId): Target {
  const target = TARGETS[id]
  return (config.type === 'sft' && target.supervised) || target
}

class Compiling {
  private readonly table: Table = {}
  private readonly findings: Finding[] = []
  /** From their path to ours. */
  private readonly from = new Map<string, string>()

  constructor(
    private readonly config: RunConfig,
    private readonly target: Target,
  ) {}

  run(): Draft {
    const { config, target } = this
    for (const row of target.rows) {
      for (const outcome of row.carry(config)) this.apply(outcome, row.knob)
      // The other rows say nothing of a job that is refused whole.
      if (row.knob === 'type' && this.findings.length > 0) return { table: this.table, findings: this.findings }
    }
    for (const outcome of target.always(config)) this.apply(outcome, outcome.at ?? '')
    this.giveBack(target.kept(config), [])
    if (!target.nullIsNone) this.leaveOutNull(this.table, [])
    this.check()
    return { table: this.table, findings: this.findings }
  }

  private apply({ set = {}, act, why, at, also = [] }: Outcome, knob: string): void {
    const written = Object.entries(set).filter(([, value]) => value !== undefined)
    for (const [to, value] of written) this.write(to, value, knob)
    const home = at ?? knob
    if (!act || !why) {
      if (also.length > 0) this.findings.push({ act: 'note', sentence: '', knob: home, to: null, lost: also })
      return
    }
    const lost = [...(home === '' ? [] : [home]), ...also]
    this.findings.push({ act, sentence: why, knob: home, to: written[0]?.[0] ?? null, lost })
  }

  private write(to: string, value: unknown, knob: string): void {
    const path = parsePath(to)
    if (!path) throw new Error(`The table of ${this.target.id} writes ${knob} to ${to}, which is no path.`)
    // An empty table only says that it is there.
    const isThere = isTable(value) && Object.keys(value).length === 0 && isTable(getAt(this.table, path))
    if (!isThere) setAt(this.table, path, structuredClone(value))
    this.from.set(to, knob)
  }

  /** What the file said in the target's own words goes over what the rows say. */
  private giveBack(kept: Table, path: Path): void {
    for (const [key, value] of Object.entries(kept)) {
      const here = [...path, key]
      if (isTable(value) && Object.keys(value).length > 0) this.giveBack(value, here)
      else {
        const name = formatPath(here)
        this.write(
          this.target.keptAs?.[name] ?? name,
          value,
          `remote.${this.target.id === 'hosted' ? 'hosted' : 'prime_rl'}.${name}`,
        )
      }
    }
  }

  private leaveOutNull(value: unknown, path: Path): void {
    if (Array.isArray(value)) for (const [i, entry] of value.entries()) this.leaveOutNull(entry, [...path, i])
    else if (isTable(value)) for (const [key, entry] of Object.entries(value)) this.leaveOutNull(entry, [...path, key])
    else if (value === null) this.refuse(path, 'has no value (null), which this target cannot be told. Leave it out.')
  }

  private check(): void {
    const { keys, id } = this.target
    if (keys) {
      const known = new Vocabulary([], [keys])
      for (const path of leaves(this.table, [])) {
        if (!isKnown(known, path)) this.refuse(path, `is no key of ${this.target.title}.`)
      }
    }
    for (const { path, why } of unsafeTexts(this.table, this.target.nullIsNone)) this.refuse(path, why, ': ')
    // The rules are of the config for runs with rewards.
    const broken = this.target === TARGETS[id] ? brokenRules(this.table, id) : []
    for (const { path, sentence } of broken) {
      const knob = this.origin(parsePath(path) ?? [])
      this.findings.push({ act: 'refuse', sentence, knob, to: path, lost: [knob] })
    }
    for (const path of this.target.nullIsNone ? nullsInData(this.table, []) : []) {
      const knob = this.origin(path)
      const sentence = `${knob} has no value (null) inside; TOML knows none, so it is said as "None".`
      this.findings.push({ act: 'warn', sentence, knob, to: formatPath(path), lost: [knob] })
    }
  }

  private refuse(path: Path, why: string, between = ' '): void {
    const knob = this.origin(path)
    const name = formatPath(path)
    const said = knob === '' || knob.endsWith(name) ? name : `${knob} (${name} there)`
    this.findings.push({ act: 'refuse', sentence: `${said}${between}${why}`, knob, to: name, lost: [knob] })
  }

  /** Our path of theirs: the longest beginning that a row has written, entries of lists told apart. */
  private origin(path: Path): string {
    for (let length = path.length; length > 0; length--) {
      const knob = this.from.get(formatPath(path.slice(0, length)))
      if (knob === undefined) continue
      const [index, ...rest] = path.slice(length)
      if (typeof index !== 'number' || (knob !== 'env' && knob !== 'eval.interval')) return knob
      const key = rest[rest.length - 1]
      const list = knob === 'env' ? 'env' : this.config.eval.env.length > 0 ? 'eval.env' : 'env'
      return `${list}[${index}]${key === 'id' || key === 'name' ? `.${key}` : ''}`
    }
    const below = [...this.from].find(([to]) => to.startsWith(`${formatPath(path)}.`))
    return below ? below[1] : ''
  }
}

function leaves(value: unknown, path: Path): Path[] {
  if (isTable(value) && Object.keys(value).length > 0)
    return Object.entries(value).flatMap(([key, entry]) => leaves(entry, [...path, key]))
  if (Array.isArray(value) && value.some(isTable)) return value.flatMap((entry, i) => leaves(entry, [...path, i]))
  return [path]
}

// A table said as a whole (empty, or none) is known by the keys below it.
function isKnown(known: Vocabulary, path: Path): boolean {
  if (known.isRemote(path)) return true
  const pattern = patternOf(path)
  return known.patterns().some((each) => each.startsWith(`${pattern}.`) || each.startsWith(`${pattern}[`))
}

/** Nulls in what an author may write freely; those of a knob mean what they mean there too. */
const FREE = /\.taskset|\.args|extra_body|\.harness|\.agent|\.sampling\b.*\.|curriculum|serve|kwargs/

function nullsInData(value: unknown, path: Path): Path[] {
  if (Array.isArray(value)) return value.flatMap((entry, i) => nullsInData(entry, [...path, i]))
  if (isTable(value)) return Object.entries(value).flatMap(([key, entry]) => nullsInData(entry, [...path, key]))
  return value === null && FREE.test(formatPath(path)) ? [path] : []
}
