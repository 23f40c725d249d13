// What each key used, by day and model: added up in memory, written now and then. A failed write is made good by the next.

import type { Account } from './account.ts'
import type { UsageView } from './views.ts'

export interface UsageQuery {
  /** UTC days, both included. */
  from: string
  to: string
  key?: string
  project?: string
}

export interface UsageStore {
  /** Adds to what is there. */
  add(rows: readonly UsageView[]): Promise<void>
  read(query: UsageQuery): Promise<UsageView[]>
}

const WRITE_EVERY = 10_000

export class Usage {
  #rows = new Map<string, UsageView>()
  #writing: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout

  constructor(private readonly store: UsageStore) {
    this.#timer = setInterval(() => void this.write().catch(() => {}), WRITE_EVERY)
    this.#timer.unref()
  }

  count({ caller, model, outcome, tokens }: Account) {
    const day = new Date().toISOString().slice(0, 10)
    const key = JSON.stringify([day, caller.project, caller.key, model])
    let row = this.#rows.get(key)
    if (!row) {
      row = { ...NOTHING, day, project: caller.project, key: caller.key, model: model ?? '' }
      this.#rows.set(key, row)
    }
    row.requests++
    if (outcome === 'failed' || outcome === 'cut') row.failed++
    row.promptTokens += tokens.prompt
    row.completionTokens += tokens.completion
    if (tokens.estimated) row.estimated++
  }

  /** Writes what has been counted. Throws when the store does, and keeps it all. */
  write(): Promise<void> {
    this.#writing = this.#writing
      .catch(() => {})
      .then(async () => {
        const rows = this.#rows
        if (!rows.size) return
        this.#rows = new Map()
        try {
          await this.store.add([...rows.values()])
        } catch (error) {
          for (const [key, row] of this.#rows) rows.set(key, sum(rows.get(key), row))
          this.#rows = rows
          throw error
        }
      })
    return this.#writing
  }

  async read(query: UsageQuery): Promise<UsageView[]> {
    await this.write()
    return this.store.read(query)
  }

  async close() {
    clearInterval(this.#timer)
    await this.write()
  }
}

const NOTHING = { requests: 0, failed: 0, promptTokens: 0, completionTokens: 0, estimated: 0 }

function sum(a: UsageView | undefined, b: UsageView): UsageView {
  if (!a) return b
  return {
    ...a,
    requests: a.requests + b.requests,
    failed: a.failed + b.failed,
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    estimated: a.estimated + b.estimated,
  }
}

const COLUMNS = [
  ...(['day', 'project', 'key', 'model', 'requests', 'failed'] as const),
  ...(['promptTokens', 'completionTokens', 'estimated'] as const),
]

/** A table for a spreadsheet. A cell that a spreadsheet would take for a formula is made text by a leading quote. */
export function toCsv(rows: readonly UsageView[]): string {
  const cell = (value: string | number) => {
    const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value)
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }
  return [COLUMNS.join(','), ...rows.map((row) => COLUMNS.map((column) => cell(row[column])).join(','))]
    .map((line) => `${line}\r\n`)
    .join('')
}

/** For a server without a database, and for tests. Forgotten with the process. */
export class UsageInMemory implements UsageStore {
  #rows = new Map<string, UsageView>()

  async add(rows: readonly UsageView[]) {
    for (const row of rows) {
      const key = JSON.stringify([row.day, row.project, row.key, row.model])
      this.#rows.set(key, sum(this.#rows.get(key), row))
    }
  }

  async read({ from, to, key, project }: UsageQuery) {
    return [...this.#rows.values()]
      .filter((row) => row.day >= from && row.day <= to)
      .filter((row) => (key === undefined || row.key === key) && (project === undefined || row.project === project))
      .sort((a, b) => (a.day + a.project + a.key + a.model < b.day + b.project + b.key + b.model ? -1 : 1))
  }
}
