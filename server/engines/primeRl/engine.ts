// Full-size runs on a cluster: prime-rl computes, a batch system gives it nodes, and the shared disk tells what happens.
// Nothing here trains, and nothing of a run is kept in memory: a server that is killed finds every job again by its file
// and its mark.

import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { RunConfig } from '../../../configs/schema.ts'
import { crashPoint } from '../../store/crashPoint.ts'
import {
  type Engine,
  type EngineCapabilities,
  type EngineCard,
  isFinal,
  type Job,
  type JobFile,
  type JobSpec,
  type JobStart,
  type LogPart,
} from '../engine.ts'
import { sizeOfFolder } from '../local/runFiles.ts'
import { filesLeft } from './filesLeft.ts'
import { follow } from './follow.ts'
import { JobBook, type JobRecord } from './jobs.ts'
import { exists, RunLayout } from './layout.ts'
import { exitSaid, filesOf, readAcross, STREAMS } from './logs.ts'
import { slug } from './names.ts'
import { compiled, type PrepareOptions, prepare, writeSecrets } from './prepare.ts'
import { type Launch, type Scheduler, type Sighting, Unreachable } from './scheduler.ts'
import { SCRIPT, scriptEnvironment } from './script.ts'
import { startsAfter } from './starts.ts'

export interface FullSizeOptions {
  /** On the server's own disk: what it remembers of its jobs. */
  folder: string
  /** On the shared disk, as the server and every node see it. */
  runsRoot: string
  /** The checkout of prime-rl, as the nodes see it. */
  project: string
  /** The program that trains, as the nodes see it; `.venv/bin/rl` of the checkout unless given. */
  command?: string
  owner?: { uid: number; gid: number } | null
  /** Where bundled models lie on this machine. */
  models: string
  /** Variables of every job, set by the operator. */
  environment?: Record<string, string>
  /** Ids and owners (`owner/`) of environments that may run; any where null. */
  environments?: string[] | null
  /** Seconds that a run may take to save when it is asked to end. */
  graceSeconds?: number
  /** The operator's price of a GPU for an hour. */
  pricePerGpuHour?: number
}

const LOOK_AGAIN_MS = 1500
const PATIENCE_MS = 5000

export class FullSizeEngine implements Engine {
  readonly target: string
  readonly capabilities: EngineCapabilities = {
    gracefulCancel: true,
    resume: true,
    rollouts: true,
    tokens: true,
    logs: STREAMS,
    checkpoints: true,
    adapter: true,
    measure: false,
  }
  #options: FullSizeOptions
  #scheduler: Scheduler
  #book: JobBook
  #listeners = new Set<(engineId: string) => void>()
  /** Questions to the batch system under way, and answers for as long as they are fresh; by key. */
  #looks = new Map<string, { until: number; job: Promise<Job> }>()
  #submitting = new Map<string, Promise<{ engineId: string }>>()

  constructor(scheduler: Scheduler, options: FullSizeOptions) {
    this.target = scheduler.target
    this.#scheduler = scheduler
    this.#options = options
    this.#book = new JobBook(join(options.folder, 'jobs'))
  }

