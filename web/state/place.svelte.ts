// A place where runs are: this tab, or a server; and the runs kept there.

import type { Connection } from '../connect.ts'
import { Shelf } from './shelf.svelte.ts'

export class Place {
  readonly connection: Connection
  readonly shelf: Shelf

  constructor(connection: Connection) {
    this.connection = connection
    this.shelf = new Shelf(connection)
  }

  /** A run here ends with the page; elsewhere it goes on. */
  get isTab(): boolean {
    return this.connection.kind === 'tab'
  }
}
