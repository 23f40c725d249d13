// rollout-lab compile FILE --target NAME: the same run as the config of a full-size trainer, or why it cannot be one.
// Writes to standard output; starts nothing and installs nothing.

import { readFile } from 'node:fs/promises'
import { Command, Option } from 'commander'
import { type Compiled, type CompileNote, compile, TARGETS } from '../server/compile/compile.ts'
import { explain } from '../server/compile/explain.ts'
import { hostedPayload } from '../server/compile/payload.ts'
import type { TargetId } from '../server/compile/target.ts'
import type { Context } from './verb.ts'

export interface CompileRequest {
  file: string
  target: TargetId
  /** Print the target's table, knob by knob, instead of the config. */
  explain?: boolean
  /** Print the body that Hosted Training is sent, as JSON. */
  payload?: boolean
  /** `a.b=c`, put over the file. */
  set?: string[]
  /** The compiled config. */
  write(text: string): void
  /** What there is to say about it. */
  say(text: string): void
  /** Throws where the file cannot be read. */
  read?(file: string): Promise<string>
}

/** Resolves to the exit code: 0 for a config that was compiled, 1 otherwise. */
export async function runCompile(request: CompileRequest): Promise<number> {
  const { file, target, write, say, read = (path) => readFile(path, 'utf8') } = request
  let text: string
  try {
    text = await read(file)
  } catch (error) {
    say(`${file} cannot be read: ${(error as Error).message}\n`)
    return 1
  }
  const result = compile(text, target, request.set)
  if (result.problems) {
    for (const problem of result.problems) say(`${lineOf(problem, file)}\n`)
    const count = result.problems.length
    say(`${count} ${count === 1 ? 'thing' : 'things'} of this config cannot be done by ${result.title}.\n`)
    return 1
  }
  for (const note of result.notes) say(`${lineOf(note, file)} [${note.act}]\n`)
  write(request.explain ? explain(text, target, request.set) : request.payload ? body(result) : result.text)
  return 0
}

function body(result: Compiled): string {
  return `${JSON.stringify(hostedPayload(result.text), null, 2)}\n`
}

function lineOf({ line, column, sentence, toLine }: CompileNote, file: string): string {
  return `${file}:${line}:${column}: ${sentence}${toLine === null ? '' : ` (line ${toLine} there)`}`
}

export function command(context: Context): Command {
  return new Command('compile')
    .argument('<file>', 'a config of a run, in any dialect that this program reads')
    .addOption(
      new Option('--target <name>', 'which trainer it is written for')
        .choices(Object.keys(TARGETS))
        .default('prime-rl'),
    )
    .option('--explain', 'print what becomes of every knob, instead of the config')
    .option('--payload', 'print the body that Hosted Training is sent, as JSON')
    .option('--set <path=value...>', 'put a value over the file')
    .action(
      async (file: string, options: { target: TargetId; explain?: boolean; payload?: boolean; set?: string[] }) => {
        if (options.payload && options.target !== 'hosted') {
          process.stderr.write('--payload is the body of a request to Hosted Training; give --target hosted with it.\n')
          context.exitCode = 1
          return
        }
        context.exitCode = await runCompile({
          ...{ file, ...options },
          write: (text) => process.stdout.write(text),
          say: (text) => process.stderr.write(text),
        })
      },
    )
}
