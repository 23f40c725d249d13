// A job as the process of a run sees it: take it, run it from beginning to end, hand its events over, and leave a last
// word. Knows the job's folder and a trainer; no database, no server.

import { existsSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { OpenTrainer } from '../../../workers/host.node.ts'
import type { RunEvent, Trainer } from '../../../workers/protocol.ts'
import { redactOutput } from '../../secrets/output.ts'
import { redactor } from '../../secrets/redact.ts'
import type { ExitFile, JobFile, JobFolder, Limits } from './jobFolder.ts'
import { beganAt } from './processes.ts'
import { SpoolWriter } from './spool.ts'

const LOOK_EVERY_MS = 500
const MEGABYTE = 1024 * 1024

export type Open = (place: { root: string; runs: string }) => Promise<OpenTrainer>

/** Does the job of a folder, unless another process has taken it. Resolves when all has been written down. */
export async function attend(folder: JobFolder, open: Open): Promise<void> {
  const job = await folder.job()
  if (!job) throw new Error(`There is no job in ${folder.path}.`)
  const began = await beganAt(process.pid)
  if (!(await folder.claim({ pid: process.pid, began, startedAt: Date.now() }))) return
  const secrets = await folder.takeSecrets()
  Object.assign(process.env, secrets)
  // A program may print what it was given: neither its log nor its events keep it.
  redactOutput(secrets)
  const redact = redactor(secrets)
  const spool = new SpoolWriter(folder.spool, redact.json)
  const exit = await run(folder, job, open, spool).catch((error: Error) => failed(error.message))
  spool.flush()
  await folder.end({ ...exit, reason: exit.reason && redact.text(exit.reason), endedAt: Date.now() })
}

type Outcome = Omit<ExitFile, 'endedAt'>

function failed(reason: string): Outcome {
  return { state: 'failed', reason, code: 1 }
}

async function run(folder: JobFolder, job: JobFile, open: Open, spool: SpoolWriter): Promise<Outcome> {
  const stop = new Stop()
  const { trainer, lost, close } = await open({ root: job.root, runs: job.runs })
  const watch = watchFor(folder, job.limits, stop)
  try {
    const ended = new Promise<Outcome>((resolve) => {
      let running = false
      lost.then((sentence) => resolve(failed(sentence)))
      trainer.subscribe((event: RunEvent) => {
        spool.add(event)
        if (event.kind !== 'state') return
        spool.flush()
        if (event.state === 'running') running = true
        if (event.state === 'finished') resolve({ state: 'succeeded', reason: null, code: 0 })
        if (event.state === 'stopped') resolve(stop.outcome ?? failed('The run stopped without being asked to.'))
        if (event.state === 'failed')
          resolve(stop.outcome ?? failed(event.reason ?? 'The run failed without a reason.'))
        // A run that pauses by itself waits for somebody to look at it, and nobody can.
        if (event.state === 'paused' && running) resolve(paused(event.reason))
      })
    })
    const resume = existsSync(join(job.runs, job.run, 'run.json'))
    await trainer.start({ run: job.run, config: job.config, resume, source: 'server' })
    stop.on(() => trainer.stop())
    if (!stop.outcome) await trainer.play()
    const outcome = await ended
    if (outcome.state === 'failed') await quietly(trainer)
    return outcome
  } finally {
    clearInterval(watch)
    await close()
  }
}

function paused(reason: string | undefined): Outcome {
  return failed(`The run paused by itself and is saved: ${reason ?? 'it did not say why.'}`)
}

/** Lets go of a run that has paused; one that has ended is closed already. */
async function quietly(trainer: Trainer): Promise<void> {
  await Promise.race([trainer.stop().catch(() => {}), new Promise((resolve) => setTimeout(resolve, 10_000))])
}

/** The first reason to end is the one that is told. */
class Stop {
  outcome: Outcome | null = null
  #act: (() => Promise<void>) | null = null

  on(act: () => Promise<void>): void {
    this.#act = act
    if (this.outcome) act().catch(() => {})
  }

  ask(outcome: Outcome): void {
    if (this.outcome) return
    this.outcome = outcome
    this.#act?.().catch(() => {})
  }
}

function watchFor(folder: JobFolder, limits: Limits, stop: Stop): NodeJS.Timeout {
  const began = Date.now()
  const look = async () => {
    const asked = await folder.stop().catch(() => null)
    if (asked?.why === 'cancel') stop.ask({ state: 'cancelled', reason: 'Cancelled; the run is saved.', code: 130 })
    if (asked?.why === 'shutdown')
      stop.ask({ state: 'node_lost', reason: 'The server was shut down; the run is saved.', code: 143 })
    if (limits.seconds !== null && Date.now() - began > limits.seconds * 1000)
      stop.ask({
        state: 'timed_out',
        reason: `The run took longer than the ${limits.seconds} s that this server allows; it is saved.`,
        code: 124,
      })
    const bytes = process.memoryUsage.rss()
    if (limits.memoryBytes !== null && bytes > limits.memoryBytes)
      stop.ask(failed(tooMuchMemory(bytes, limits.memoryBytes)))
    const seen = await stat(limits.alive).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    )
    if (Date.now() - Math.max(seen, began) > limits.orphanSeconds * 1000)
      stop.ask({ state: 'node_lost', reason: 'No server has been seen for too long; the run is saved.', code: 143 })
  }
  const timer = setInterval(look, LOOK_EVERY_MS)
  process.on('SIGTERM', look)
  process.on('SIGINT', () => {})
  return timer
}

export function tooMuchMemory(bytes: number, most: number): string {
  return (
    `The run held ${Math.round(bytes / MEGABYTE)} MB of memory, and this server allows ${Math.round(most / MEGABYTE)} MB: ` +
    'take a smaller batch_size, seq_len or model, or raise local.memory_bytes.'
  )
}
