// The one door into the program for the config of a run: TOML, JSON or an object -> { config, notes }, or problems that say
// in a sentence what is wrong, at which dotted path, line and column. Links come in by link.ts, other jobs by jobs.ts.
// Starts nothing, reads no file.

import { adviseRun } from './advice.ts'
import { checkArguments } from './arguments.ts'
import { checkRun } from './checks.ts'
import { RUN_VOCABULARY } from './dialects.ts'
import { JOB_NAMES, jobOf } from './job.ts'
import { type Contract, type Loaded, type LoadOptions, loadAs, open, type Refused } from './loading.ts'
import { formatPath, getAt, isTable, type Table } from './path.ts'
import { knobs, type RunConfig, runConfig } from './schema.ts'

export type { Loaded, LoadOptions, Refused } from './loading.ts'
export type { Note, NoteKind, Problem } from './report.ts'

/** Loads a config of `type` rl or sft; a config of another job is a problem (jobs.ts loads them all). */
export function load(input: string | Table, options: LoadOptions = {}): Loaded<RunConfig> | Refused {
  const opened = open(input, options.format)
  if ('problems' in opened) return opened
  const job = jobOf(opened.value)
  if (job === 'rl' || job === 'sft') return loadAs(RUN, input, options)
  const sentence = `This file describes ${JOB_NAMES[job]}, not a training run; a run has [[env]], max_steps and type = "rl".`
  return { problems: [{ sentence, path: '', line: null, column: null }] }
}

const RATIO_MASKS = /^trainer\.loss\.(ratio_type|(token|geo|sequence)_(mask|clip)_\w+|teacher_tau)$/

const LORA_TABLE = /^(trainer\.)?model\.lora\b/

const RUN: Contract<RunConfig> = {
  schema: runConfig,
  knobs: knobs(),
  vocabulary: RUN_VOCABULARY,
  check: (config, given) => [
    ...checkRun(config, given),
    ...adviseRun(config, given),
    ...checkArguments(config.env.map((value, i) => ({ id: ['env', i, 'id'], args: ['env', i, 'args'], value }))),
    ...checkArguments(
      config.eval.env.map((value, i) => ({ id: ['eval', 'env', i, 'id'], args: ['eval', 'env', i, 'args'], value })),
    ),
  ],
  defaults(dialects, file) {
    const nested = isTable(file.trainer) || isTable(file.orchestrator)
    return [...dialects].filter((dialect) => dialect.defaults && (dialect.name !== 'prime-rl' || nested))
  },
  settle({ draft, origins, findings }, file) {
    if (draft.type === undefined && jobOf(file) === 'sft') draft.type = 'sft'
    const masks = [...origins.values()].find((path) => RATIO_MASKS.test(formatPath(path)))
    if (masks && [undefined, 'default'].includes(getAt(draft, ['loss', 'type']) as string | undefined)) {
      Object.assign(draft.loss as Table, { type: 'ratio_mask' })
      const sentence =
        '[trainer.loss] with ratio masks is prime-rl\'s loss of 2026-01, so loss.type = "ratio_mask" here.'
      findings.push({ at: masks, what: 'key', kind: 'alias', sentence })
    }
    // A file of prime-rl, of either program: `sft` has its tables at the root.
    const supervised = isTable(file.data) && isTable(file.optim)
    const nested = supervised || isTable(file.orchestrator) || (isTable(file.trainer) && !isTable(file.trainer.args))
    if (!nested || getAt(draft, ['lora', 'enabled']) !== undefined) return
    const fromLora = [...origins.values()].find((path) => LORA_TABLE.test(formatPath(path)))
    if (!isTable(draft.lora)) draft.lora = {}
    Object.assign(draft.lora as Table, { enabled: fromLora !== undefined || origins.has('lora.r') })
    if (getAt(draft, ['lora', 'enabled']) === false) {
      findings.push({
        at: [supervised ? 'data' : isTable(file.trainer) ? 'trainer' : 'orchestrator'],
        what: 'key',
        kind: 'default',
        sentence: `Without [${supervised ? '' : 'trainer.'}model.lora] prime-rl trains every weight, so lora.enabled = false; add that table to train adapters.`,
        warning: true,
      })
    }
  },
}
