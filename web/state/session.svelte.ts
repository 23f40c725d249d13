// Who one is at the server. A page that nobody has signed in asks for a key once, and gives it to the server for a cookie
// that no script can read. A link with a one-time token is the server's own affair: the page never sees it.

import type { SessionView } from '../../server/access/routes.ts'
import { ServerRefusal, whenSignedOut } from '../server/ask.ts'
import { answer, api } from '../server/client.ts'

export class Session {
  #view = $state.raw<SessionView | null>(null)
  #problem = $state<string | null>(null)
  #busy = $state(false)

  constructor() {
    whenSignedOut(() => {
      if (this.#view?.signedIn) void this.open()
    })
  }

  /** null until the server has answered. */
  get view() {
    return this.#view
  }
  get problem() {
    return this.#problem
  }
  get busy() {
    return this.#busy
  }
  get signedIn(): boolean {
    return this.#view?.signedIn ?? false
  }
  get scopes(): readonly string[] {
    return this.#view?.signedIn ? this.#view.scopes : []
  }

  /** Finds out who one is. */
  async open(): Promise<void> {
    await this.#take(answer(api.session.$get()))
  }

  /** Gives a key to the server once. The page does not keep it. */
  async signIn(key: string): Promise<void> {
    await this.#take(answer(api.session.$post({ json: { key: key.trim() } })))
  }

  async signOut(): Promise<void> {
    await api.session.$delete().catch(() => {})
    await this.open()
  }

  async #take(view: Promise<SessionView>): Promise<void> {
    this.#busy = true
    this.#problem = null
    try {
      this.#view = await view
    } catch (error) {
      // A server without access control lets everybody in.
      if (error instanceof ServerRefusal && error.status === 404) this.#view = OPEN
      else this.#problem = error instanceof Error ? error.message : String(error)
    }
    this.#busy = false
  }
}

const OPEN: SessionView = { signedIn: true, reach: 'loopback', key: '', project: 'default', scopes: ['operator'] }
