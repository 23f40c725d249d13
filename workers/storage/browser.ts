// Runs in a browser: summaries, events and samples in IndexedDB; saves and checkpoints in the origin's private file
// system (OPFS), where big writes are cheap. Works in a page and in a worker; knows nothing of training.
//
// A run's newest save lies in one of two slots. A save is written to the other slot, and only then does the pointer in
// IndexedDB turn to it, in one durable transaction: a tab killed at any moment leaves a whole save behind the pointer.

import { type DBSchema, type IDBPDatabase, openDB } from 'idb'
import type { Split } from '../../environments/messages.ts'
import type { ExportedFile, RunEvent, SaveDescription } from '../protocol.ts'
import { type BlobFolder, openBlobFolder } from './blobs.browser.ts'
import { decodeSave, encodeSave, type SaveRecord } from './record.ts'
import {
  type CheckpointLibrary,
  isKept,
  type KeptCheckpoint,
  type RunFiles,
  type RunSummary,
  type RunWriter,
  type SamplesEvent,
  StorageFull,
  surplusCheckpoints,
} from './store.ts'

type Slot = 'a' | 'b'

/** Which slot holds the newest save. */
interface Pointer {
  run: string
  slot: Slot
  step: number
}

interface SamplesRow {
  run: string
  step: number
  split: Split
  seq: number
  /** The event as JSON, gzipped: a tenth of the space, and its size is known. */
  gzip: Uint8Array
}

interface Schema extends DBSchema {
  runs: { key: string; value: RunSummary }
  events: { key: [string, number]; value: RunEvent }
  samples: { key: [string, number, Split]; value: SamplesRow }
  pointers: { key: string; value: Pointer }
}

export interface BrowserStorageOptions {
  /** Name of the database and of the folder in OPFS. */
  name?: string
}

export async function openBrowserLibrary({
  name = 'rollout-lab',
}: BrowserStorageOptions = {}): Promise<CheckpointLibrary> {
  const database = await openDB<Schema>(name, 1, {
    upgrade(fresh) {
      fresh.createObjectStore('runs', { keyPath: 'run' })
      fresh.createObjectStore('events', { keyPath: ['run', 'seq'] })
      fresh.createObjectStore('samples', { keyPath: ['run', 'step', 'split'] })
      fresh.createObjectStore('pointers', { keyPath: 'run' })
    },
    // Another tab wants to change the layout of the database; this one steps aside.
    blocking: (_current, _wanted, event) => (event.target as IDBDatabase).close(),
  })
  return new BrowserRunLibrary(database, await openBlobFolder(name), name)
}

class BrowserRunLibrary implements CheckpointLibrary {
  #database: IDBPDatabase<Schema>
  #blobs: BlobFolder
  #name: string

  constructor(database: IDBPDatabase<Schema>, blobs: BlobFolder, name: string) {
    this.#database = database
    this.#blobs = blobs
    this.#name = name
  }

