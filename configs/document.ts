// docs/config.md, written from the schema: a table of every knob. The test compares the file with this text.

import { GROUPS, type Knob } from './knob.ts'
import { evalKnobs } from './schema/evaluation.ts'
import { gepaKnobs } from './schema/gepa.ts'
import { knobs } from './schema.ts'
import { numberText } from './sentences.ts'

export function configDocument(): string {
  const sections = GROUPS.map((group) => {
    const members = knobs().filter((knob) => knob.group === group)
    return `## ${group}\n\n${table(members)}`
  })
  return `${[
    INTRODUCTION,
    ...sections,
    `## Evaluations\n\nA file with \`[[eval]]\` (or \`type = "eval"\`) puts environments to a model without learning.\n\n${table(evalKnobs)}`,
    `## Prompt optimisation\n\nA file with \`type = "gepa"\` (or GEPA's own keys) looks for a better system prompt.\n\n${table(gepaKnobs)}`,
  ].join('\n\n')}\n`
}

const INTRODUCTION = `# Config

Written by \`npx vitest run test/configs/document.test.ts -u\` from \`configs/schema\`; change it there.

One TOML describes a run in a tab, in Node and at full size. Keys that other programs use for the same thing (Hosted
Training, prime-rl of 2026-01 and 2026-08, vf-rl, the GRPO trainers before it) are taken too and noted: see
\`configs/dialects/\`. An unknown key is an error that names the nearest known one. \`rollout-lab validate FILE\` says what is
wrong, with line and column; \`--json\` prints everything that a file resolves to. Where a knob may be empty, leave it out
or write \`"None"\`.

**Used**: *here*, a tab and Node obey it; *remote*, only full-size runs do; *not yet*, it is kept, checked and noted.`

function table(members: readonly Knob[]): string {
  const rows = members.map((knob) => {
    const cells = [`\`${knob.path}\``, kind(knob), standard(knob), used(knob), knob.help]
    return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  })
  return ['| Key | Type | Default | Used | What it does |', '| --- | --- | --- | --- | --- |', ...rows].join('\n')
}

function kind(knob: Knob): string {
  if (knob.choices) return knob.choices.join(', ')
  const range = [
    knob.minimum !== null && `${knob.exclusiveMinimum ? '>' : '≥'} ${numberText(knob.minimum)}`,
    knob.maximum !== null && `${knob.exclusiveMaximum ? '<' : '≤'} ${numberText(knob.maximum)}`,
  ].filter(Boolean)
  return [knob.type, knob.unit, ...range].filter(Boolean).join(', ')
}

function standard(knob: Knob): string {
  if (knob.required) return 'required'
  if (knob.default === undefined || knob.default === null) return '(empty)'
  const isPlain = typeof knob.default === 'number'
  return `\`${isPlain ? numberText(knob.default as number) : JSON.stringify(knob.default)}\``
}

function used(knob: Knob): string {
  if (knob.notYet.length > 0) return `here, except ${knob.notYet.join(', ')}`
  return knob.used === 'browser' ? 'here' : knob.used
}
