// Who sets which knob to what: several keys of a file may speak for one knob. Agreement is fine, a weaker voice gives
// way, and two strong ones that differ are a problem. Knows no key by name.

import { equal } from './difference.ts'
import type { Knob } from './knob.ts'
import { formatPath, type Path, parsePath, setAt, type Table } from './path.ts'
import type { Finding } from './report.ts'

export interface Assignment {
  /** Ours, dotted. */
  target: string
  value: unknown
  /** Where the file says so. */
  source: Path
  /** Gives way to any other value. */
  weak: boolean
}

export interface Settled {
  draft: Table
  /** From a path of the draft to the path in the file that set it. */
  origins: Map<string, Path>
  conflicts: Finding[]
  givenWay: Finding[]
}

export class Assignments {
  private readonly all: Assignment[] = []

  constructor(private readonly knobs: ReadonlyMap<string, Knob>) {}

  add(assignment: Assignment): void {
    this.all.push(assignment)
  }

  settle(): Settled {
    const chosen = new Map<string, Assignment>()
    const conflicts: Finding[] = []
    const givenWay: Finding[] = []
    for (const assignment of this.all.filter(({ weak }) => !weak)) {
      const before = chosen.get(assignment.target)
      if (!before) chosen.set(assignment.target, assignment)
      else if (!equal(before.value, assignment.value)) conflicts.push(conflict(before, assignment))
    }
    for (const assignment of this.all.filter(({ weak }) => weak)) {
      const before = chosen.get(assignment.target)
      if (!before) chosen.set(assignment.target, assignment)
      else if (before.source !== assignment.source && !equal(before.value, assignment.value)) {
        givenWay.push(givesWay(before, assignment))
      }
    }
    return { ...this.write([...chosen.values()]), conflicts, givenWay }
  }

  private write(chosen: Assignment[]): { draft: Table; origins: Map<string, Path> } {
    const draft: Table = {}
    const origins = new Map<string, Path>()
    // Shorter paths first, so that what is set inside a table comes after the table.
    for (const { target, value, source } of chosen.sort((a, b) => a.target.length - b.target.length)) {
      const path = parsePath(target)
      if (!path) throw new Error(`internal: a dialect sets ${target}, which is not a dotted path`)
      setAt(draft, path, this.plain(target, value))
      origins.set(formatPath(path), source)
    }
    return { draft, origins }
  }

  // TOML has no null; prime-rl writes it as the text "None".
  private plain(target: string, value: unknown): unknown {
    const knob = this.knobs.get(target.replace(/\[\d+\]/g, '[]'))
    if (knob?.nullable && typeof value === 'string' && /^(none|null)$/i.test(value)) return null
    return structuredClone(value)
  }
}

function conflict(first: Assignment, second: Assignment): Finding {
  const said = (each: Assignment) => `${formatPath(each.source)} = ${JSON.stringify(each.value)}`
  const sentence = `${first.target} is given twice, as ${said(first)} and as ${said(second)}; keep one of them.`
  return { at: second.source, what: 'key', sentence }
}

function givesWay(kept: Assignment, dropped: Assignment): Finding {
  const sentence = `${formatPath(dropped.source)} gives way to ${formatPath(kept.source)}, which sets ${kept.target} too.`
  return { at: dropped.source, what: 'key', kind: 'alias', sentence, warning: true }
}
