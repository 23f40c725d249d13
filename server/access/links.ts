// One-time links: who opens one is signed in as the owner of this machine. Kept in memory, so they end with the server.

import { digestOf, isCredential, mint } from './credentials.ts'

const MOST = 100

export class Links {
  /** Digest to the end of its time, milliseconds since the epoch. */
  #open = new Map<string, number>()

  constructor(private readonly now: () => number = Date.now) {}

  make(hours: number): { token: string; expiresAt: number } {
    const token = mint('link')
    const expiresAt = this.now() + hours * 3_600_000
    this.#open.set(digestOf(token), expiresAt)
    if (this.#open.size > MOST) this.#open.delete(this.#open.keys().next().value!)
    return { token, expiresAt }
  }

  /** True once for each token, and only in its time. */
  take(token: string): boolean {
    if (!isCredential(token, 'link')) return false
    const digest = digestOf(token)
    const expiresAt = this.#open.get(digest)
    this.#open.delete(digest)
    return expiresAt !== undefined && expiresAt > this.now()
  }
}
