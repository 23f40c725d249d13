// `rollout-lab submit CONFIG`: hands a run to a server, and follows it when asked to.

import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Command } from 'commander'
import type { Preview, RunView } from '../server/runs/views.ts'
import { connect, type ServerOptions, withServer } from './client.ts'
import { Connection, placed } from './connection.ts'
import { followHere } from './follow.ts'
import { duration } from './runReport.ts'
import { type Terminal, terminal } from './terminal.ts'
import { type Context, Refusal } from './verb.ts'

export interface SubmitOptions extends ServerOptions {
  target: string
  set?: string[]
  name?: string
  label?: string[]
  secrets?: string[]
  idempotencyKey?: string
  preview?: boolean
  follow?: boolean
  json?: boolean
}

/** 0 when the run was taken, or, followed, when it succeeded; 1 when something is wrong; 130 when it was cancelled. */
export async function submit(
  context: Pick<Context, 'root'>,
  file: string,
  options: SubmitOptions,
  out: Terminal,
): Promise<number> {
  const config = await readFile(file, 'utf8').catch((error: Error) => {
    throw new Refusal(`${file} cannot be read: ${error.message}`)
  })
  const connection = new Connection(connect(context, options))
  const request = { config, set: options.set, target: options.target }
  if (options.preview) return preview(connection, request, options, out)
  const { name, label: labels, secrets, idempotencyKey = randomUUID() } = options
  const { body: run, headers } = await connection.send<RunView>(
    ...(['POST', 'runs', { ...request, name, labels, secrets }, idempotencyKey] as const),
  )
  if (options.json) out.write(JSON.stringify(run))
  else {
    const again = headers.get('idempotent-replayed') === 'true'
    out.write(`${again ? 'The run of this key is' : 'Run'} ${run.id}, ${run.name}, on ${run.target}: ${run.state}.`)
  }
  return options.follow ? followHere(connection, run.id, out) : 0
}

async function preview(
  connection: Connection,
  request: object,
  { json }: SubmitOptions,
  out: Terminal,
): Promise<number> {
  const { body } = await connection.send<Preview>('POST', 'runs/preview', request)
  const ok = body.problems.length === 0 && body.refusals.length === 0
  if (json) {
    out.write(JSON.stringify(body))
    return ok ? 0 : 1
  }
  for (const { sentence, line, column } of body.problems) out.write(placed(sentence, line, column))
  for (const { sentence } of body.notes) out.write(`note: ${sentence}`)
  for (const sentence of body.differences) out.write(`there: ${sentence}`)
  for (const sentence of body.refusals) out.write(`refused: ${sentence}`)
  if (body.size) {
    const { steps, rolloutsPerStep, mostTokens } = body.size
    out.write(`${steps} steps of ${rolloutsPerStep} rollouts, ${mostTokens} tokens at most.`)
  }
  if (body.time) {
    const { mostSeconds, measurement } = body.time
    const rate = `${Math.round(measurement.stepTokensPerSecond)} tokens/s on ${measurement.adapter} (${measurement.backend})`
    out.write(`At most ${duration(mostSeconds)} without evaluations, as measured: ${rate}.`)
  } else if (ok) out.write('How long it takes has not been measured there.')
  return ok ? 0 : 1
}

export function command(context: Context): Command {
  return withServer(new Command('submit'))
    .argument('<config>', 'a config in TOML or JSON')
    .option('--target <name>', 'where the run takes place: `rollout-lab runs targets` lists them', 'local')
    .option('--set <path=value...>', 'put a value over the file: learning_rate=1e-3 sampling.max_tokens=64')
    .option('--name <name>', "the run's name; the config's unless given")
    .option('--label <label...>', 'labels to find it by')
    .option('--secrets <set...>', 'names of secret sets that the run is given')
    .option('--idempotency-key <key>', 'the same key again is the same run')
    .option('--preview', 'say what would run, and start nothing')
    .option('--follow', 'show the run to its end; Ctrl-C leaves it alone')
    .option('--json', 'answer as JSON')
    .action(async (file: string, options: SubmitOptions) => {
      context.exitCode = await submit(context, file, options, terminal())
    })
}
