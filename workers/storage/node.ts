// Runs as plain folders, in prime-rl's layout, so that anything that reads a run folder reads these. Only Node imports it.
//
//   configs/rl.json, rl.toml              the resolved config
//   metrics.jsonl                         { step, time, … } a row per step and per evaluation
//   events.jsonl                          the kept events; samples without their groups
//   rollouts/step_N/{train,eval}/rollouts.jsonl   one rollout a line
//   checkpoints/step_N/save.bin           the newest saves; kept ones also hold the adapter
//   adapter/                              adapter_model.safetensors, adapter_config.json at the end
//   run.json                              name, state, attempt
//   writer.lock                           process id of whoever writes

import { appendFile, mkdir, readdir, readFile, rename, rm, statfs, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { stringify } from 'smol-toml'
import type { RunConfig } from '../../configs/schema.ts'
import type { Split } from '../../environments/messages.ts'
import type { ExportedFile, RunEvent, SaveDescription } from '../protocol.ts'
import { exists, guarded, ignoreMissing, readFiles, replaceFile, sizeOf, sync } from './files.node.ts'
import { lockHolder, releaseRun, takeLock } from './lock.node.ts'
import { decodeSave, encodeSave, type SaveRecord } from './record.ts'
import { fromRolloutLines, toRolloutLines } from './rolloutLines.ts'
import {
  isKept,
  type KeptCheckpoint,
  type RunFiles,
  type RunLibrary,
  type RunSummary,
  type RunWriter,
  type SamplesEvent,
  surplusCheckpoints,
} from './store.ts'

const SAVE_FILE = 'save.bin'

/** The runs below one folder; a run's name is its folder's. */
export class NodeRunLibrary implements RunLibrary {
  readonly root: string
  readonly #toToml: (config: RunConfig) => string

  /** `toToml` spells the config of configs/rl.toml; TOML has no null, and without it such knobs are left out. */
  constructor(root: string, toToml: (config: RunConfig) => string = (config) => stringify(withoutNulls(config))) {
    this.root = root
    this.#toToml = toToml
  }

  async list(): Promise<RunSummary[]> {
    const entries = await readdir(this.root, { withFileTypes: true }).catch(() => [])
    const runs = await Promise.all(
      entries.filter((entry) => entry.isDirectory()).map((entry) => readSummary(join(this.root, entry.name))),
    )
    return runs.filter((run) => run !== null).sort((a, b) => b.updated - a.updated)
  }

  async files(run: string): Promise<RunFiles> {
    const folder = join(this.root, run)
    const steps = await checkpointSteps(folder)
    const kept: number[] = []
    for (const step of steps) if (await isKeptCheckpoint(folder, step)) kept.push(step)
    return { bytes: await sizeOf(folder), checkpoints: kept, savedStep: steps.at(-1) ?? null }
  }

  async events(run: string): Promise<RunEvent[]> {
    return readEvents(join(this.root, run))
  }

  async samples(run: string, step: number, split: Split): Promise<SamplesEvent | null> {
    const folder = join(this.root, run)
    const stub = (await readEvents(folder)).findLast(
      (event) => event.kind === 'samples' && event.step === step && event.split === split,
    ) as SamplesEvent | undefined
    if (!stub) return null
    const lines = await readFile(samplesFile(folder, step, split), 'utf8')
    return { ...stub, groups: fromRolloutLines(lines) }
  }

  async checkpoint(run: string, step: number): Promise<ExportedFile[]> {
    return readFiles(checkpointFolder(join(this.root, run), step))
  }

  async adapter(run: string): Promise<ExportedFile[]> {
    return readFiles(join(this.root, run, 'adapter'))
  }

  async remove(run: string): Promise<void> {
    const folder = join(this.root, run)
    if (!(await readSummary(folder))) throw new Error(`Removed nothing: ${folder} holds no run.`)
    const writer = await this.open(run)
    await rm(folder, { recursive: true, force: true })
    await writer.close()
  }

  async usage(): Promise<{ usedBytes: number | null; quotaBytes: number | null }> {
    const disk = await statfs(this.root).catch(() => null)
    const usedBytes = await sizeOf(this.root)
    return { usedBytes, quotaBytes: disk ? usedBytes + disk.bavail * disk.bsize : null }
  }

  async isWritten(run: string): Promise<boolean> {
    return (await lockHolder(join(this.root, run))) !== null
  }

  async open(run: string): Promise<RunWriter> {
    const folder = join(this.root, run)
    await mkdir(folder, { recursive: true })
    await takeLock(folder)
    return new NodeRunWriter(folder, this.#toToml)
  }
}

class NodeRunWriter implements RunWriter {
  readonly run: string
  #folder: string
  #toToml: (config: RunConfig) => string
  #describedConfig = ''
  #describing: Promise<void> = Promise.resolve()

  constructor(folder: string, toToml: (config: RunConfig) => string) {
    this.run = basename(folder)
    this.#folder = folder
    this.#toToml = toToml
  }

  summary(): Promise<RunSummary | null> {
    return readSummary(this.#folder)
  }

  /** One at a time, in the order of the calls. */
  describe(summary: RunSummary): Promise<void> {
    const done = this.#describing.then(() => this.#describe(summary))
    this.#describing = done.catch(() => {})
    return done
  }

  async #describe(summary: RunSummary): Promise<void> {
    const json = `${JSON.stringify(summary.config, null, 2)}\n`
    if (json !== this.#describedConfig) {
      const configs = join(this.#folder, 'configs')
      await mkdir(configs, { recursive: true })
      await replaceFile(join(configs, `${summary.config.type}.json`), json)
      await replaceFile(join(configs, `${summary.config.type}.toml`), `${this.#toToml(summary.config).trim()}\n`)
      this.#describedConfig = json
    }
    await replaceFile(join(this.#folder, 'run.json'), `${JSON.stringify(summary, null, 2)}\n`)
  }

  async append(events: RunEvent[]): Promise<void> {
    const kept = events.filter(isKept)
    if (kept.length === 0) return
    await guarded(`events of run ${this.run}`, async () => {
      for (const event of kept) {
        if (event.kind !== 'samples') continue
        const file = samplesFile(this.#folder, event.step, event.split)
        await mkdir(dirname(file), { recursive: true })
        await replaceFile(file, toRolloutLines(event))
      }
      await appendFile(join(this.#folder, 'events.jsonl'), kept.map(eventLine).join(''))
      const rows = kept.map(metricsLine).join('')
      if (rows) await appendFile(join(this.#folder, 'metrics.jsonl'), rows)
    })
  }

  async save(record: SaveRecord, kept: KeptCheckpoint | null): Promise<SaveDescription> {
    const { step } = record.header
    const bytes = encodeSave(record)
    const partial = join(this.#folder, 'checkpoints', `.step_${step}.partial`)
    await guarded(`the save of step ${step}`, async () => {
      for (const name of ['events.jsonl', 'metrics.jsonl']) await sync(join(this.#folder, name))
      await rm(partial, { recursive: true, force: true })
      await mkdir(partial, { recursive: true })
      for (const file of [{ name: SAVE_FILE, bytes }, ...(kept?.files ?? [])]) {
        await writeFile(join(partial, file.name), file.bytes)
        await sync(join(partial, file.name))
      }
      // A folder cannot be renamed onto one that is there: a repeated save of one step puts the old one aside first.
      const target = checkpointFolder(this.#folder, step)
      const aside = join(this.#folder, 'checkpoints', `.step_${step}.old`)
      await rename(target, aside).catch(ignoreMissing)
      await rename(partial, target)
      await sync(dirname(target))
      await rm(aside, { recursive: true, force: true })
    })
    await this.#prune(step, kept)
    return { step, bytes: bytes.length, kept: kept !== null }
  }

  async newestSave(): Promise<{ record: SaveRecord | null; notes: string[] }> {
    const notes: string[] = []
    await this.#recoverAside()
    for (const step of (await checkpointSteps(this.#folder)).reverse()) {
      const file = join(checkpointFolder(this.#folder, step), SAVE_FILE)
      try {
        return { record: decodeSave(await readFile(file)), notes }
      } catch (error) {
        notes.push(`Passed over ${file}: ${(error as Error).message}`)
      }
    }
    return { record: null, notes }
  }

  async cut(seq: number): Promise<void> {
    const events = await readEvents(this.#folder)
    for (const event of events) {
      if (event.kind !== 'samples' || event.seq <= seq) continue
      await rm(samplesFile(this.#folder, event.step, event.split), { force: true })
    }
    const kept = events.filter((event) => event.seq <= seq)
    await replaceFile(join(this.#folder, 'metrics.jsonl'), kept.map(metricsLine).join(''))
    await replaceFile(join(this.#folder, 'events.jsonl'), kept.map(eventLine).join(''))
  }

  async putAdapter(files: ExportedFile[]): Promise<void> {
    const folder = join(this.#folder, 'adapter')
    await mkdir(folder, { recursive: true })
    for (const file of files) await replaceFile(join(folder, file.name), file.bytes)
  }

  async close(): Promise<void> {
    await releaseRun(this.#folder)
  }

  // Two automatic saves stay, so that one torn by a failing disk leaves the one before it.
  async #prune(newest: number, rule: KeptCheckpoint | null): Promise<void> {
    const automatic: number[] = []
    const kept: number[] = []
    for (const step of await checkpointSteps(this.#folder)) {
      if (step > newest) continue
      if (await isKeptCheckpoint(this.#folder, step)) kept.push(step)
      else automatic.push(step)
    }
    const surplus = [...automatic.slice(0, -2), ...(rule ? surplusCheckpoints(kept, rule) : [])]
    for (const step of surplus) await rm(checkpointFolder(this.#folder, step), { recursive: true, force: true })
  }

  // A crash between the two renames of `save` leaves the old folder aside and nothing in its place.
  async #recoverAside(): Promise<void> {
    const names = await readdir(join(this.#folder, 'checkpoints')).catch(() => [])
    for (const name of names) {
      const match = /^\.step_(\d+)\.old$/.exec(name)
      if (!match) continue
      const target = checkpointFolder(this.#folder, Number(match[1]))
      const aside = join(this.#folder, 'checkpoints', name)
      if (await exists(target)) await rm(aside, { recursive: true, force: true })
      else await rename(aside, target)
    }
  }
}

// ── Lines ────────────────────────────────────────────────────────────────────────────────────────────────────────

function eventLine(event: RunEvent): string {
  return `${JSON.stringify(event.kind === 'samples' ? { ...event, groups: [] } : event)}\n`
}

function metricsLine(event: RunEvent): string {
  if (event.kind !== 'step' && event.kind !== 'evaluation') return ''
  // Seconds since the epoch, as prime-rl writes them.
  return `${JSON.stringify({ step: event.step, time: event.time / 1000, ...event.metrics })}\n`
}

async function readEvents(folder: string): Promise<RunEvent[]> {
  const text = await readFile(join(folder, 'events.jsonl'), 'utf8').catch(() => '')
  // Whatever follows the last line end was being written when the process died.
  const whole = text.slice(0, text.lastIndexOf('\n') + 1)
  return whole
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as RunEvent)
}

// ── Files ────────────────────────────────────────────────────────────────────────────────────────────────────────

function checkpointFolder(folder: string, step: number): string {
  return join(folder, 'checkpoints', `step_${step}`)
}

function samplesFile(folder: string, step: number, split: Split): string {
  return join(folder, 'rollouts', `step_${step}`, split, 'rollouts.jsonl')
}

/** Steps of the complete checkpoint folders, increasing. */
async function checkpointSteps(folder: string): Promise<number[]> {
  const names = await readdir(join(folder, 'checkpoints')).catch(() => [])
  return names
    .map((name) => /^step_(\d+)$/.exec(name))
    .filter((match) => match !== null)
    .map((match) => Number(match[1]))
    .sort((a, b) => a - b)
}

// An automatic save is one file; a kept one lies beside the adapter.
async function isKeptCheckpoint(folder: string, step: number): Promise<boolean> {
  return (await readdir(checkpointFolder(folder, step))).length > 1
}

async function readSummary(folder: string): Promise<RunSummary | null> {
  const text = await readFile(join(folder, 'run.json'), 'utf8').catch(() => null)
  return text === null ? null : (JSON.parse(text) as RunSummary)
}

function withoutNulls(value: unknown): Record<string, unknown> {
  return JSON.parse(JSON.stringify(value, (_, inner) => (inner === null ? undefined : inner)))
}
