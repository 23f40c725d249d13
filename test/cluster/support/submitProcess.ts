// A server that submits one run through Slurm and is killed at a named moment: `node submitProcess.mjs <json>`.

import type { JobSpec } from '../../../server/engines/engine.ts'
import { FullSizeEngine, type FullSizeOptions } from '../../../server/engines/primeRl/engine.ts'
import { type SlurmOptions, SlurmScheduler } from '../../../server/engines/slurm/scheduler.ts'

export interface SubmitRequest {
  slurm: SlurmOptions
  options: FullSizeOptions
  spec: JobSpec
  key: string
}

const { slurm, options, spec, key } = JSON.parse(process.argv[2]) as SubmitRequest
await new FullSizeEngine(new SlurmScheduler(slurm), options).submit(spec, key)
process.stdout.write('submitted\n')
