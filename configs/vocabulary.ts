// Looks names up in a set of dialects: which rule reads a path, how else a path may begin, what prime-rl's key lists know.
// What becomes of a rule is translate.ts.

import type { Convert, Dialect, Late, Outcome } from './dialects/dialect.ts'
import { formatPath, type Path, parsePath } from './path.ts'

export interface Rule {
  dialect: Dialect
  convert: Convert
  /** Gives way to the knob's own name. */
  echo: boolean
}

export interface Reading {
  path: Path
  /** null for the path as it stands. */
  dialect: Dialect | null
}

/** `['env', 3, 'id']` → `env[].id`. */
export function patternOf(path: Path): string {
  return formatPath(path).replace(/\[\d+\]/g, '[]')
}

/** Carries the indices of a path on to a pattern. */
export function indexed(pattern: string, path: Path): string {
  const indices = path.filter((part) => typeof part === 'number')
  return pattern.replace(/\[\]/g, () => `[${indices.shift() ?? 0}]`)
}

const rename =
  (target: string): Convert =>
  (value, to) => ({ set: { [to(target)]: value } })

export class Vocabulary {
  private readonly scalars = new Map<string, Rule>()
  private readonly tables = new Map<string, Rule>()
  private readonly lates = new Map<string, { dialect: Dialect; late: Late }>()
  private readonly empties = new Map<string, { dialect: Dialect; outcome: Outcome }>()
  private readonly prefixes: { from: Path; to: Path; dialect: Dialect }[] = []
  /** From pattern to whether anything may stand below it. */
  private readonly remote = new Map<string, boolean>()

  /** `keyLists`: what full-size runs know besides, in the form of dialects/prime-rl-2026-08.ts. */
  constructor(dialects: readonly Dialect[], keyLists: readonly string[] = []) {
    for (const dialect of dialects) this.add(dialect)
    this.prefixes.sort((a, b) => b.from.length - a.from.length)
    for (const list of keyLists) for (const line of list.trim().split('\n')) this.addKeys(line)
  }

  scalar = (pattern: string) => this.scalars.get(pattern)
  table = (pattern: string) => this.tables.get(pattern)
  late = (pattern: string) => this.lates.get(pattern)
  empty = (pattern: string) => this.empties.get(pattern)

  /** The path itself, then every reading of it under another beginning, longest beginning first. */
  readings(path: Path): Reading[] {
    const found: Reading[] = [{ path, dialect: null }]
    for (const { from, to, dialect } of this.prefixes) {
      // [env] stands for the first of [[env]], so it takes no index of its own.
      const single = typeof to[to.length - 1] === 'number'
      const least = single ? from.length : from.length + 1
      const begins = path.length >= least && from.every((part, i) => part === path[i])
      const rest = path.slice(from.length)
      if (begins && !(single && typeof rest[0] === 'number')) found.push({ path: [...to, ...rest], dialect })
    }
    return found
  }

  /** Whether some other beginning lies at or below this path. */
  opens(path: Path): boolean {
    return this.prefixes.some(({ from }) => path.every((part, i) => part === from[i]))
  }

  /** Whether only full-size runs know this path. */
  isRemote(path: Path): boolean {
    for (let length = path.length; length > 0; length--) {
      const open = this.remote.get(patternOf(path.slice(0, length)))
      if (open !== undefined) return open || length === path.length
    }
    return false
  }

  patterns(): string[] {
    const maps = [this.scalars, this.lates, this.tables, this.empties, this.remote]
    return maps.flatMap((map) => [...map.keys()])
  }

  private add(dialect: Dialect): void {
    const rule = (convert: Convert, echo = false): Rule => ({ dialect, convert, echo })
    const each = <T>(record: Record<string, T> | undefined, add: (from: string, entry: T) => void) => {
      for (const [from, entry] of Object.entries(record ?? {})) add(from, entry)
    }
    each(dialect.renames, (from, to) => this.scalars.set(from, rule(rename(to))))
    each(dialect.echoes, (from, to) => this.scalars.set(from, rule(rename(to), true)))
    each(dialect.converts, (from, convert) => this.scalars.set(from, rule(convert)))
    each(dialect.tables, (from, convert) => this.tables.set(from, rule(convert)))
    each(dialect.late, (from, late) => this.lates.set(from, { dialect, late }))
    each(dialect.empty, (from, outcome) => this.empties.set(from, { dialect, outcome }))
    each(dialect.keeps, (from, to) => {
      this.scalars.set(from, rule(rename(`remote.${to}`)))
      this.tables.set(from, rule(rename(`remote.${to}`)))
    })
    each(dialect.prefixes, (from, to) => {
      this.prefixes.push({ from: parsePath(from) ?? [], to: parsePath(to) ?? [], dialect })
    })
  }

  private addKeys(line: string): void {
    const [table, keys] = line.split(': ')
    const prefix = keys === undefined || table === '(root)' ? '' : `${table}.`
    for (const key of (keys ?? table).split(' ')) {
      if (key) this.remote.set(prefix + key.replace('*', ''), key.endsWith('*'))
    }
  }
}
