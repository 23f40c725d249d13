// `rollout-lab train CONFIG`: a whole run in this process's own threads, into a run folder, without a page or a server.

import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { Command } from 'commander'
import { load } from '../configs/load.ts'
import { lineOf } from '../configs/report.ts'
import type { RunConfig } from '../configs/schema.ts'
import { openTrainer } from '../workers/host.node.ts'
import type { RunEvent } from '../workers/protocol.ts'
import { RunReport } from './runReport.ts'
import { terminal } from './terminal.ts'
import { type Context, Refusal } from './verb.ts'

export interface TrainRequest {
  /** The folder of package.json: bundled models lie below it. */
  root: string
  /** A config in TOML or JSON; may be left out when a run folder is resumed. */
  file?: string
  /** `a.b=c`, put over the file. */
  set?: string[]
  /** The run folder; outputs/<name> unless given. */
  out?: string
  resume?: boolean
  /** `webgpu`, `wasm` or `cpu` instead of what the config says. */
  backend?: string
  /** Time the GPU's kernels, and end with a table of them. */
  timeKernels?: boolean
  /** Whole lines. */
  write(line: string): void
  /** What is going on at the moment; replaces what it said before. */
  status?(line: string): void
  /** Aborted: the run saves and ends. */
  signal?: AbortSignal
}

/** 0 when the run finished, 130 when it was stopped and saved, 1 when it failed. Throws a `Refusal` before it begins. */
export async function train(request: TrainRequest): Promise<number> {
  const { write, status = () => {}, signal } = request
  const config = await configOf(request)
  const folder = runFolder(request, config)
  const report = new RunReport(write, status)
  const { trainer, lost, close } = await openTrainer({ root: request.root, runs: dirname(folder) })
  try {
    const ended = endOf(report)
    await trainer.subscribe(ended.hear)
    lost.then(ended.fail)
    const resume = existsSync(join(folder, 'run.json'))
    if (signal?.aborted) return 130
    try {
      await trainer.start({ run: basename(folder), config, resume, source: 'node' })
      if (request.timeKernels) await trainer.timeKernels?.(true)
    } catch (error) {
      throw new Refusal((error as Error).message)
    }
    signal?.addEventListener('abort', () => {
      write('Stopping: the run is being saved. Ctrl-C again ends it at once.')
      trainer.stop().catch(() => {})
    })
    write(`Run folder: ${folder}`)
    await trainer.play()
    const code = await ended.code
    // Until this settles, the last lines of the folder may still be on their way.
    await trainer.stop()
    report.tellKernels()
    if (code === 0) write(`Finished. The adapter is in ${join(folder, 'adapter')}.`)
    if (code === 130) write(`Saved. The same command with --resume goes on.`)
    return code
  } finally {
    status('')
    await close()
  }
}

/** The run's end as an exit code, heard from its events. A run that pauses by itself needs somebody to look at it. */
function endOf(report: RunReport) {
  let settle: (code: number) => void = () => {}
  let running = false
  const code = new Promise<number>((resolve) => {
    settle = resolve
  })
  return {
    code,
    hear(event: RunEvent) {
      report.hear(event)
      if (event.kind !== 'state') return
      if (event.state === 'running') running = true
      if (event.state === 'finished') settle(0)
      if (event.state === 'stopped') settle(130)
      if (event.state === 'failed' || (event.state === 'paused' && running)) settle(1)
    },
    fail(sentence: string) {
      report.say(sentence)
      settle(1)
    },
  }
}

async function configOf({ file, set, out, resume, backend, write }: TrainRequest): Promise<RunConfig> {
  const source = file ?? (resume && out ? join(out, 'configs/rl.json') : undefined)
  if (!source)
    throw new Refusal('Name a config, for example configs/rl/reverse-text.toml, or --resume --out a run folder.')
  let text: string
  try {
    text = await readFile(source, 'utf8')
  } catch (error) {
    throw new Refusal(`${source} cannot be read: ${(error as Error).message}`)
  }
  const sets = [...(set ?? []), ...(backend ? [`browser.backend="${backend}"`] : [])]
  const loaded = load(text, { format: source.endsWith('.json') ? 'json' : undefined, set: sets })
  if (loaded.problems) throw new Refusal(loaded.problems.map((problem) => lineOf(problem, source)).join('\n'))
  for (const note of loaded.notes) write(`${lineOf(note, source)} [${note.kind}]`)
  return loaded.config
}

/** With --resume the newest folder of this name, otherwise one that holds no run yet. */
function runFolder({ file, out, resume }: TrainRequest, config: RunConfig): string {
  const holdsRun = (folder: string) => existsSync(join(folder, 'run.json'))
  if (out) {
    const folder = resolve(out)
    if (!resume && holdsRun(folder)) {
      throw new Refusal(`${folder} holds a run already: --resume goes on with it, another --out starts a new one.`)
    }
    if (resume && !holdsRun(folder)) throw new Refusal(`${folder} holds no run to resume.`)
    return folder
  }
  const name = config.name ?? basename(file ?? 'run').replace(/\.(toml|json)$/, '')
  const numbered = (n: number) => resolve('outputs', n === 1 ? name : `${name}-${n}`)
  let next = 1
  while (holdsRun(numbered(next))) next++
  if (!resume) return numbered(next)
  if (next === 1) throw new Refusal(`${numbered(1)} holds no run to resume.`)
  return numbered(next - 1)
}

type Options = Pick<TrainRequest, 'set' | 'out' | 'resume' | 'backend' | 'timeKernels'>

export function command(context: Context): Command {
  return new Command('train')
    .argument('[config]', 'a config in TOML or JSON')
    .option('--set <path=value...>', 'put a value over the file: learning_rate=1e-3 sampling.max_tokens=64')
    .option('--out <folder>', 'the run folder; outputs/<name> unless given')
    .option('--resume', 'go on from the newest save of that folder')
    .option('--backend <name>', 'compute with webgpu, wasm or cpu instead of the best that works')
    .option('--time-kernels', 'end with a table of the time that each kernel took on the GPU; slows the run')
    .action(async (file: string | undefined, options: Options) => {
      const stop = new AbortController()
      const onSignal = () => {
        if (stop.signal.aborted) process.exit(130)
        stop.abort()
      }
      process.on('SIGINT', onSignal)
      process.on('SIGTERM', onSignal)
      const { write, status } = terminal()
      try {
        context.exitCode = await train({ ...options, file, root: context.root, write, status, signal: stop.signal })
      } finally {
        process.off('SIGINT', onSignal)
        process.off('SIGTERM', onSignal)
      }
    })
}
