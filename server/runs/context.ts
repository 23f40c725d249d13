// What every part of the run API works with: the store, the engines, and who is to be told of a change.

import { join } from 'node:path'
import type { Engine } from '../engines/engine.ts'
import type { ArtifactStore } from '../store/artifacts/artifacts.ts'
import { EventFile } from '../store/events/eventFile.ts'
import type { Store } from '../store/open.ts'
import type { Redaction } from './redaction.ts'

export interface Limits {
  /** Ended runs older than this are deleted; null for never. */
  keepDays: number | null
  /** Of all runs; the oldest ended ones are deleted above it. */
  keepBytes: number | null
  /** Of one project; submits are refused above it. */
  projectBytes: number | null
  /** Submits are refused when the disk has less room than this. */
  freeBytes: number
}

export const DEFAULT_LIMITS: Limits = {
  keepDays: null,
  keepBytes: null,
  projectBytes: null,
  freeBytes: 512 * 1024 * 1024,
}

/** The variables of a project's secret sets, by the names of the sets. Throws a sentence for a set that is not there. */
export type SecretsOf = (project: string, sets: string[]) => Promise<Record<string, string>>

export interface RunsContext {
  store: Store
  artifacts: ArtifactStore
  engines: Map<string, Engine>
  limits: Limits
  secrets: SecretsOf
  redaction: Redaction
  files: EventFiles
  changes: Changes
  /** A failure that nobody is waiting for. */
  report(what: string, error: unknown): void
}

/** The event files of this store, one object per run, so that there is one writer to each. */
export class EventFiles {
  #store: Store
  #files = new Map<string, EventFile>()

  constructor(store: Store) {
    this.#store = store
  }

  of(run: string): EventFile {
    let file = this.#files.get(run)
    if (!file) {
      file = new EventFile(this.#store.db, this.folder(run), run)
      this.#files.set(run, file)
    }
    return file
  }

  folder(run: string): string {
    return join(this.#store.folder, 'runs', run)
  }

  forget(run: string): void {
    this.#files.delete(run)
  }
}

/** Tells followers that a run's row has changed. */
export class Changes {
  #listeners = new Map<string, Set<() => void>>()

  on(run: string, listener: () => void): () => void {
    const listeners = this.#listeners.get(run) ?? new Set()
    this.#listeners.set(run, listeners.add(listener))
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0 && this.#listeners.get(run) === listeners) this.#listeners.delete(run)
    }
  }

  tell(run: string): void {
    for (const listener of [...(this.#listeners.get(run) ?? [])]) listener()
  }
}
