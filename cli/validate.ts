// rollout-lab validate FILE: says what is wrong with a config, or what it resolves to. Starts nothing.

import { readFile } from 'node:fs/promises'
import { Command } from 'commander'
import { type LoadedJob, loadJob } from '../configs/jobs.ts'
import { lineOf } from '../configs/report.ts'
import { toToml } from '../configs/write.ts'
import type { Context } from './verb.ts'

export interface ValidateRequest {
  file: string
  /** Print the resolved config, and nothing else, as JSON. */
  json?: boolean
  /** `a.b=c`, put over the file. */
  set?: string[]
  write(text: string): void
  /** Throws where the file cannot be read. */
  read?(file: string): Promise<string>
}

/** Resolves to the exit code: 0 for a config that loads, 1 otherwise. */
export async function validate(request: ValidateRequest): Promise<number> {
  const { file, json = false, write, read = (path) => readFile(path, 'utf8') } = request
  let text: string
  try {
    text = await read(file)
  } catch (error) {
    write(`${file} cannot be read: ${(error as Error).message}\n`)
    return 1
  }
  const loaded = loadJob(text, { format: file.endsWith('.json') ? 'json' : undefined, set: request.set })
  if (loaded.problems) {
    for (const problem of loaded.problems) write(`${lineOf(problem, file)}\n`)
    const count = loaded.problems.length
    write(`${count} ${count === 1 ? 'problem' : 'problems'}.\n`)
    return 1
  }
  if (json) {
    write(`${JSON.stringify(resolved(loaded), null, 2)}\n`)
    return 0
  }
  for (const note of loaded.notes) write(`${lineOf(note, file)} [${note.kind}]\n`)
  write(summary(loaded, file))
  return 0
}

export function command(context: Context): Command {
  return new Command('validate')
    .argument('<file>', 'a config in TOML or JSON: a run, an evaluation, a GEPA search or endpoints')
    .option('--json', 'print the resolved config as JSON')
    .option('--set <path=value...>', 'put a value over the file')
    .action(async (file: string, { json, set }: { json?: boolean; set?: string[] }) => {
      context.exitCode = await validate({ file, json, set, write: (text) => process.stdout.write(text) })
    })
}

function resolved(loaded: LoadedJob): unknown {
  return loaded.job === 'endpoints' ? Object.fromEntries(loaded.config) : loaded.config
}

function summary(loaded: LoadedJob, file: string): string {
  switch (loaded.job) {
    case 'rl':
    case 'sft':
      return `${file} is right. It says, beyond the defaults:\n\n${toToml(loaded.config)}`
    case 'endpoints':
      return `${file} is right: ${loaded.config.size} endpoints.\n`
    default:
      return `${file} is right. --json prints all of it.\n`
  }
}
