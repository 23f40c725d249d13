// The wanted adapters, as rows. Every node is made to serve them, whatever it forgets.

import type { WantedAdapter } from '../names.ts'

export interface AdapterRow extends WantedAdapter {
  id: string
  rank: number
  bytes: number
  sha256: string
  /** ms since 1970. */
  createdAt: number
}

export interface AdapterStore {
  list(): Promise<AdapterRow[]>
  /** Throws when the project has this name and version already. */
  add(row: AdapterRow): Promise<void>
  remove(id: string): Promise<void>
}

/** For a server without a database, and for tests. */
export class AdaptersInMemory implements AdapterStore {
  #rows = new Map<string, AdapterRow>()

  async list() {
    return [...this.#rows.values()]
  }

  async add(row: AdapterRow) {
    for (const { project, name, version } of this.#rows.values())
      if (project === row.project && name === row.name && version === row.version)
        throw new Error(`${project} has ${name}@${version} already`)
    this.#rows.set(row.id, row)
  }

  async remove(id: string) {
    this.#rows.delete(id)
  }
}
