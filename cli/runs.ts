// `rollout-lab runs VERB`: what has been handed to a server, and what may be done to it.

import { createWriteStream } from 'node:fs'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Command, InvalidArgumentError } from 'commander'
import type { ArtifactView, MetricsPage, RolloutsPage, RunDetails, RunView, TargetView } from '../server/runs/views.ts'
import { toRolloutLines } from '../workers/storage/rolloutLines.ts'
import { connect, type ServerOptions, withServer } from './client.ts'
import { columns } from './columns.ts'
import { Connection } from './connection.ts'
import { followHere } from './follow.ts'
import { duration } from './runReport.ts'
import { type Terminal, terminal } from './terminal.ts'
import { type Context, Refusal } from './verb.ts'

const LOG_LOOK_MS = 1000

export interface RunsOptions extends ServerOptions {
  json?: boolean
  state?: string
  label?: string
  text?: string
  limit?: number
  follow?: boolean
  attempt?: number
  stream?: string
  now?: boolean
  maxSteps?: number
  set?: string[]
  name?: string
  target?: string
  out?: string
  rollouts?: boolean
}

type Verb = (connection: Connection, run: string, options: RunsOptions, out: Terminal) => Promise<number>

export async function list(connection: Connection, options: RunsOptions, out: Terminal): Promise<number> {
  const query = new URLSearchParams({ limit: String(options.limit ?? 50) })
  for (const name of ['state', 'label', 'text'] as const) if (options[name]) query.set(name, options[name])
  const { runs } = await connection.get<{ runs: RunView[] }>(`runs?${query}`)
  if (options.json) out.write(JSON.stringify(runs))
  else
    listed(
      out,
      runs.map((run) => [
        ...[run.id, run.cancelling ? `${run.state} (cancelling)` : run.state, `${run.step}/${run.maxSteps}`],
        ...[run.target, run.model, duration((Date.now() - run.createdAt) / 1000), run.name],
      ]),
    )
  return 0
}

function listed(out: Terminal, rows: string[][]): void {
  out.write(columns(['id', 'state', 'step', 'target', 'model', 'age', 'name'], rows).trimEnd())
}

export async function targets(connection: Connection, options: RunsOptions, out: Terminal): Promise<number> {
  const { targets } = await connection.get<{ targets: TargetView[] }>('targets')
  if (options.json) out.write(JSON.stringify(targets))
  else
    for (const { target, card, measurements } of targets) {
      out.write(`${target}: ${card.title}. ${card.running} running, ${card.queued} waiting.`)
      if (card.problem) out.write(`  ${card.problem}`)
      for (const { model, tokensPerSecond, adapter, backend } of measurements)
        out.write(`  ${model}: ${Math.round(tokensPerSecond)} tokens/s on ${adapter} (${backend})`)
    }
  return 0
}

const get: Verb = async (connection, id, { json }, out) => {
  const run = await connection.get<RunDetails>(`runs/${id}`)
  if (json) {
    out.write(JSON.stringify(run))
    return 0
  }
  out.write(`${run.name}  ${run.id}`)
  const wait = run.queuePosition === null ? '' : `, ${run.queuePosition} before it`
  out.write(`${run.state}${wait}, step ${run.step} of ${run.maxSteps}, ${run.model} on ${run.target}`)
  if (run.reason) out.write(run.reason)
  if (run.labels.length > 0) out.write(`labels: ${run.labels.join(', ')}`)
  for (const attempt of run.attempts) {
    const took =
      attempt.startedAt && attempt.endedAt ? `, ${duration((attempt.endedAt - attempt.startedAt) / 1000)}` : ''
    out.write(`attempt ${attempt.number}: ${attempt.state} from step ${attempt.fromStep ?? '–'}${took}`)
  }
  return 0
}

const follow: Verb = (connection, id, _options, out) => followHere(connection, id, out)

