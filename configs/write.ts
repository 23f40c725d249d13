// RunConfig -> TOML that loads to the same config. Says only what differs from the defaults, unless told to say all.

import { stringify } from 'smol-toml'
import { difference, equal, withDifference } from './difference.ts'
import { jobOf } from './job.ts'
import { isTable, type Table } from './path.ts'
import { knobs, type RunConfig, runConfig } from './schema.ts'

/** What a config says beyond the defaults, as a table. */
export function beyondDefaults(config: Table): Table {
  const defaults = runConfig.parse({}) as Table
  const said = difference(defaults, config).filter((delta) => !('gone' in delta))
  const table = withDifference({}, said)
  prune(table.env, 'env[].')
  if (isTable(table.eval)) prune(table.eval.env, 'eval.env[].')
  // Some tables suggest a job of their own; then the type has to be said.
  if (table.type === undefined && jobOf(table) !== config.type) table.type = config.type
  return table
}

// Entries of a list have no default entry to differ from, but their keys have defaults.
function prune(entries: unknown, prefix: string): void {
  const defaults = new Map(knobs().map((knob) => [knob.path, knob.default]))
  for (const entry of Array.isArray(entries) ? entries.filter(isTable) : []) {
    for (const key of Object.keys(entry)) {
      if (equal(entry[key], defaults.get(prefix + key))) delete entry[key]
    }
  }
}

/** Said in a file even where they are the defaults, because a reader looks for them. */
const ALWAYS = ['model', 'seed', 'max_steps', 'batch_size', 'rollouts_per_example', 'learning_rate'] as const

export function toToml(config: RunConfig, options: { all?: boolean; comment?: string } = {}): string {
  const first = Object.fromEntries(ALWAYS.map((key) => [key, config[key]]))
  const table = options.all ? config : { ...first, ...beyondDefaults(config as Table) }
  return tableToToml(table, options.comment)
}

/** Any table as TOML, under a comment. null is written as the text "None". */
export function tableToToml(table: Table, comment?: string): string {
  const lines = comment ? comment.split('\n').map((line) => `# ${line}`.trimEnd()) : []
  return `${[...lines, stringify(withoutNull(table) as Table).trimStart()].join('\n').trimEnd()}\n`
}

// TOML has no null: the text "None" stands for it, as in prime-rl. Keys that are undefined are left out.
function withoutNull(value: unknown): unknown {
  if (value === null) return 'None'
  if (Array.isArray(value)) return value.map(withoutNull)
  if (!isTable(value)) return value
  const entries = Object.entries(value).filter(([, entry]) => entry !== undefined)
  return Object.fromEntries(entries.map(([key, entry]) => [key, withoutNull(entry)]))
}
