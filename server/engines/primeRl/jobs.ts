// What the server remembers of its jobs on a cluster: a file each, on the server's own disk, written whole.

import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { RunConfig } from '../../../configs/schema.ts'
import { ULID } from '../../store/ids.ts'
import type { JobStart } from '../engine.ts'
import type { Sighting } from './scheduler.ts'

export interface JobRecord {
  /** Of the attempt; the engine's own id of the job. */
  key: string
  run: string
  attempt: number
  name: string
  config: RunConfig
  /** Over several nodes prime-rl first writes its own job, in a small one: `render`. */
  step: 'train' | 'render' | 'rendered'
  /** The batch system's id; null until it has told. */
  id: string | null
  /** Whether it may run: a crash can leave one that is known and still held. */
  launched: boolean
  fromStep: number
  metricsFrom: number
  logsFrom: number
  submittedAt: number
  /** The last answer, which stands where the batch system has forgotten the job. */
  seen: Sighting | null
  /** When it had its GPUs; absent in what an older server wrote. */
  starts?: JobStart[]
  /** Asked to end. */
  cancel: 'graceful' | 'now' | null
  cancelledAt: number | null
  /** How often the job had been started again when its secrets were last written; null for a run without any. */
  secretsFor: number | null
  /** Refused by the batch system: the sentence. */
  refused: string | null
}

export class JobBook {
  constructor(private readonly folder: string) {}

  async read(key: string): Promise<JobRecord | null> {
    if (!ULID.test(key)) return null
    const text = await readFile(this.#path(key), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return null
      throw error
    })
    return text === null ? null : (JSON.parse(text) as JobRecord)
  }

  async write(record: JobRecord): Promise<void> {
    if (!ULID.test(record.key)) throw new Error(`internal: "${record.key}" is no key of a job`)
    await mkdir(this.folder, { recursive: true, mode: 0o700 })
    const partial = `${this.#path(record.key)}.${Math.random().toString(36).slice(2)}.partial`
    const file = await open(partial, 'wx', 0o600)
    try {
      await file.writeFile(JSON.stringify(record))
      await file.datasync()
    } finally {
      await file.close()
    }
    await rename(partial, this.#path(record.key))
  }

  async keys(): Promise<string[]> {
    const names = await readdir(this.folder).catch(() => [] as string[])
    return names
      .filter((name) => name.endsWith('.json'))
      .map((name) => name.slice(0, -5))
      .filter((key) => ULID.test(key))
      .sort()
  }

  async forget(key: string): Promise<void> {
    if (ULID.test(key)) await rm(this.#path(key), { force: true })
  }

  #path(key: string): string {
    return join(this.folder, `${key}.json`)
  }
}
