// docs/compile.md, written from the tables, the rules, and what became of every example.

import { environments } from '../../environments/index.ts'
import { TARGETS } from '../../server/compile/compile.ts'
import { RULES } from '../../server/compile/rules.ts'
import type { TargetId } from '../../server/compile/target.ts'
import { EXAMPLES } from './examples.ts'
import { type Verdict, verdicts } from './judge.ts'
import { judgementOf } from './judgements.ts'

const ORACLES: Record<TargetId, string> = {
  'prime-rl':
    'skipped: no package registry has `prime-rl-configs`; its folder in a checkout of that commit is judged by with `PRIME_RL_CONFIGS=… npm run test:interop`',
  'prime-rl-2026-01': "skipped: this version's config models are in no package",
  hosted: 'the client `prime` 0.9.0, whose config model refuses unknown keys',
}

const targets = Object.keys(TARGETS) as TargetId[]

export function compileDocument(): string {
  return `${[INTRODUCTION, pins(), examples(), rows(), rules(), cards()].join('\n\n')}\n`
}

const INTRODUCTION = `# Compile

Written by \`npx vitest run test/compile/document.test.ts -u\` from \`server/compile\`; change it there.

\`rollout-lab compile FILE --target prime-rl|prime-rl-2026-01|hosted\` writes a run for a full-size trainer. The config goes to
standard output; what there is to say goes to standard error, each with file, line and column, and the line there.
\`--explain\` prints what becomes of every knob, \`--payload\` the body that Hosted Training is sent. The page does the same
under *Full size*, with both texts side by side, and \`POST /api/compile\` with \`{ text, target }\`.

A knob without a counterpart is **refused** where it changes what is learned (a KL penalty would silently vanish), **warned**
of where the run differs, and **noted** where it is about this device alone. Switched on in every compiled run: checkpoints, the
file monitor and the export of sampled tokens where the version has them. Texts that become a folder, a word of a job script, a
package or a template have to be plain; commands and templates are never taken from a config.

Supervised runs (\`type = "sft"\`) are written for prime-rl's program \`sft\`, where they learn from a data set (\`data.name\`); the
gold answers of environments, and the other targets, are refused. Rules between fields are those of runs with rewards.`

function table(head: string[], lines: string[][]): string {
  const row = (cells: string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`
  return [row(head), row(head.map(() => '---')), ...lines.map(row)].join('\n')
}

function pins(): string {
  const lines = targets.map((id) => [`\`${id}\``, TARGETS[id].title, TARGETS[id].pin, ORACLES[id]])
  return `## Targets\n\n${table(['Target', 'What it is', 'Read from', 'Judged by'], lines)}`
}

function examples(): string {
  const part = (whole: boolean) => {
    const all = verdicts(whole)
    const cell = ({ target, refused, text }: Verdict) =>
      refused ? `refused: ${refused.join(' ')}` : `compiled, ${judgement(target, text ?? '')}`
    const lines = EXAMPLES.map((file) => [
      `\`${file.replace('test/configs/', '')}\``,
      ...all.filter((verdict) => verdict.file === file).map(cell),
    ])
    const count = targets.map((id) => {
      const own = all.filter(({ target }) => target === id)
      const compiled = own.filter(({ text }) => text !== null)
      const accepted = compiled.filter(({ text }) => judgementOf(id, text ?? '') === 'accepted')
      return `- ${id}: ${compiled.length} of ${own.length} compiled, ${accepted.length} of them accepted by an oracle`
    })
    return `${count.join('\n')}\n\n${table(['File', ...targets], lines)}`
  }
  return `## Every recipe and every TOML block of the training guides

As they stand. Refusals give line:column, 1:1 for what a file lacks. Blocks that show one table alone have no environment.

${part(false)}

The same, where a block that leaves them open is given the environment \`primeintellect/reverse-text\`, and \`Qwen/Qwen3-0.6B\` stands in
for a model of this repository.

${part(true)}`
}

function judgement(target: TargetId, text: string): string {
  if (target !== 'hosted') return 'oracle skipped'
  return { accepted: 'accepted', refused: 'refused by the oracle', 'not judged': 'not judged' }[
    judgementOf(target, text)
  ]
}

function rows(): string {
  const of = (id: TargetId, knob: string) => {
    const row = TARGETS[id].rows.find((each) => each.knob === knob)
    if (!row || row.how.startsWith('with ')) return row?.how ?? ''
    return row.to === null ? row.how : `\`${row.to}\`: ${row.how}`
  }
  const lines = TARGETS['prime-rl'].rows.map(({ knob }) => [`\`${knob}\``, ...targets.map((id) => of(id, knob))])
  return `## Knob by knob\n\n${table(['Knob', ...targets], lines)}`
}

function rules(): string {
  const lines = RULES.map(({ id, targets: where, source, example }) => [
    id,
    where.map((target) => `\`${target}\``).join(', '),
    `\`${source}\``,
    `\`${JSON.stringify(example)}\``,
  ])
  return `## Rules between fields

What the targets check beyond types and ranges. The source is a file of the target and the validator in it
(\`prime-rl-configs\` is \`packages/prime-rl-configs/src/prime_rl\`). The validators were read in public versions of those files
from the months of the pins; the pinned commits themselves are not to be had whole, so line numbers are not given. The example
breaks the rule; those of \`hosted\` are refused by its client too.

${table(['Rule', 'Targets', 'Source', 'An example that breaks it'], lines)}`
}

function cards(): string {
  const lines = environments.map(({ id, python }) => [
    `\`${id}\``,
    python ? `\`${python.id}\` ${python.version}` : 'none: refused',
    python ? python.differences.join(' ') : 'It runs here alone until it is packed for verifiers.',
  ])
  return `## Environments at full size

They run on the cluster, never in the page or on the server. Ids of the Environments Hub pass as they are.

${table(['Here', 'In Python', 'What differs'], lines)}`
}