const logs: Verb = async (connection, id, options) => {
  const query = options.attempt ? `&attempt=${options.attempt}` : ''
  for (let offset = 0; ; ) {
    const answer = await connection.fetch(`runs/${id}/logs/${options.stream ?? 'out'}?offset=${offset}${query}`, {}, 3)
    const bytes = Buffer.from(await answer.arrayBuffer())
    process.stdout.write(bytes)
    offset = Number(answer.headers.get('x-next-offset'))
    if (answer.headers.get('x-end') === 'true' || (!options.follow && bytes.length === 0)) return 0
    if (bytes.length === 0) await new Promise((done) => setTimeout(done, LOG_LOOK_MS))
  }
}

const cancel: Verb = async (connection, id, { now }, out) => {
  const { body } = await connection.send<RunView>('POST', `runs/${id}/cancel`, { graceful: !now })
  out.write(body.cancelling ? `Asked for: the run ${now ? 'ends' : 'saves and ends'}.` : `The run is ${body.state}.`)
  return 0
}

const resume: Verb = async (connection, id, { maxSteps, follow: look }, out) => {
  const { body } = await connection.send<RunView>('POST', `runs/${id}/resume`, { maxSteps })
  out.write(`Attempt ${body.attempt} goes on from the newest save, to step ${body.maxSteps}.`)
  return look ? followHere(connection, id, out) : 0
}

const clone: Verb = async (connection, id, { set, name, target, follow: look }, out) => {
  const { body } = await connection.send<RunView>('POST', `runs/${id}/clone`, { set, name, target })
  out.write(`Run ${body.id}, ${body.name}: ${body.state}.`)
  return look ? followHere(connection, body.id, out) : 0
}

const remove: Verb = async (connection, id, _options, out) => {
  await connection.send('DELETE', `runs/${id}`, undefined)
  out.write(`Deleted ${id} with all that it had left.`)
  return 0
}

/** The run as a run folder: config, metrics, rollouts, checkpoints and adapter, wherever it took place. */
const pull: Verb = async (connection, id, options, out) => {
  const run = await connection.get<RunDetails>(`runs/${id}`)
  const folder = resolve(options.out ?? join('outputs', `${run.name.replace(/[^\w.-]+/g, '-')}-${id.slice(-6)}`))
  const { artifacts } = await connection.get<{ artifacts: ArtifactView[] }>(`runs/${id}/artifacts`)
  const places: Record<string, (artifact: ArtifactView) => string> = {
    adapter: () => 'adapter',
    checkpoint: ({ step }) => `checkpoints/step_${step}`,
    config: () => 'configs',
  }
  for (const artifact of artifacts) {
    const place = places[artifact.kind]?.(artifact)
    if (!place || !/^[\w.-]+$/.test(artifact.name) || artifact.name.startsWith('.')) continue
    const path = join(folder, place, artifact.name)
    await mkdir(dirname(path), { recursive: true })
    const answer = await connection.fetch(`runs/${id}/artifacts/${artifact.id}`, {}, 3)
    await pipeline(Readable.fromWeb(answer.body as never), createWriteStream(`${path}.partial`))
    await rename(`${path}.partial`, path)
    out.write(path)
  }
  await mkdir(folder, { recursive: true })
  const rows: string[] = []
  for (let after: number | null = 0; after !== null; ) {
    const page: MetricsPage = await connection.get<MetricsPage>(`runs/${id}/metrics?limit=1000&after=${after}`)
    for (const { step, time, metrics } of page.rows)
      rows.push(`${JSON.stringify({ step, time: time / 1000, ...metrics })}\n`)
    after = page.next
  }
  await writeFile(join(folder, 'metrics.jsonl'), rows.join(''))
  if (options.rollouts !== false) await pullRollouts(connection, id, folder)
  out.write(`The run is in ${folder}.`)
  return 0
}

