// The runs that are kept somewhere, newest first, and the room they take.

import type { RunFiles } from '../../workers/storage/store.ts'
import type { Connection, RunLine } from '../connect.ts'

export interface ShelfRow {
  summary: RunLine
  files: RunFiles | null
  /** Another tab writes it now. */
  elsewhere: boolean
}

export class Shelf {
  #connection: Connection
  #rows = $state.raw<ShelfRow[]>([])
  #usage = $state.raw<{ usedBytes: number | null; quotaBytes: number | null } | null>(null)
  #problem = $state<string | null>(null)

  constructor(connection: Connection) {
    this.#connection = connection
  }

  get rows() {
    return this.#rows
  }
  get usage() {
    return this.#usage
  }
  get problem() {
    return this.#problem
  }

  /** The newest run that was cut off, if it can go on: offered after a reload. */
  readonly interrupted = $derived(
    this.#rows.find(
      ({ summary, files, elsewhere }) =>
        !elsewhere && ['running', 'loading', 'paused'].includes(summary.state) && files?.savedStep != null,
    ) ?? null,
  )

  /** The newest run that a server is at work on. */
  readonly atWork = $derived(
    this.#rows.find(({ summary }) => summary.state === 'running' || summary.state === 'loading')?.summary ?? null,
  )

  async refresh(): Promise<void> {
    if (this.#connection.kind === 'tab' && !isSecureContext) {
      this.#problem = 'Browsers keep runs for secure addresses only, so there are none here.'
      return
    }
    try {
      const runs = await this.#connection.runs()
      const summaries = await runs.list()
      this.#rows = await Promise.all(
        summaries.map(async (summary) => ({
          summary,
          files: await runs.files(summary.run).catch(() => null),
          elsewhere: await runs.isWritten(summary.run),
        })),
      )
      this.#usage = await runs.usage()
      this.#problem = null
    } catch (error) {
      const sentence = error instanceof Error ? error.message : String(error)
      this.#problem =
        this.#connection.kind === 'tab' ? `The runs of this browser could not be read: ${sentence}` : sentence
    }
  }
}