  async list(): Promise<RunSummary[]> {
    return (await this.#database.getAll('runs')).sort((a, b) => b.updated - a.updated)
  }

  async files(run: string): Promise<RunFiles> {
    const files = await this.#blobs.list(run)
    let bytes = files.reduce((sum, file) => sum + file.bytes, 0)
    for (const row of await this.#database.getAll('samples', ofRun(run))) bytes += row.gzip.length
    const pointer = await this.#database.get('pointers', run)
    return { bytes, checkpoints: keptSteps(files), savedStep: pointer?.step ?? null }
  }

  events(run: string): Promise<RunEvent[]> {
    return this.#database.getAll('events', ofRun(run))
  }

  async samples(run: string, step: number, split: Split): Promise<SamplesEvent | null> {
    const row = await this.#database.get('samples', [run, step, split])
    return row ? (JSON.parse(await gunzip(row.gzip)) as SamplesEvent) : null
  }

  checkpoint(run: string, step: number): Promise<ExportedFile[]> {
    return this.#read(run, `step_${step}/`)
  }

  adapter(run: string): Promise<ExportedFile[]> {
    return this.#read(run, 'adapter/')
  }

  async remove(run: string): Promise<void> {
    const writer = await this.open(run)
    try {
      const transaction = this.#database.transaction(['runs', 'events', 'samples', 'pointers'], 'readwrite')
      await Promise.all([
        transaction.objectStore('runs').delete(run),
        transaction.objectStore('events').delete(ofRun(run)),
        transaction.objectStore('samples').delete(ofRun(run)),
        transaction.objectStore('pointers').delete(run),
        transaction.done,
      ])
      await this.#blobs.removeFolder(run)
    } finally {
      await writer.close()
    }
  }

  async saves(run: string): Promise<{ step: number | null; bytes: number }[]> {
    const files = await this.#blobs.list(run)
    const sum = (prefix: string) =>
      files.filter(({ name }) => name.startsWith(prefix)).reduce((bytes, file) => bytes + file.bytes, 0)
    const slots = sum('slot-')
    const kept = keptSteps(files).map((step) => ({ step, bytes: sum(`step_${step}/`) }))
    return slots > 0 ? [{ step: null, bytes: slots }, ...kept] : kept
  }

  async removeCheckpoint(run: string, step: number): Promise<void> {
    await removeCheckpoint(this.#blobs, run, step)
  }

  async takeSave(bytes: Uint8Array): Promise<string> {
    const record = decodeSave(bytes)
    const { run, step, config, attempt, seq, savedAt } = record.header
    const writer = await this.open(run)
    try {
      const there = (await writer.newestSave()).record?.header.step ?? -1
      if (there > step) {
        throw new Error(
          `Took no save: run ${run} is saved up to step ${there} here, and the file is of step ${step}. Delete the run first to go back to it.`,
        )
      }
      const known = await writer.summary()
      const name = config.name ?? run
      const fresh = { run, name, config, attempt, created: savedAt, reason: null, seqCeiling: seq }
      await writer.describe({
        ...(known ?? fresh),
        ...{ state: 'stopped', step, updated: Date.now(), seqCeiling: Math.max(known?.seqCeiling ?? 0, seq) },
      })
      await writer.save(record, null)
      return run
    } finally {
      await writer.close()
    }
  }

  async usage(): Promise<{ usedBytes: number | null; quotaBytes: number | null }> {
    const estimate = await navigator.storage?.estimate?.()
    return { usedBytes: estimate?.usage ?? null, quotaBytes: estimate?.quota ?? null }
  }

  async isWritten(run: string): Promise<boolean> {
    const { held = [] } = (await navigator.locks?.query()) ?? {}
    return held.some(({ name }) => name === lockName(this.#name, run))
  }

  async open(run: string): Promise<RunWriter> {
    const release = await takeLock(lockName(this.#name, run), run)
    return new BrowserRunWriter(run, this.#database, this.#blobs, release)
  }

  async #read(run: string, prefix: string): Promise<ExportedFile[]> {
    const names = (await this.#blobs.list(run)).map((file) => file.name).filter((name) => name.startsWith(prefix))
    return Promise.all(
      names.map(async (name) => ({ name: name.slice(prefix.length), bytes: await this.#blobs.read(run, name) })),
    )
  }
}

class BrowserRunWriter implements RunWriter {
  readonly run: string
  #database: IDBPDatabase<Schema>
  #blobs: BlobFolder
  #release: () => void

  constructor(run: string, database: IDBPDatabase<Schema>, blobs: BlobFolder, release: () => void) {
    this.run = run
    this.#database = database
    this.#blobs = blobs
    this.#release = release
  }

  async summary(): Promise<RunSummary | null> {
    return (await this.#database.get('runs', this.run)) ?? null
  }

  async describe(summary: RunSummary): Promise<void> {
    await this.#guarded('the list of runs', () => this.#database.put('runs', summary))
  }

  async append(events: RunEvent[]): Promise<void> {
    const kept = events.filter(isKept)
    if (kept.length === 0) return
    const rows: SamplesRow[] = []
    for (const event of kept) {
      if (event.kind !== 'samples') continue
      const { step, split, seq } = event
      rows.push({ run: this.run, step, split, seq, gzip: await gzip(JSON.stringify(event)) })
    }
    await this.#guarded('what the last step left behind', async () => {
      const transaction = this.#database.transaction(['events', 'samples'], 'readwrite')
      const events = transaction.objectStore('events')
      await Promise.all([
        ...kept.map((event) => events.put(event.kind === 'samples' ? { ...event, groups: [] } : event)),
        ...rows.map((row) => transaction.objectStore('samples').put(row)),
        transaction.done,
      ])
    })
  }

  async save(record: SaveRecord, kept: KeptCheckpoint | null): Promise<SaveDescription> {
    const { step } = record.header
    const bytes = encodeSave(record)
    const current = await this.#database.get('pointers', this.run)
    const slot: Slot = current?.slot === 'a' ? 'b' : 'a'
    await this.#guarded(`the save of step ${step}`, async () => {
      await this.#blobs.write(this.run, `slot-${slot}`, bytes)
      if (kept) {
        // The save comes last: a checkpoint is there when its save is.
        for (const file of kept.files) await this.#blobs.write(this.run, `step_${step}/${file.name}`, file.bytes)
        await this.#blobs.write(this.run, `step_${step}/save.bin`, bytes)
      }
      await this.#pointTo({ run: this.run, slot, step })
    })
    if (kept) await this.#prune(kept)
    return { step, bytes: bytes.length, kept: kept !== null }
  }

  async newestSave(): Promise<{ record: SaveRecord | null; notes: string[] }> {
    const notes: string[] = []
    const pointer = await this.#database.get('pointers', this.run)
    if (!pointer) return { record: null, notes }
    for (const slot of pointer.slot === 'a' ? (['a', 'b'] as const) : (['b', 'a'] as const)) {
      try {
        const record = decodeSave(await this.#blobs.read(this.run, `slot-${slot}`))
        // The next save goes to the slot that is not pointed to, and must not overwrite the only whole one.
        if (slot !== pointer.slot) await this.#pointTo({ run: this.run, slot, step: record.header.step })
        return { record, notes }
      } catch (error) {
        notes.push(`Passed over the save in slot ${slot} of run ${this.run}: ${(error as Error).message}`)
      }
    }
    return { record: null, notes }
  }

  async cut(seq: number): Promise<void> {
    const transaction = this.#database.transaction(['events', 'samples'], 'readwrite')
    const events = transaction.objectStore('events')
    const samples = transaction.objectStore('samples')
    await events.delete(IDBKeyRange.bound([this.run, seq], [this.run, []], true))
    for (const row of await samples.getAll(ofRun(this.run))) {
      if (row.seq > seq) await samples.delete([row.run, row.step, row.split])
    }
    await transaction.done
  }

  async putAdapter(files: ExportedFile[]): Promise<void> {
    await this.#guarded('the adapter', async () => {
      for (const file of files) await this.#blobs.write(this.run, `adapter/${file.name}`, file.bytes)
    })
  }

  async close(): Promise<void> {
    this.#release()
  }

  async #pointTo(pointer: Pointer): Promise<void> {
    const transaction = this.#database.transaction('pointers', 'readwrite', { durability: 'strict' })
    await Promise.all([transaction.store.put(pointer), transaction.done])
  }

  async #prune(rule: KeptCheckpoint): Promise<void> {
    const steps = keptSteps(await this.#blobs.list(this.run))
    for (const step of surplusCheckpoints(steps, rule)) await removeCheckpoint(this.#blobs, this.run, step)
  }

  async #guarded(what: string, write: () => Promise<unknown>): Promise<void> {
    try {
      await write()
    } catch (error) {
      if ((error as Error).name !== 'QuotaExceededError') throw error
      const { usage, quota } = (await navigator.storage?.estimate?.()) ?? {}
      const room = usage && quota ? ` It holds ${megabytes(usage)} of the ${megabytes(quota)} it may.` : ''
      throw new StorageFull(
        `The browser had no room for ${what} of run ${this.run}.${room} ` +
          'What was saved before is whole; delete an old run or free some disk space, and go on.',
        { cause: error },
      )
    }
  }
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6).toLocaleString('en')} MB`
}

// An array sorts after every number and string, so [run, []] ends what begins with `run`.
function ofRun(run: string): IDBKeyRange {
  return IDBKeyRange.bound([run], [run, []])
}

function keptSteps(files: { name: string }[]): number[] {
  return files
    .map((file) => /^step_(\d+)\/save\.bin$/.exec(file.name))
    .filter((match) => match !== null)
    .map((match) => Number(match[1]))
    .sort((a, b) => a - b)
}

async function removeCheckpoint(blobs: BlobFolder, run: string, step: number): Promise<void> {
  for (const { name } of await blobs.list(run)) if (name.startsWith(`step_${step}/`)) await blobs.remove(run, name)
}

async function gzip(text: string): Promise<Uint8Array> {
  const packed = new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'))
  return new Uint8Array(await new Response(packed).arrayBuffer())
}

async function gunzip(bytes: Uint8Array): Promise<string> {
  const text = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream('gzip'))
  return new Response(text).text()
}

function lockName(library: string, run: string): string {
  return `${library}/${run}`
}

// The browser lets go of the lock when the tab or the worker ends, however it ends.
async function takeLock(name: string, run: string): Promise<() => void> {
  if (!navigator.locks) return () => {}
  return new Promise((resolve, reject) => {
    const held = navigator.locks.request(name, { ifAvailable: true }, (lock) => {
      if (!lock) throw new Error(`Run ${run} is open for writing in another tab: close it there, or go on there.`)
      return new Promise<void>((release) => resolve(release))
    })
    held.catch(reject)
  })
}
