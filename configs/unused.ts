// Which of the knobs that a file sets do nothing here, so that none is silently ignored.

import type { Check } from './checks.ts'
import type { Knob } from './knob.ts'
import { formatPath, getAt, isTable, type Path, type Table } from './path.ts'
import { patternOf } from './vocabulary.ts'

/** One note for each; tables of which nothing is used here get one for the table. */
export function unusedHere(config: unknown, draft: Table, knobs: readonly Knob[]): Check[] {
  const found: Check[] = []
  const known = new Map(knobs.map((knob) => [knob.path, knob]))
  const visit = (path: Path, value: unknown): void => {
    const knob = known.get(patternOf(path))
    if (path[0] === 'remote') return
    if (knob && knob.used !== 'browser') {
      if (!isDefault(getAt(config, path), knob)) found.push(toCheck(path, knob))
      return
    }
    if (knob && typeof value === 'string' && knob.notYet.includes(value)) found.push(toCheck(path, knob, value))
    if (isTable(value)) for (const [key, entry] of Object.entries(value)) visit([...path, key], entry)
    else if (Array.isArray(value)) for (const [i, entry] of value.entries()) visit([...path, i], entry)
  }
  visit([], draft)
  return byTable(found)
}

function isDefault(value: unknown, knob: Knob): boolean {
  return JSON.stringify(value) === JSON.stringify(knob.default)
}

function toCheck(path: Path, knob: Knob, choice?: string): Check {
  const name = formatPath(path) + (choice === undefined ? '' : ` = "${choice}"`)
  return knob.used === 'remote'
    ? { path: formatPath(path), kind: 'remote', sentence: `${name} is used only remotely.` }
    : {
        path: formatPath(path),
        kind: 'not yet',
        sentence: `${name} is not used here yet${knob.instead ? `: ${knob.instead}` : ''}.`,
        warning: true,
      }
}

// [wandb] with three keys says one thing, not three.
function byTable(checks: Check[]): Check[] {
  const told = new Set<string>()
  return checks.flatMap((check) => {
    const table = check.path.split('.')[0]
    if (!['wandb', 'adapters', 'data'].includes(table)) return [check]
    if (told.has(table)) return []
    told.add(table)
    return [{ ...check, path: table, sentence: check.sentence.replace(check.path, `[${table}]`) }]
  })
}
