// Who one is at the server. A page that nobody has signed in asks for a key once, and gives it to the server for a cookie
// that no script can read; a link with a one-time token is exchanged in the same way, and leaves the address bar.

import type { SessionView } from '../../server/access/routes.ts'
import { ask, json, ServerRefusal, whenSignedOut } from '../server/ask.ts'

const TOKEN = 'token'

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

  /** Finds out who one is; exchanges the token of the address, if there is one. */
  async open(): Promise<void> {
    const address = new URL(location.href)
    const token = address.searchParams.get(TOKEN)
    if (token !== null) {
      address.searchParams.delete(TOKEN)
      history.replaceState(history.state, '', address)
      await this.#ask(json({ token }))
      if (this.signedIn) return
    }
    const refused = this.#problem
    await this.#ask()
    // A token that was used before is no matter where one is signed in already.
    this.#problem = this.signedIn ? null : (refused ?? this.#problem)
  }

  /** Gives a key to the server once. The page does not keep it. */
  async signIn(key: string): Promise<void> {
    await this.#ask(json({ key: key.trim() }))
  }

  async signOut(): Promise<void> {
    await ask('api/session', { method: 'DELETE' }).catch(() => {})
    await this.open()
  }

  async #ask(init?: RequestInit): Promise<void> {
    this.#busy = true
    this.#problem = null
    try {
      this.#view = await ask<SessionView>('api/session', init)
    } catch (error) {
      // A server without access control lets everybody in.
      if (error instanceof ServerRefusal && error.status === 404) this.#view = OPEN
      else this.#problem = error instanceof Error ? error.message : String(error)
    }
    this.#busy = false
  }
}

const OPEN: SessionView = { signedIn: true, reach: 'loopback', key: '', project: 'default', scopes: ['operator'] }