  async card(): Promise<EngineCard> {
    const [jobs, problem] = await Promise.all([this.list(), this.#scheduler.problem()])
    const price = this.#options.pricePerGpuHour
    const cost =
      price === undefined
        ? 'What a GPU-hour costs is unknown: the operator has named no price.'
        : `A GPU-hour costs ${price}, by the operator.`
    const details = problem === null ? await this.#scheduler.details?.().catch(() => []) : []
    return {
      details: [...(details ?? []), cost],
      title: this.#scheduler.title,
      privacy:
        'The config goes to the cluster, which computes the whole run with prime-rl and keeps its rollouts, metrics and weights on its shared disk; this server reads them there.',
      problem,
      maxRuns: null,
      running: jobs.filter(({ state }) => state === 'running' || state === 'starting').length,
      queued: jobs.filter(({ state }) => state === 'queued').length,
    }
  }

  refusals(config: RunConfig): string[] {
    const { findings } = compiled(config)
    const problems = findings.filter(({ act }) => act === 'refuse').map(({ sentence }) => sentence)
    if (isMultiNode(config) && !this.#scheduler.multiNode)
      problems.push(
        `deployment.type = "multi_node": ${this.#scheduler.title} gives a run one node; use "single_node", or Slurm.`,
      )
    const { environments = null } = this.#options
    for (const id of new Set([...config.env, ...config.eval.env].map((each) => each.id)))
      if (environments && !environments.some((each) => id === each || (each.endsWith('/') && id.startsWith(each))))
        problems.push(
          `${id} is code that would run on the cluster, and is not among the environments that the operator allows.`,
        )
    return problems
  }

  notes(config: RunConfig): string[] {
    const { findings } = compiled(config)
    return findings.filter(({ act, sentence }) => act !== 'refuse' && sentence !== '').map(({ sentence }) => sentence)
  }

  /** The same key is the same job, also while it is being submitted. */
  submit(spec: JobSpec, key: string): Promise<{ engineId: string }> {
    let under = this.#submitting.get(key)
    if (!under) {
      under = this.#submit(spec, key).finally(() => this.#submitting.delete(key))
      this.#submitting.set(key, under)
    }
    return under
  }

  async #submit(spec: JobSpec, key: string): Promise<{ engineId: string }> {
    const known = await this.#book.read(key)
    if (known?.launched || known?.refused) return { engineId: key }
    const layout = new RunLayout(this.#options.runsRoot, spec.run)
    crashPoint('cluster:before-files')
    const { table, ...prepared } = await prepare(spec, layout, this.#prepare)
    const record: JobRecord = known ?? {
      ...{ key, run: spec.run, attempt: spec.attempt, name: spec.name, config: spec.config, id: null },
      launched: false,
      step: isMultiNode(spec.config) ? ('render' as const) : ('train' as const),
      ...{ fromStep: prepared.fromStep, metricsFrom: prepared.metricsFrom, logsFrom: prepared.logsFrom },
      ...{ submittedAt: Date.now(), seen: null, cancel: null, cancelledAt: null, refused: null },
      secretsFor: prepared.secrets === null ? null : 0,
    }
    await this.#book.write(record)
    crashPoint('cluster:before-launch')
    await this.#launch(record, layout, prepared.secrets !== null)
    return { engineId: key }
  }

  /** The job of the record's step; `rendered` is prime-rl's own script for several nodes. */
  async #launch(record: JobRecord, layout: RunLayout, hasSecrets: boolean, rendered?: string): Promise<void> {
    const { key, attempt, config, step } = record
    const folder = layout.attempt(attempt)
    const { project, command = join(project, '.venv/bin/rl'), environment = {} } = this.#options
    const table = (name: string) => (config.remote.prime_rl[name] ?? {}) as Record<string, unknown>
    const secrets = hasSecrets ? join(folder, 'secrets') : ''
    const data = { project, folder, output: layout.output, config: join(folder, 'config.toml'), secrets, command, step }
    const launch: Launch = {
      mark: `rollout-lab:${key}${step === 'render' ? ':render' : ''}`,
      ...{ name: slug(record.name, 'rollout-lab'), script: SCRIPT, folder, rendered },
      tables: Object.fromEntries(this.#scheduler.tables.map((name) => [name, table(name)])),
      ...{ environment: { ...environment, ...scriptEnvironment(data) }, nodes: 1 },
      gpus: step === 'render' ? 0 : gpusOf(config),
    }
    try {
      await this.#scheduler.launch(launch, async (id) => {
        crashPoint('cluster:before-recording')
        record.id = id
        await this.#book.write(record)
        crashPoint('cluster:after-recording')
      })
      record.launched = true
      await this.#book.write(record)
    } catch (error) {
      if (error instanceof Unreachable) throw error
      // It was made and then refused, or refused at once: either way it will not run.
      record.refused = (error as Error).message
      await this.#book.write(record)
      await rm(join(folder, 'secrets'), { force: true })
    }
  }

  /** A server that died between making a job and letting it run left it held. */
  async #relaunch(record: JobRecord, layout: RunLayout): Promise<void> {
    const rendered = record.step === 'rendered' ? await readFile(join(layout.output, 'rl.sbatch'), 'utf8') : undefined
    await this.#launch(record, layout, record.secretsFor !== null, rendered)
  }

  /** Once prime-rl has written its job for several nodes, that is submitted; what it refuses is the run's end. */
  async #afterRender(record: JobRecord, layout: RunLayout, sighting: Sighting): Promise<Job> {
    const checking = 'prime-rl checks the config and writes its job for several nodes.'
    if (!isFinal(sighting.state)) return jobOf(record, { ...sighting, state: 'queued', reason: checking })
    const script = await readFile(join(layout.output, 'rl.sbatch'), 'utf8').catch(() => null)
    if (sighting.state !== 'succeeded' || script === null) {
      const files = await filesOf(layout, record.attempt, record.logsFrom, 'job')
      const { bytes } = await readAcross(files, 0, 64 * 1024)
      const said = bytes.toString('utf8').trim().split('\n').slice(-12).join('\n')
      const reason = `prime-rl refused the config: ${said || (sighting.reason ?? 'it wrote no rl.sbatch')}`
      return this.#ended(record, {
        ...sighting,
        state: sighting.state === 'succeeded' ? 'failed' : sighting.state,
        reason,
      })
    }
    const next: JobRecord = { ...record, step: 'rendered', id: null, launched: false }
    await this.#launch(next, layout, record.secretsFor !== null, script)
    if (next.refused !== null) return this.#ended(next, { ...NOTHING, state: 'failed', reason: next.refused })
    return jobOf(next, { ...NOTHING, state: 'queued', reason: checking })
  }

  /**
   * Asks the batch system at most once in a while, however often it is asked itself, and does not wait for one that takes
   * long: until that has answered, nothing is known.
   */
  async get(engineId: string): Promise<Job | null> {
    const record = await this.#book.read(engineId)
    if (!record) return null
    if (record.seen && isFinal(record.seen.state)) return jobOf(record, record.seen)
    let look = this.#looks.get(engineId)
    if (!look || Date.now() > look.until) {
      look = { until: Number.POSITIVE_INFINITY, job: this.#look(record) }
      this.#looks.set(engineId, look)
      const answered = look
      const done = () => {
        answered.until = Date.now() + LOOK_AGAIN_MS
      }
      look.job.then(done, done)
    }
    let timer: NodeJS.Timeout | undefined
    const slow = new Promise<Job>((resolve) => {
      const reason = `${this.#scheduler.title} has not answered for ${PATIENCE_MS / 1000} seconds.`
      const unknown = jobOf(record, { ...(record.seen ?? NOTHING), state: 'unknown', reason })
      timer = setTimeout(() => resolve(unknown), PATIENCE_MS)
    })
    return Promise.race([look.job, slow]).finally(() => clearTimeout(timer))
  }

  async #look(record: JobRecord): Promise<Job> {
    if (record.refused !== null) return this.#ended(record, { ...NOTHING, state: 'failed', reason: record.refused })
    if (record.id === null)
      return jobOf(record, { ...NOTHING, state: 'queued', reason: 'It is being handed to the cluster.' })
    const layout = new RunLayout(this.#options.runsRoot, record.run)
    let sighting: Sighting | null
    let begun: boolean
    try {
      begun = await exists(join(layout.attempt(record.attempt), 'started'))
      if (!record.launched && !this.#submitting.has(record.key)) await this.#relaunch(record, layout)
      sighting = await this.#scheduler.look(record.id, begun)
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error
      return jobOf(record, { ...(record.seen ?? NOTHING), state: 'unknown', reason: error.message })
    }
    if (!sighting) {
      const reason = `${this.#scheduler.title} no longer knows the job ${record.id}: it forgets jobs some time after their end.`
      return this.#ended(record, { ...(record.seen ?? NOTHING), state: 'node_lost', reason })
    }
    if (record.step === 'render' && !record.cancel) return this.#afterRender(record, layout, sighting)
    // A run that saved and left because it was asked to is cancelled, whatever its code.
    if (record.cancel && isFinal(sighting.state)) sighting = { ...sighting, state: 'cancelled', reason: 'Cancelled.' }
    if (sighting.state === 'failed' && !begun)
      sighting.reason =
        `${sighting.reason ?? ''} It ended before its first line: its user may not be able to write ${layout.attempt(record.attempt)}, or ${this.#options.project} is not there on the node.`.trim()
    if (isFinal(sighting.state)) return this.#ended(record, sighting)
    if (sighting.state === 'running') sighting = await this.#failing(record, layout, sighting)
    if (sighting.restarts > (record.seen?.restarts ?? 0)) sighting.reason ??= 'Its node died, and it is started again.'
    if (changed(record.seen, sighting)) await this.#remember(record, sighting)
    if (
      record.cancel === 'graceful' &&
      Date.now() - (record.cancelledAt ?? 0) > 1000 * (this.#options.graceSeconds ?? 300)
    )
      await this.#scheduler.cancel(record.id, 'now')
    return jobOf(record, sighting)
  }

  /** A component that has died is said at once, though the job may go on for an hour. */
  async #failing(record: JobRecord, layout: RunLayout, sighting: Sighting): Promise<Sighting> {
    const files = await filesOf(layout, record.attempt, record.logsFrom, 'job')
    const { size } = await readAcross(files, 0, 0)
    const { bytes } = await readAcross(files, Math.max(0, size - 64 * 1024), 64 * 1024)
    const said = exitSaid(bytes.toString('utf8'))
    return said ? { ...sighting, reason: `Failing: ${said.line}` } : sighting
  }

  async #ended(record: JobRecord, sighting: Sighting): Promise<Job> {
    const seen = { ...sighting, endedAt: sighting.endedAt ?? Date.now() }
    await this.#remember(record, seen)
    const secrets = join(new RunLayout(this.#options.runsRoot, record.run).attempt(record.attempt), 'secrets')
    await rm(secrets, { force: true }).catch(() => {})
    return jobOf(record, seen)
  }

  async #remember(record: JobRecord, seen: Sighting): Promise<void> {
    const latest = await this.#latest(record)
    // The small job that writes the one for several nodes has none.
    const gpus = latest.step === 'render' ? 0 : gpusOf(latest.config)
    const starts = gpus === 0 ? [] : startsAfter(latest.starts ?? [], seen, gpus, Date.now())
    await this.#book.write({ ...latest, seen, starts })
  }

  #latest = async (record: JobRecord): Promise<JobRecord> => (await this.#book.read(record.key)) ?? record

  async starts(engineId: string): Promise<JobStart[]> {
    return (await this.#book.read(engineId))?.starts ?? []
  }

  get pricePerGpuHour(): number | undefined {
    return this.#options.pricePerGpuHour
  }

  async list(): Promise<(Job & { key: string })[]> {
    const jobs = await Promise.all(
      (await this.#book.keys()).map(async (key) => {
        const record = await this.#book.read(key)
        // One that was cut off before the batch system heard of it has never begun: its submit may be repeated.
        return record && (record.id !== null || record.refused !== null) ? this.get(key) : null
      }),
    )
    return jobs.filter((job) => job !== null).map((job) => ({ ...job, key: job.engineId }))
  }

  async cancel(engineId: string, how: 'graceful' | 'now'): Promise<void> {
    const record = await this.#book.read(engineId)
    if (!record || record.refused !== null || (record.seen && isFinal(record.seen.state))) return
    if (record.cancel === how || record.cancel === 'now') return
    if (record.id !== null) await this.#scheduler.cancel(record.id, how)
    await this.#book.write({ ...record, cancel: how, cancelledAt: Date.now() })
    this.#looks.delete(engineId)
    this.#changed(engineId)
  }

  async readLog(engineId: string, stream: string, offset: number, most: number): Promise<LogPart> {
    const record = await this.#book.read(engineId)
    if (!record) return { bytes: new Uint8Array(), nextOffset: offset, eof: true }
    const layout = new RunLayout(this.#options.runsRoot, record.run)
    const files = await filesOf(layout, record.attempt, record.logsFrom, stream)
    const { bytes, size } = await readAcross(files, offset, most)
    const nextOffset = offset + bytes.length
    const over = record.seen !== null && isFinal(record.seen.state)
    return { bytes, nextOffset, eof: over && nextOffset >= size }
  }

  async readEvents(engineId: string, cursor: string | null) {
    const record = await this.#book.read(engineId)
    if (!record) return { events: [], cursor }
    const layout = new RunLayout(this.#options.runsRoot, record.run)
    const { run, attempt, config, fromStep, metricsFrom, logsFrom } = record
    const begun = await exists(join(layout.attempt(attempt), 'started'))
    const over = record.seen !== null && isFinal(record.seen.state)
    const source = this.#scheduler.target
    const { environment } = this.#options
    return follow(
      { run, attempt, config, layout, source, fromStep, metricsFrom, logsFrom, environment, begun, over },
      cursor,
    )
  }

  async files(run: string): Promise<JobFile[]> {
    const records = await Promise.all((await this.#book.keys()).map((key) => this.#book.read(key)))
    const newest = records.filter((record) => record?.run === run).sort((a, b) => b!.attempt - a!.attempt)[0]
    const over = !newest?.seen || isFinal(newest.seen.state)
    return filesLeft(new RunLayout(this.#options.runsRoot, run), newest?.attempt ?? 1, over)
  }

  size(run: string): Promise<number> {
    return sizeOfFolder(new RunLayout(this.#options.runsRoot, run).folder)
  }

  async forget(engineId: string): Promise<void> {
    const job = await this.get(engineId)
    if (job && isFinal(job.state)) await this.#book.forget(engineId)
  }

  async remove(run: string): Promise<void> {
    for (const key of await this.#book.keys()) {
      const record = await this.#book.read(key)
      if (record?.run === run) await this.#book.forget(key)
    }
    await rm(new RunLayout(this.#options.runsRoot, run).folder, { recursive: true, force: true })
  }

  onChange(listener: (engineId: string) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** The jobs go on. */
  async close(): Promise<void> {
    await this.#scheduler.close()
  }

  async renewSecrets(engineId: string, secrets: Record<string, string>): Promise<void> {
    const record = await this.#book.read(engineId)
    if (!record || (record.seen && isFinal(record.seen.state))) return
    const folder = new RunLayout(this.#options.runsRoot, record.run).attempt(record.attempt)
    await writeSecrets({ secrets }, folder, this.#prepare)
    await this.#book.write({ ...(await this.#latest(record)), secretsFor: record.seen?.restarts ?? 0 })
    this.#looks.delete(engineId)
  }

  get #prepare(): PrepareOptions {
    const { owner = null, models } = this.#options
    return { owner, models, project: this.#options.project, multiNode: this.#scheduler.multiNode }
  }

  #changed(engineId: string): void {
    for (const listener of this.#listeners) listener(engineId)
  }
}

const NOTHING: Sighting = {
  ...{ state: 'queued', reason: null, exitCode: null, nodes: [], startedAt: null, endedAt: null },
  ...{ queuePosition: null, raw: null, restarts: 0 },
}

function jobOf(record: JobRecord, { restarts, ...sighting }: Sighting): Job {
  const spent = record.secretsFor !== null && restarts > record.secretsFor && !isFinal(sighting.state)
  return { engineId: record.key, ...sighting, ...(spent && { wantsSecrets: true }) }
}

function changed(before: Sighting | null, now: Sighting): boolean {
  return (
    before === null ||
    before.state !== now.state ||
    before.restarts !== now.restarts ||
    before.startedAt !== now.startedAt ||
    before.nodes.join() !== now.nodes.join()
  )
}

function deploymentOf(config: RunConfig): Record<string, unknown> {
  return (config.remote.prime_rl.deployment ?? {}) as Record<string, unknown>
}

const isMultiNode = (config: RunConfig): boolean => deploymentOf(config).type === 'multi_node'

/** GPUs of a node: all of it over several nodes; on a single one those that train and those that sample. */
export function gpusOf(config: RunConfig): number {
  if (isMultiNode(config)) return Number(deploymentOf(config).gpus_per_node ?? 8)
  const { num_train_gpus: train, num_infer_gpus: infer, gpus_per_node: node } = deploymentOf(config)
  if (typeof node === 'number' && train === undefined && infer === undefined) return node
  return (typeof train === 'number' ? train : 1) + (typeof infer === 'number' ? infer : 1)
}
