// Loads a file of any job: the file says which, or its keys do.

import { checkArguments } from './arguments.ts'
import { EVAL, GEPA } from './dialects/other-jobs.ts'
import { type Endpoint, loadEndpoints } from './endpoints.ts'
import { jobOf } from './job.ts'
import { load } from './load.ts'
import { type Contract, type Loaded, type LoadOptions, loadAs, open, type Refused } from './loading.ts'
import type { Table } from './path.ts'
import { type EvalConfig, evalConfig, evalKnobs } from './schema/evaluation.ts'
import { type GepaConfig, gepaConfig, gepaKnobs } from './schema/gepa.ts'
import type { RunConfig } from './schema.ts'
import { Vocabulary } from './vocabulary.ts'

export type LoadedJob =
  | ({ job: 'rl' | 'sft' } & Loaded<RunConfig>)
  | ({ job: 'eval' } & Loaded<EvalConfig>)
  | ({ job: 'gepa' } & Loaded<GepaConfig>)
  | ({ job: 'endpoints' } & Loaded<Map<string, Endpoint[]>>)

export function loadJob(input: string | Table, options: LoadOptions = {}): LoadedJob | Refused {
  const opened = open(input, options.format)
  if ('problems' in opened) return opened
  const job = jobOf(opened.value)
  switch (job) {
    case 'gepa':
      return named(job, loadAs(GEPA_CONTRACT, input, options))
    case 'eval':
      return named(job, loadAs(EVAL_CONTRACT, input, options))
    case 'endpoints':
      return named(job, loadEndpoints(input))
    default:
      return named(job, load(input, options))
  }
}

function named<Job extends string, Config>(job: Job, loaded: Loaded<Config> | Refused) {
  return loaded.problems ? loaded : { job, ...loaded }
}

const GEPA_CONTRACT: Contract<GepaConfig> = {
  schema: gepaConfig,
  knobs: gepaKnobs,
  vocabulary: new Vocabulary([GEPA]),
  check: ({ env_id: id, env_args: args }) =>
    checkArguments([{ id: ['env_id'], args: ['env_args'], value: { id, args } }]),
  defaults: () => [],
}

const EVAL_CONTRACT: Contract<EvalConfig> = {
  schema: evalConfig,
  knobs: evalKnobs,
  vocabulary: new Vocabulary([EVAL]),
  check: (config) => [
    ...(config.eval.length + config.ablation.length > 0
      ? []
      : [
          { path: 'eval', sentence: 'Nothing is to be evaluated; add [[eval]] with id = "reverse-text", for example.' },
        ]),
    ...(['eval', 'ablation'] as const).flatMap((list) =>
      checkArguments(config[list].map((value, i) => ({ id: [list, i, 'id'], args: [list, i, 'args'], value }))),
    ),
  ],
  defaults: () => [],
}