async function pullRollouts(connection: Connection, id: string, folder: string): Promise<void> {
  for (const split of ['train', 'eval'] as const) {
    const { steps } = await connection.get<{ steps: number[] }>(`runs/${id}/rollouts?split=${split}`)
    for (const step of steps) {
      const lines: string[] = []
      for (let offset: number | null = 0; offset !== null; ) {
        const page: RolloutsPage = await connection.get<RolloutsPage>(
          `runs/${id}/rollouts?step=${step}&split=${split}&limit=64&offset=${offset}`,
        )
        const event = { kind: 'samples' as const, run: id, attempt: page.attempt, seq: 0, time: 0, source: '' }
        lines.push(toRolloutLines({ ...event, step, split, groups: page.groups }))
        offset = page.next
      }
      const path = join(folder, 'rollouts', `step_${step}`, split)
      await mkdir(path, { recursive: true })
      await writeFile(join(path, 'rollouts.jsonl'), lines.join(''))
    }
  }
}

/** A whole id, or enough of its end to tell it from the others. */
export async function runOf(connection: Connection, text: string): Promise<string> {
  const given = text.toUpperCase()
  if (given.length === 26) return given
  if (!/^[0-9A-Z]{4,25}$/.test(given))
    throw new Refusal(`"${text}" is no id of a run, nor the last four letters of one.`)
  const { runs } = await connection.get<{ runs: RunView[] }>('runs?limit=200')
  const found = runs.filter(({ id }) => id.endsWith(given))
  if (found.length === 1) return found[0].id
  throw new Refusal(
    found.length === 0
      ? `None of the newest ${runs.length} runs has an id that ends with ${given}.`
      : `${found.length} runs have ids that end with ${given}: give more of it.`,
  )
}

export function command(context: Context): Command {
  const runs = new Command('runs')
  const reach = (options: RunsOptions) => new Connection(connect(context, options))
  const add = (name: string, summary: string) =>
    withServer(runs.command(name).description(summary)).option('--json', 'answer as JSON')
  const about = (name: string, summary: string, verb: Verb) =>
    add(name, summary)
      .argument('<run>', 'the id of a run, or its last letters')
      .action(async (run: string, options: RunsOptions) => {
        const connection = reach(options)
        context.exitCode = await verb(connection, await runOf(connection, run), options, terminal())
      })
  add('list', 'the newest runs')
    .option('--state <states>', 'only these, with commas between')
    .option('--label <label>', 'only with this label')
    .option('--text <text>', 'only with this in the name')
    .option('--limit <number>', 'at most so many', whole)
    .action(async (options: RunsOptions) => {
      context.exitCode = await list(reach(options), options, terminal())
    })
  add('targets', 'where runs can take place').action(async (options: RunsOptions) => {
    context.exitCode = await targets(reach(options), options, terminal())
  })
  about('get', 'what is known of a run', get)
  about('follow', 'show a run to its end; Ctrl-C leaves it alone', follow)
  about('logs', 'what the run has printed', logs)
    .option('--attempt <number>', 'of this attempt; the newest unless given', whole)
    .option('--stream <name>', 'which log', 'out')
    .option('-f, --follow', 'wait for more')
  about('cancel', 'end a run, after a save', cancel).option('--now', 'without a save')
  about('resume', 'go on from the newest save', resume)
    .option('--max-steps <number>', 'the last step from now on', whole)
    .option('--follow', 'show it to its end')
  about('clone', 'a new run with the same config', clone)
    .option('--set <path=value...>', 'put a value over the config')
    .option('--name <name>', "the new run's name")
    .option('--target <name>', 'where it takes place')
    .option('--follow', 'show it to its end')
  about('pull', 'fetch a run into a run folder', pull)
    .option('--out <folder>', 'the folder; outputs/<name>-<id> unless given')
    .option('--no-rollouts', 'leave the rollouts there')
  about('delete', 'delete an ended run with all that it has left', remove)
  return runs
}

function whole(text: string): number {
  const number = Number(text)
  if (Number.isInteger(number) && number > 0) return number
  throw new InvalidArgumentError('A whole number above 0 is wanted.')
}
